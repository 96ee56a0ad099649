"""Nodes: the recorded calls that make up a graph.

An *edge* is what a node remembers of one input: None (no gradient wanted), a leaf Tensor, a Node, or an Output of a
node with several outputs. Edges point backwards only, to smaller sequence numbers, and a node never holds its own
output, so a graph dies with its last reference.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from .errors import GradError
from .hook import RemovableHandle, add_hook
from .state import next_seq

if TYPE_CHECKING:
    from .tensor import Tensor


class _Leaf:
    """What a leaf that requires grad has in place of a node. The edge to a leaf is the leaf itself."""

    def __repr__(self) -> str:
        return "LEAF"

    def __reduce__(self) -> str:
        return "LEAF"


LEAF = _Leaf()
_SHOWN = {"input": "self", "out": "result"}
"""PyTorch's names of saved values, where ours differ."""
hooked: dict[int, Any] = {}
"""The leaves that have, or had, hooks; a backward pass counts dependencies only while there are some."""


class Node:
    """One recorded call.

    Slots:
        edges: per input, the edge its gradient travels along.
        saved: the values its formulas ask for, in the order of `keeps`; Freed once backward has let go of them.
        shape, dtype: of the output (NumPy's), which is what an arriving gradient must have.
        seq: sequence number; backward runs the highest first.
        extra: None, or a dict with the rare things: hooks, metadata, the tensor that retains its gradient, a traceback.
        origin: the user's line that made it (see `origin`), left empty where it was not noted.
    """

    __slots__ = ("__weakref__", "dtype", "edges", "extra", "origin", "saved", "seq", "shape")

    op: ClassVar[Any] = None
    inputs: ClassVar[tuple[str, ...]] = ()
    pull: ClassVar[Callable[..., Any]]
    """The formulas: pull(g, saved, edges) returns a gradient per input, None where none is wanted."""
    own_pull: ClassVar[Callable[..., Any] | None] = None
    """In place of formulas: node.own_pull(g, create) returns a gradient or None per input (custom functions)."""
    takes_none: ClassVar[bool] = False
    """Whether the formula accepts None for an output that nothing used; else it receives zeros."""
    holomorphic: ClassVar[bool] = True
    """Whether a complex gradient is conjugated before the formula and its result after it."""
    wants: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Per formula, the names of what it asks for."""
    keeps: ClassVar[tuple[str, ...]] = ()
    """The names of the kept values, each once, in the order of `saved`."""
    saves: ClassVar[bool] = False
    """Whether any formula asks for anything, so that freeing matters."""
    out_names: ClassVar[tuple[str, ...]] = ("out",)
    outs: ClassVar[int] = 1

    edges: tuple[Any, ...]
    saved: Any
    shape: Any
    dtype: Any
    seq: int
    extra: dict[str, Any] | None
    origin: Any

    def name(self) -> str:
        """Return PyTorch's name of the node, e.g. "MulBackward0"."""
        name = type(self).__name__
        return f"torch::autograd::{name}" if name in ("CopySlices", "NotImplemented", "CopyBackwards") else name

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The edges as (node, output number) pairs; (None, 0) where no gradient is wanted."""
        return tuple(as_function(e) for e in self.edges)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own notes on this node."""
        return rare(self).setdefault("metadata", {})

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        """What the gradient of each output must look like."""
        if type(self.shape) is tuple and type(self.dtype) is tuple:
            return tuple(InputMetadata(s, d) for s, d in zip(self.shape, self.dtype) if d is not None)
        return (InputMetadata(self.shape, self.dtype),)

    def _sequence_nr(self) -> int:
        return self.seq

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_inputs, grad_outputs)` after the node has run; a returned tuple replaces grad_inputs."""
        return add_hook(rare(self).setdefault("post", {}), fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_outputs)` before the node runs; a returned tuple replaces grad_outputs."""
        return add_hook(rare(self).setdefault("pre", {}), fn)

    def __init_subclass__(cls) -> None:
        """Give the class a property per value that it keeps, and per input: `_saved_<name>`, `_raw_saved_<name>`.

        Properties, because a `__getattr__` would make every attribute of every node several times slower to read.
        """
        for n in dict.fromkeys((*cls.inputs, *cls.keeps)):
            for shown in {n, _SHOWN.get(n, n)}:
                setattr(cls, f"_saved_{shown}", property(partial(_saved, name=n)))
                setattr(cls, f"_raw_saved_{shown}", property(partial(_raw_saved, name=shown)))

    def __dir__(self) -> Iterator[str]:
        shown = {f"_saved_{_SHOWN.get(n, n)}" for n in self.keeps}
        yield from (n for n in object.__dir__(self) if n in shown or not n.startswith(("_saved_", "_raw_saved_")))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


def _saved(node: Node, name: str) -> Any:
    from .autograd.keeping import saved_value

    return saved_value(node, name)


def _raw_saved(node: Node, name: str) -> Any:
    from .autograd.keeping import raw_value

    return raw_value(node, name)


class Unusual(Exception):
    """Raised inside the engine's loop by what the quick way through it does not serve; never leaves the engine."""


def unusual(g: Any, saved: Any, edges: Any) -> Any:
    """Stand in for the formulas of nodes that have none."""
    raise Unusual


class InputMetadata:
    """Shape and type of one output of a node, which an arriving gradient must have."""

    __slots__ = ("_dtype", "_shape")

    is_nested_tensor = is_cpp_nested_tensor = is_tensor_subclass = False

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self._shape = shape
        self._dtype = dtype

    @property
    def shape(self) -> list[int]:
        """The size of each dimension."""
        return list(self._shape)

    @property
    def dtype(self) -> Any:
        """The element type."""
        from .dtypes import of_numpy

        return of_numpy(self._dtype)

    @property
    def device(self) -> Any:
        """Where the gradient lives: the CPU."""
        from .device import CPU

        return CPU


Node.pull = staticmethod(unusual)


class Freed:
    """What takes the place of saved values once a backward pass has freed them."""

    __slots__ = ("origin", "seq")

    origin: Any
    """The user's line that asked for the pass."""
    seq: int

    def __iter__(self) -> Any:
        raise Unusual


class Output:
    """One output of a node with several: the edge that leads to it. Its gradient waits in the node's list."""

    __slots__ = ("__weakref__", "dtype", "extra", "node", "nr", "seq", "shape")

    saved = own_pull = None
    edges = ()
    pull = staticmethod(unusual)

    def __init__(self, node: Node, nr: int, shape: tuple[int, ...], dtype: Any) -> None:
        self.node = node
        self.nr = nr
        self.shape = shape
        self.dtype = dtype
        self.seq = next_seq()
        self.extra: dict[str, Any] | None = None


class AccumulateGrad:
    """The end of an edge at a leaf, as the public node API shows it. Made when someone looks."""

    __slots__ = ("__weakref__", "_variable")

    def __init__(self, variable: Tensor) -> None:
        self._variable = weakref.ref(variable)

    next_functions = ()

    @property
    def variable(self) -> Tensor | None:
        """The leaf that receives the gradient."""
        return self._variable()

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own notes on this node."""
        return leaf_rare(self._variable()).setdefault("metadata", {})

    def name(self) -> str:
        """Return PyTorch's name of the node."""
        return "torch::autograd::AccumulateGrad"

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        """What the gradient of the leaf must look like."""
        leaf = self._variable()
        return () if leaf is None else (InputMetadata(leaf._array.shape, leaf._array.dtype),)

    def _sequence_nr(self) -> int:
        return 2**64 - 1

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_inputs, grad_outputs)` after the leaf has received its gradient."""
        return add_hook(leaf_rare(self._variable()).setdefault("post", {}), fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_outputs)` before the leaf receives its gradient."""
        return add_hook(leaf_rare(self._variable()).setdefault("pre", {}), fn)

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"


def rare(node: Node | Output) -> dict[str, Any]:
    """Return the node's dictionary of rare things, making it if needed."""
    if node.extra is None:
        node.extra = {}
    return node.extra


def leaf_rare(leaf: Any) -> dict[str, Any]:
    """Return the leaf's dictionary of rare things, making it if needed."""
    if leaf is None:
        raise GradError("AccumulateGrad: its leaf is gone; keep a reference to the tensor or to its graph")
    if leaf._extra is None:
        leaf._extra = {}
        key = id(leaf)
        hooked[key] = weakref.ref(leaf, lambda _: hooked.pop(key, None))
    extra: dict[str, Any] = leaf._extra
    return extra


def accumulator(leaf: Tensor) -> AccumulateGrad:
    """Return the one AccumulateGrad of a leaf."""
    found = leaf._accumulator
    if found is None:
        found = leaf._accumulator = AccumulateGrad(leaf)
    return found


def as_function(edge: Any) -> tuple[Any, int]:
    """Return an edge as PyTorch's (node, output number) pair."""
    if edge is None:
        return None, 0
    if isinstance(edge, Node):
        return edge, 0
    if type(edge) is Output:
        return edge.node, edge.nr
    return accumulator(edge), 0


class GradientEdge(NamedTuple):
    """A place in the graph: output `output_nr` of `node`. Usable where `backward` and `grad` take tensors."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def edge_of(place: GradientEdge) -> Any:
    """Return the edge that leads to a place in the graph.

    Raises:
        GradError: the place is the accumulator of a leaf that is gone.
    """
    node, nr, token = place
    if token is not None:
        return token
    if isinstance(node, AccumulateGrad):
        if node.variable is None:
            raise GradError("GradientEdge: the leaf that it names is gone; keep a reference to it")
        return node.variable
    if type(node.dtype) is not tuple:
        return node
    return Output(node, nr, node.shape[nr], node.dtype[nr])
