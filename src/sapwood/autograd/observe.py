"""What the unusual modes do to a freshly recorded node: saved-tensor hooks and anomaly mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar

from numpy import ndarray

from .. import alias
from ..errors import ArgumentError, GradError
from ..node import Node, rare
from ..origin import is_own
from ..state import ANOMALY, OBSERVE, PACK, get_mode, mode
from ..tensor import Tensor, wrap
from .keeping import Packed, PackedValue, as_tensor

_hooks: ContextVar[tuple[tuple[Any, Any], ...]] = ContextVar("sapwood_saved_hooks", default=())

_disabled: ContextVar[str | None] = ContextVar("sapwood_saved_hooks_disabled", default=None)


def observed(node: Node, word: int) -> None:
    """Apply the modes in `word` to a node that was just recorded."""
    if word & ANOMALY:
        import traceback

        stack = traceback.extract_stack()[:-4]
        rare(node)["traceback"] = lines = [f for f in stack if not is_own(f.filename)] or stack
        node.metadata["traceback_"] = traceback.format_list(lines)
    if word & PACK and node.saves:
        _pack(node, *saved_hooks())


def saved_hooks() -> tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]]:
    """Return the innermost pair of hooks."""
    return _hooks.get()[-1]


def call_pack(pack: Callable[[Tensor], Any], tensor: Tensor) -> Any:
    """Run a pack hook; what it does itself is not packed again.

    Raises:
        GradError: it has written to the tensor.
    """
    token = mode.set(get_mode() & ~PACK)
    before = alias.record_of(tensor)
    seq = before.seq if before else 0
    try:
        packed = pack(tensor)
    finally:
        mode.reset(token)
    after = alias.record_of(tensor)
    if after is not None and after.seq != seq:
        raise GradError(
            f"saved_tensors_hooks: pack has written to the tensor it was given ({after.op}), which is the program's "
            "own; change a clone() of it"
        )
    return packed


def _pack(node: Node, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> None:
    names = (*node.inputs, *node.out_names)

    def one(tensor: Tensor) -> PackedValue:
        return PackedValue(call_pack(pack, tensor.detach() if tensor.grad_fn is node else tensor), unpack)

    def packed(name: str, value: Any) -> Any:
        if name not in names:
            return value
        if type(value) is ndarray:
            return one(as_tensor(node, name, value))
        if type(value) is tuple:
            # A list input, whose members may be numbers or None as well.
            members = as_tensor(node, name, value)
            return tuple(
                one(t if isinstance(t, Tensor) else wrap(a)) if type(a) is ndarray else a
                for a, t in zip(value, members)
            )
        return value

    node.saved = Packed(tuple(packed(n, v) for n, v in zip(node.keeps, node.saved)))


class _Within:
    """A context that adds something to those who see calls inside, and says so in the mode word."""

    _seeing: ClassVar[ContextVar[Any]]
    _bit: ClassVar[int]

    def __init__(self, entry: Any) -> None:
        self._entry = entry
        self._tokens: list[Any] = []

    def __enter__(self) -> Any:
        others = self._seeing.set((*self._seeing.get(), self._entry))
        self._tokens.append((others, mode.set(get_mode() | self._bit)))
        return self

    def __exit__(self, *exception: object) -> None:
        others, word = self._tokens.pop()
        mode.reset(word)
        self._seeing.reset(others)


_watchers: ContextVar[tuple[Callable[..., None], ...]] = ContextVar("sapwood_watchers", default=())


def called(op: Any, inputs: tuple[Any, ...], outputs: Any) -> None:
    """Tell the watchers of a call; what they compute is not observed."""
    token = mode.set(get_mode() & ~OBSERVE)
    try:
        for observer in _watchers.get():
            observer(op, inputs, outputs)
    finally:
        mode.reset(token)


class watch_calls(_Within):
    """Call `observer(op, inputs, outputs)` after every op inside: the declaration, the operands, the result Tensors."""

    _seeing, _bit = _watchers, OBSERVE


class saved_tensors_hooks(_Within):
    """Pass every tensor saved inside through `pack_hook`, and through `unpack_hook` when backward uses it.

    Args:
        pack_hook: called with the tensor when it is saved; what it returns is kept instead.
        unpack_hook: called with that; returns a tensor of the same content.
    """

    _seeing, _bit = _hooks, PACK

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook
        super().__init__((pack_hook, unpack_hook))

    def __enter__(self) -> Any:
        for name, hook in ("pack", self.pack_hook), ("unpack", self.unpack_hook):
            if not callable(hook):
                raise ArgumentError(f"saved_tensors_hooks: {name} must be a function, got {type(hook).__name__}")
        if (why := _disabled.get()) is not None:
            raise GradError(f"saved_tensors_hooks: they are disabled here: {why}")
        super().__enter__()


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


_observers: ContextVar[tuple[Callable[..., Any], ...]] = ContextVar("sapwood_observers", default=())


class observing(_Within):
    """Show every op call inside to `observer(op, name, inputs, attrs, compute)`, which returns the result.

    The observer stands around the computation and may answer in its place; those of `watch_calls` look at what is
    recorded afterwards.

    Args:
        observer: `name` is the op's, with an underscore at its end for a write in place; `inputs` are Tensors and
            numbers; `compute()` evaluates the op and returns its arrays. What the observer calls is not observed.
    """

    _seeing, _bit = _observers, OBSERVE


_readers: ContextVar[tuple[Callable[..., None], ...]] = ContextVar("sapwood_readers", default=())


class watch_reads(_Within):
    """Call `reader(what, tensor)` whenever the program inside takes the elements of a tensor out, as `item()` does."""

    _seeing, _bit = _readers, OBSERVE


def told_read(what: str, tensor: Any) -> None:
    """Tell the readers that elements were taken out; what they compute is not observed."""
    token = mode.set(get_mode() & ~OBSERVE)
    try:
        for reader in _readers.get():
            reader(what, tensor)
    finally:
        mode.reset(token)


def observe(op: Any, name: str, inputs: Any, attrs: Any, compute: Callable[[], Any]) -> Any:
    """Let the observers see a call, the innermost first, and return its result."""
    word = get_mode()

    def level(i: int) -> Any:
        if i < 0:
            return compute()
        return observers[i](op, name, inputs, attrs, lambda: level(i - 1))

    observers = _observers.get()
    token = mode.set(word & ~(OBSERVE | PACK))
    try:
        return level(len(observers) - 1)
    finally:
        mode.reset(token)
