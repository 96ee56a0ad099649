"""One checkpointed call: what it saved is forgotten, and computed again when backward asks for it.

    forward:   every saved tensor becomes a Holder, which knows its number and nothing else
    backward:  the first Holder that is unpacked runs the function again; the tensors that this run saves go, number
               by number, to the Holders that still exist, and each is given out once

The run happens once per pass of the engine. Its values are kept under the pass, so that what the pass did not ask for
goes when the pass ends, and a second pass over a retained graph runs the function once more.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ... import alias
from ...autograd import hooks
from ...autograd.mode import enable_grad
from ...autograd.observe import call_pack, saved_hooks, saved_tensors_hooks
from ...errors import GradError, OverwrittenError
from ...node import LEAF
from ...state import PACK, get_mode, next_seq
from ...tensor import Tensor, wrap


class CheckpointError(GradError):
    """The recomputation of a checkpointed function did not do what its first run did."""


class StopRecomputation(BaseException):
    """Ends a recomputation that has all it needs. No Exception, so that user code does not catch it by accident."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame


class GraphExecGroup:
    """Let all passes inside share recomputations: a checkpointed call runs again once for all of them.

    The passes must not use the same saved value twice.
    """

    __slots__ = ("__weakref__",)

    def __enter__(self) -> GraphExecGroup:
        if _group.get() is not None:
            raise GradError("GraphExecGroup: groups cannot be nested; leave the other group first")
        _group.set(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _group.set(None)

    @classmethod
    def _get_current_group(cls) -> GraphExecGroup | None:
        return _group.get()


_group: ContextVar[GraphExecGroup | None] = ContextVar("sapwood_graph_exec_group", default=None)


class Holder:
    """What a node keeps in place of a saved tensor: its number among those of the call."""

    __slots__ = ("__weakref__", "number")

    def __init__(self, number: int) -> None:
        self.number = number


class Argument:
    """A tensor argument, kept for the recomputation; inside another checkpointed call that one's Holder keeps it."""

    __slots__ = ("array", "edge", "leaf", "packed", "seq", "unpack")

    def __init__(self, tensor: Tensor) -> None:
        self.leaf = tensor if tensor._node is None or tensor._node is LEAF else None
        self.edge = None if self.leaf is not None else tensor._node
        self.seq = next_seq()
        self.unpack: Any = None
        self.array: Any = tensor._array
        if get_mode() & PACK:
            pack, self.unpack = saved_hooks()
            self.packed = call_pack(pack, tensor)
            self.array = None
            if tensor._node is not LEAF:
                self.leaf = None

    def restore(self, number: Any) -> Tensor:
        """Return the tensor at its place in the graph.

        Raises:
            OverwrittenError: it was written over since.
        """
        if self.unpack is not None:
            array = self.unpack(self.packed)._array
            return wrap(array, self.edge) if self.leaf is None else self.leaf
        check_intact(self.array, self.seq, f"argument {number} of the checkpointed function")
        return wrap(self.array, self.edge) if self.leaf is None else self.leaf


def check_intact(array: Any, seq: int, what: str) -> None:
    """Raise if the memory of `array` was written to after `seq`.

    Raises:
        OverwrittenError: naming what was written over, and by which op.
    """
    record = alias.stamp_of(array)
    if record is not None and record.seq > seq:
        raise OverwrittenError(
            f"checkpoint: {what}, {array.dtype} {array.shape}, was written over by {record.op} before backward needed "
            "it; use the out-of-place form, or pass a clone"
        )


class Frame:
    """The state of one checkpointed call.

    Args:
        run: calls the function again with its arguments, in the conditions of the first run.
        early_stop: end a recomputation with the last tensor that is needed.
        compare: whether the recomputed tensors must have the shapes and dtypes of the first ones.
        explain: returns text to add to a CheckpointError.
    """

    observer: Callable[[Frame], None] | None = None
    """Called after each recomputation; set by measurements."""

    def __init__(
        self, run: Callable[..., Any], *, early_stop: bool, compare: bool, explain: Callable[[], str] | None = None
    ) -> None:
        self.run = run
        self.early_stop = early_stop
        self.compare = compare
        self.explain = explain
        self.arguments: tuple[Any, ...] = ()
        self.named: dict[str, Any] = {}
        self.holders: list[weakref.ref[Holder]] = []
        self.specs: list[tuple[Any, ...]] = []
        self.values: weakref.WeakKeyDictionary[Any, dict[int, Any]] = weakref.WeakKeyDictionary()
        self.complete = False
        """Whether the first run is over; a backward inside the function recomputes while it is not."""
        self.lenient = False

    def keep(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep the arguments for the recomputation."""
        self.arguments = tuple(Argument(a) if isinstance(a, Tensor) else a for a in args)
        self.named = {k: Argument(a) if isinstance(a, Tensor) else a for k, a in kwargs.items()}

    def pack(self, tensor: Tensor) -> Holder:
        """Give a tensor saved in the first run its number, and forget it."""
        holder = Holder(len(self.holders))
        self.holders.append(weakref.ref(holder))
        self.specs.append(_spec(tensor))
        return holder

    def unpack(self, holder: Holder) -> Tensor:
        """Return the recomputed tensor of a holder, which is given out once per pass.

        Raises:
            CheckpointError: it was given out already, or the recomputation differed from the first run.
            OverwrittenError: the function itself wrote over it later on.
        """
        key: Any = _group.get() or hooks.current.get()
        if key is None:
            key = hooks.Pass((), None, None)  # somebody looks at node._saved_…: computed for this look only
        values = self.values.get(key)
        if values is None:
            values = self.recompute(key)
        found = values.pop(holder.number, None)
        if found is None:
            raise CheckpointError(
                "checkpoint: a recomputed tensor is given out once per backward, and was asked for again; a custom "
                "backward should read ctx.saved_tensors once, into variables"
            )
        array, seq = found
        check_intact(array, seq, f"the recomputed saved tensor {holder.number}")
        return wrap(array)

    def recompute(self, key: Any) -> dict[int, Any]:
        """Run the function again, collect what it saves, and return that by number."""
        arguments = [a.restore(i) if type(a) is Argument else a for i, a in enumerate(self.arguments)]
        named = {k: a.restore(k) if type(a) is Argument else a for k, a in self.named.items()}
        values: dict[int, Any] = {}
        self.values[key] = values
        count = 0

        def pack(tensor: Tensor) -> Tensor:
            nonlocal count
            number, count = count, count + 1
            kept = tensor.detach()
            if number >= len(self.holders):
                if self.complete:
                    raise self.mismatch(
                        f"the recomputation saves more tensors than the {len(self.holders)} of the first run"
                    )
                self.lenient = True
                return kept
            if self.holders[number]() is not None:
                values[number] = tensor._array, next_seq()
            if self.early_stop and count == len(self.holders):
                raise StopRecomputation(self)
            return kept

        try:
            with saved_tensors_hooks(pack, _same), enable_grad():
                self.run(arguments, named)
        except StopRecomputation as stop:
            if stop.frame is not self:
                raise
        except BaseException:
            del self.values[key]
            raise
        if not self.lenient:
            self.check(count, values)
        if Frame.observer is not None:
            Frame.observer(self)
        return values

    def check(self, count: int, values: dict[int, Any]) -> None:
        """Raise unless the recomputation saved what the first run had saved.

        Raises:
            CheckpointError: another number of tensors, or other shapes or dtypes.
        """
        if count != len(self.holders):
            raise self.mismatch(f"the first run saved {len(self.holders)} tensors, the recomputation {count}")
        if not self.compare:
            return
        different = [
            f"  saved tensor {i}: {self.specs[i][0]} {self.specs[i][1]} at first, {array.dtype} {array.shape} now"
            for i, (array, _) in values.items()
            if (array.dtype, array.shape) != self.specs[i]
        ]
        if different:
            raise self.mismatch("the recomputed tensors differ from those of the first run:\n" + "\n".join(different))

    def mismatch(self, what: str) -> CheckpointError:
        """Return the error of a recomputation that differs."""
        advice = (
            self.explain()
            if self.explain is not None
            else "pass debug=True to checkpoint(), or use set_checkpoint_debug_enabled(True), to see where they part"
        )
        return CheckpointError(
            f"checkpoint: {what}. The function must do the same at every run (does it depend on state that has "
            f"changed since?); {advice}"
        )


def _spec(tensor: Tensor) -> tuple[Any, ...]:
    return tensor._array.dtype, tensor._array.shape


def _same(tensor: Tensor) -> Tensor:
    return tensor
