"""class Tensor: an array with a place in a graph.

Only what a tensor *is* lives here: its slots, its place in the graph, its description. Arithmetic and every other op
is installed by the op declarations; conversions to and from NumPy and Python live in `interop`.
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from . import alias, dtypes
from .cuts import note
from .device import CPU, device
from .dtypes import dtype
from .errors import DtypeError, GradError, ShapeError
from .hook import RemovableHandle, add_hook
from .installed import Installed
from .interop import Interop
from .node import LEAF, Node, Output, as_function, leaf_rare, rare
from .state import GRAD, get_mode

new = object.__new__


class Size(tuple[int, ...]):
    """The sizes of a tensor's dimensions: a tuple that prints as PyTorch's."""

    __slots__ = ()

    def numel(self) -> int:
        """Return the number of elements of a tensor of this size."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __getitem__(self, index: Any) -> Any:
        picked = tuple.__getitem__(self, index)
        return Size(picked) if isinstance(index, slice) else picked

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, tuple(other)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)


class Tensor(Installed, Interop):
    """A multi-dimensional array of one dtype that can be part of a computation graph.

    `Tensor(sequence)` makes a tensor of the default floating-point type, `Tensor(2, 3)` an uninitialised one of that
    size; `sapwood.tensor` is the constructor that infers the type.
    """

    __slots__ = ("__dict__", "__weakref__", "_array", "_node")

    _array: ndarray[Any, Any]
    _node: Any
    """None: no gradient wanted. LEAF: a leaf that requires grad. A Node or Output: what made the tensor."""

    # Rare state: class-level defaults, an entry in the instance's dictionary only where it differs.
    _grad: Tensor | None = None
    _extra: dict[str, Any] | None = None
    _accumulator: Any = None
    _base: Tensor | None = None
    _views: list[Any] | None = None
    _view_kind: str = ""
    _record: Any = None
    _inference: bool = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Tensor:
        from .ops.legacy import legacy_constructor

        return legacy_constructor(cls, *args, **kwargs)

    # -- description ------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The size of each dimension."""
        return Size(self._array.shape)

    def size(self, dim: int | None = None) -> Any:
        """Return the size of every dimension, or of dimension `dim`."""
        shape = self._array.shape
        return Size(shape) if dim is None else shape[check_dim("size", dim, len(shape))]

    @property
    def dtype(self) -> dtype:
        """The element type."""
        return dtypes.of_numpy(self._array.dtype)

    @property
    def device(self) -> device:
        """Where the tensor lives: the CPU."""
        return CPU

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self._array.ndim

    def numel(self) -> int:
        """Return the number of elements."""
        return self._array.size

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return self._array.itemsize

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self._array.nbytes

    def stride(self, dim: int | None = None) -> Any:
        """Return the step, in elements, between neighbours along each dimension, or along `dim`."""
        strides = alias.element_strides(self._array)
        return strides if dim is None else strides[check_dim("stride", dim, len(strides))]

    def storage_offset(self) -> int:
        """Return where, in elements, the tensor begins within its storage."""
        return alias.offset_in_storage(self._array)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Return whether the elements lie in memory in row-major order without gaps."""
        return bool(self._array.flags.c_contiguous)

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return alias.address(self._array)

    def is_floating_point(self) -> bool:
        """Return whether the dtype is a floating-point type."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Return whether the dtype is complex."""
        return self._array.dtype.kind == "c"

    def is_signed(self) -> bool:
        """Return whether the dtype has negative values."""
        return self.dtype.is_signed

    def is_inference(self) -> bool:
        """Return whether the tensor was made under `inference_mode`."""
        return self._inference

    def get_device(self) -> int:
        """Return -1: the CPU has no device number."""
        return -1

    is_cuda = is_sparse = is_quantized = is_meta = is_mkldnn = is_mps = is_xpu = is_nested = False
    layout = "torch.strided"
    name = None

    # -- place in the graph -----------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to or through this tensor."""
        if self._node is not None:
            return True
        base = self._base
        return base is not None and base._node is not None and self.dtype.is_differentiable

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not self.is_leaf:
            raise GradError(
                f"requires_grad: it can be assigned on a leaf only, this tensor was made by "
                f"{as_function(self._node)[0].name()}; use tensor.detach() to get one outside the graph"
            )
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set whether this leaf wants a gradient; return it.

        Raises:
            GradError: turning it off on a tensor that an op made, or on for an inference tensor.
            DtypeError: the dtype is neither floating-point nor complex.
        """
        node = self._node
        if bool(requires_grad) == (node is not None):
            return self
        if not requires_grad:
            if node is not LEAF:
                raise GradError(
                    "requires_grad_: only a leaf can stop requiring grad, this tensor was made by "
                    f"{as_function(node)[0].name()}; use tensor.detach() to get one outside the graph"
                )
            self._node = None
            self._freeze()
            return self
        if not self.dtype.is_differentiable:
            raise DtypeError(
                f"requires_grad_: only floating-point and complex tensors can require gradients, this one is "
                f"{self.dtype.name}; convert it first, e.g. tensor.float()"
            )
        if self._inference and not get_mode() & 2:
            raise GradError("requires_grad_: an inference tensor cannot require grad; use tensor.clone() first")
        self._node = LEAF
        if self._extra is not None and self._extra.pop("off", None) is not None and not self._extra:
            self._extra = None
        return self

    def _freeze(self) -> None:
        """Note that this leaf wants no gradient any more, which graphs that were built before must respect."""
        # Not by `leaf_rare`: a pass need not count what arrives at it.
        self._extra = (self._extra or {}) | {"off": weakref.ref(self)}

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made this tensor."""
        node = self._node
        return node is None or node is LEAF

    @property
    def grad_fn(self) -> Node | None:
        """The node that made this tensor, None for a leaf."""
        node = self._node
        if node is None or node is LEAF:
            return None
        if type(node) is Output:
            return node.node
        found: Node = node
        if found.name() == "Invalid":
            raise GradError(
                "grad_fn: this view cannot follow a change of its base, which was written to in place: it comes from "
                "an op that returns several views, was made under no_grad, or by a custom Function; clone it first"
            )
        return found

    @property
    def output_nr(self) -> int:
        """Which output of `grad_fn` this tensor is."""
        return self._node.nr if type(self._node) is Output else 0

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward left here: of leaves, and of tensors that `retain_grad` marked."""
        grad = self._grad
        if grad is None and self._node is not None and self._node is not LEAF and not self.retains_grad:
            warnings.warn(
                "tensor.grad: this tensor is not a leaf, so backward() does not keep its gradient; call "
                "tensor.retain_grad() before backward() to see it, or read the gradient of the leaf you meant",
                UserWarning,
                stacklevel=2,
            )
        return grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            self._check_grad(value)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    def _check_grad(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise DtypeError(f"grad: a tensor or None can be assigned, got {type(value).__name__}")
        if value is self:
            raise GradError("grad: a tensor cannot be its own gradient")
        if value._array.shape != self._array.shape:
            raise ShapeError(
                f"grad: the gradient must have the tensor's shape {self._array.shape}, got {value._array.shape}"
            )
        wanted = self.grad_dtype if self.is_leaf else self.dtype
        if wanted is not None and value.dtype is not wanted:
            like = "like the tensor" if wanted is self.dtype else "as its grad_dtype says"
            raise DtypeError(f"grad: the gradient must be {wanted.name} {like}, got {value.dtype.name}")

    @property
    def grad_dtype(self) -> dtypes.dtype | None:
        """The type of this leaf's gradient: gradients are converted to it on arrival; None lets them be.

        Raises:
            GradError: the tensor is no leaf; or it has a gradient of another type than the one assigned.
        """
        if not self.is_leaf:
            raise GradError("grad_dtype: only leaves have one; backward keeps the gradient of a non-leaf in its dtype")
        chosen = None if self._extra is None else self._extra.get("dtype")
        return self.dtype if chosen is None else chosen[0]

    @grad_dtype.setter
    def grad_dtype(self, value: dtypes.dtype | None) -> None:
        if not self.is_leaf:
            raise GradError("grad_dtype: it can be set on a leaf only; convert the gradient of a non-leaf with a hook")
        if value is not None and not isinstance(value, dtype):
            raise GradError(f"grad_dtype: a dtype or None must be assigned, got {type(value).__name__}")
        if value is not None and self._grad is not None and self._grad.dtype is not value:
            raise GradError(
                f"grad_dtype: this tensor has a gradient of type {self._grad.dtype.name}, which would not fit to "
                f"{value.name}; set .grad = None first"
            )
        leaf_rare(self)["dtype"] = value, weakref.ref(self)

    @property
    def retains_grad(self) -> bool:
        """Whether this non-leaf keeps its gradient in `.grad`."""
        node = self._node
        if node is None or node is LEAF or node.extra is None:
            return False
        kept = node.extra.get("retain")
        return kept is not None and kept() is self

    def retain_grad(self) -> None:
        """Keep this non-leaf's gradient in `.grad` at the next backward; nothing to do for a leaf.

        Raises:
            GradError: the tensor does not require grad.
        """
        node = self._node
        if node is None:
            raise GradError("retain_grad: this tensor does not require grad, so it will have no gradient to keep")
        if node is not LEAF:
            rare(node)["retain"] = weakref.ref(self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call `hook(grad)` when the gradient of this tensor is complete; a returned tensor replaces it.

        Raises:
            GradError: the tensor does not require grad.
        """
        node = self._node
        if node is None:
            raise GradError("register_hook: this tensor does not require grad, so no gradient will reach the hook")
        extra = leaf_rare(self) if node is LEAF else rare(node)
        if type(node) is Output:
            # So that the hook learns, too, if its output was not used.
            rare(node.node).setdefault("hooked", {})[node.nr] = weakref.ref(node)
        return add_hook(extra.setdefault("tensor", {}), hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call `hook(self)` each time this leaf's `.grad` has been updated.

        Raises:
            GradError: the tensor is not a leaf that requires grad.
        """
        if self._node is not LEAF:
            raise GradError(
                "register_post_accumulate_grad_hook: gradients accumulate in leaves that require grad, and this "
                "tensor is not one; use register_hook for a non-leaf"
            )
        return add_hook(leaf_rare(self).setdefault("accumulated", {}), hook)

    def detach(self) -> Tensor:
        """Return a tensor on the same memory that is not part of any graph."""
        out: Tensor = new(InferenceTensor if self._inference else Tensor)
        out._array = self._array
        out._node = None
        if self._record is not None:
            out._record = self._record
        if self._node is not None:
            note("detach()", self, out)
        return out

    def detach_(self) -> Tensor:
        """Take this tensor out of its graph, making it a leaf; graphs already built from it stay as they are.

        Raises:
            GradError: the tensor is a view, whose base would keep the graph.
        """
        if self._base is not None:
            raise GradError("detach_: a view cannot leave the graph of its base; use tensor.detach() for a new tensor")
        if self._node is not None:
            note("detach_()", self, self)
        if self._node is LEAF:
            self._freeze()
        self._node = None
        return self

    @property
    def data(self) -> Tensor:
        """The same memory outside the graph and with a version counter of its own: writes to it go unnoticed."""
        out = wrap(self._array)
        out._record = alias.Record()
        if self._node is not None:
            note(".data", self, out)
        return out

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise DtypeError(f"data: a tensor must be assigned, got {type(value).__name__}")
        if self._node is not None and not value.dtype.is_differentiable:
            raise GradError(
                f"data: this tensor requires grad, so it must stay floating-point or complex, got {value.dtype.name}"
            )
        alias.replace_data(self, value._array)

    @property
    def _version(self) -> int:
        if self._inference:
            raise GradError("_version: inference tensors do not count their writes")
        return alias.version(self)

    @property
    def _backward_hooks(self) -> dict[int, Any] | None:
        extra = self._extra if self._node is LEAF else None if self._node is None else self._node.extra
        return (extra or {}).get("tensor")

    def _is_view(self) -> bool:
        return self._base is not None

    def _repr_html_(self) -> str | None:
        """Return what a notebook shows: figures and a picture beside the text, None for a few elements."""
        from .viz.notebook import tensor_html

        return tensor_html(self)


class Parameter(Tensor):
    """A tensor that a Module registers as its own when assigned to an attribute.

    Args:
        data: the values; a Tensor is shared, not copied.
        requires_grad: whether it is trained.
    """

    __slots__ = ()

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = wrap(np.empty(0, dtypes.get_default_dtype().numpy))
        out: Parameter = new(cls)
        out._array = data._array
        out._node = None
        if requires_grad:
            out.requires_grad_()
        return out

    def __repr__(self) -> str:
        return self._text("Parameter containing:\ntensor(")


class InferenceTensor(Tensor):
    """A tensor made under `inference_mode`. A type of its own, so that the flat wrappers hand it to the slow path."""

    __slots__ = ()

    _inference = True


InferenceTensor.__name__ = "Tensor"


def wrap(array: ndarray[Any, Any], node: Any = None) -> Tensor:
    """Return a Tensor on `array`, at `node` of the graph."""
    t: Tensor = new(Tensor)
    t._array = array
    t._node = node
    return t


def check_dim(op: str, dim: int, ndim: int) -> int:
    """Return `dim` counted from the front.

    Raises:
        DimError: out of range; a 0-dim tensor accepts 0 and -1.
    """
    bound = ndim or 1
    if not -bound <= dim < bound:
        from .errors import DimError

        raise DimError(f"{op}: dim must lie in [{-bound}, {bound - 1}] for a tensor of {ndim} dimensions, got {dim}")
    return dim % bound


def recording() -> bool:
    """Return whether calls are recorded here and now."""
    return bool(get_mode() & GRAD)
