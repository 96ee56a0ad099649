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
from ..origin import is_own
from ..state import ANOMALY, OBSERVE, PACK, get_mode, mode
from ..tensor import Tensor
from .saved import Packed, PackedValue, as_tensor

_hooks: ContextVar[tuple[tuple[Any, Any], ...]] = ContextVar("sapwood_saved_hooks", default=())


def observed(node: Node, word: int) -> None:
    """Apply the modes in `word` to a node that was just recorded."""
    if word & ANOMALY:
        stack = traceback.extract_stack()[:-4]
        rare(node)["traceback"] = [f for f in stack if not is_own(f.filename)] or stack
    if word & PACK and node.saves:
        pack, unpack = _hooks.get()[-1]
        if isinstance(pack, str):
            raise GradError(f"saved_tensors_hooks: they are disabled here: {pack}")
        _pack(node, pack, unpack)


def _pack(node: Node, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> None:
    names = (*node.inputs, *node.out_names)

    def packed(name: str, value: Any) -> Any:
        if type(value) is not ndarray or name not in names:
            return value
        tensor = as_tensor(node, name, value)
        word = get_mode()
        token = mode.set(word & ~PACK)
        try:
            return PackedValue(pack(tensor.detach() if tensor.grad_fn is node else tensor))
        finally:
            mode.reset(token)

    node.saved = Packed(
        tuple(
            None if values is None else tuple(packed(n, v) for n, v in zip(names_, values))
            for names_, values in zip(node.wants, node.saved)
        ),
        unpack,
    )


_observers: ContextVar[tuple[Callable[..., None], ...]] = ContextVar("sapwood_observers", default=())


def called(op: Any, inputs: tuple[Any, ...], outputs: Any) -> None:
    """Tell the observers of a call; what they compute is not observed."""
    token = mode.set(get_mode() & ~OBSERVE)
    try:
        for observer in _observers.get():
            observer(op, inputs, outputs)
    finally:
        mode.reset(token)


class watch_calls:
    """Call `observer(op, inputs, outputs)` after every op inside: the declaration, the operands, the result Tensors."""

    def __init__(self, observer: Callable[..., None]) -> None:
        self.observer = observer
        self._tokens: list[Any] = []

    def __enter__(self) -> None:
        observers = _observers.set((*_observers.get(), self.observer))
        self._tokens.append((observers, mode.set(get_mode() | OBSERVE)))

    def __exit__(self, *exception: object) -> None:
        observers, word = self._tokens.pop()
        mode.reset(word)
        _observers.reset(observers)


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

    def __enter__(self) -> None:
        hooks = _hooks.set((*_hooks.get(), (self.pack_hook, self.unpack_hook)))
        self._tokens.append((hooks, mode.set(get_mode() | PACK)))

    def __exit__(self, *exception: object) -> None:
        hooks, word = self._tokens.pop()
        mode.reset(word)
        _hooks.reset(hooks)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Raise `error_message` if anything is saved through hooks inside."""
    token = _hooks.set((*_hooks.get(), (error_message, None)))
    try:
        yield
    finally:
        _hooks.reset(token)
