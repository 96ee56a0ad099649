"""What the unusual modes do to a freshly recorded node: saved-tensor hooks and anomaly mode."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from numpy import ndarray

from ..errors import GradError
from ..node import Node, rare
from ..state import ANOMALY, PACK, get_mode, mode
from ..tensor import Tensor
from .saved import Packed, PackedValue, as_tensor

_hooks: ContextVar[tuple[tuple[Any, Any], ...]] = ContextVar("sapwood_saved_hooks", default=())

_disabled: ContextVar[str | None] = ContextVar("sapwood_saved_hooks_disabled", default=None)


def observed(node: Node, word: int) -> None:
    """Apply the modes in `word` to a node that was just recorded."""
    if word & ANOMALY:
        rare(node)["traceback"] = traceback.extract_stack()[:-4]
    if word & PACK and node.saves:
        _pack(node, *_hooks.get()[-1])


def innermost() -> tuple[Any, Any] | None:
    """Return the saved-tensor hooks that apply here and now."""
    return _hooks.get()[-1] if get_mode() & PACK else None


def _pack(node: Node, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> None:
    names = (*node.inputs, *node.out_names)

    def packed(name: str, value: Any) -> Any:
        if type(value) is not ndarray or name not in names:
            return value
        tensor = as_tensor(node, name, value)
        word = get_mode()
        token = mode.set(word & ~PACK)
        try:
            return PackedValue(pack(tensor.detach() if tensor.grad_fn is node else tensor), unpack)
        finally:
            mode.reset(token)

    node.saved = Packed(
        tuple(
            None if values is None else tuple(packed(n, v) for n, v in zip(names_, values))
            for names_, values in zip(node.wants, node.saved)
        )
    )


class saved_tensors_hooks:
    """Pass every tensor saved inside through `pack_hook`, and through `unpack_hook` when backward uses it.

    Args:
        pack_hook: called with the tensor when it is saved; what it returns is kept instead.
        unpack_hook: called with that; returns a tensor of the same content.
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook
        self._tokens: list[Any] = []

    def __enter__(self) -> Any:
        if (why := _disabled.get()) is not None:
            raise GradError(f"saved_tensors_hooks: they are disabled here: {why}")
        hooks = _hooks.set((*_hooks.get(), (self.pack_hook, self.unpack_hook)))
        self._tokens.append((hooks, mode.set(get_mode() | PACK)))

    def __exit__(self, *exception: object) -> None:
        hooks, word = self._tokens.pop()
        mode.reset(word)
        _hooks.reset(hooks)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Raise `error_message` when saved-tensor hooks are entered inside.

    Raises:
        GradError: hooks are active already.
    """
    if _hooks.get():
        raise GradError(f"disable_saved_tensors_hooks: hooks are active here already: {error_message}")
    token = _disabled.set(error_message)
    try:
        yield
    finally:
        _disabled.reset(token)
