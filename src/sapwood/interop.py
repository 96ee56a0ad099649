"""Tensors and the world outside: Python numbers, NumPy, pickle, copies, DLPack, printing."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy import ndarray

from .cuts import note, read
from .errors import ArgumentError, DtypeError, GradError, ShapeError, ValueRangeError


class _NotExportableError(GradError, BufferError):
    """A tensor that DLPack cannot carry: PyTorch raises BufferError."""


class Interop:
    """The conversions of Tensor, kept apart from what a tensor is."""

    __slots__ = ()

    _array: ndarray[Any, Any]
    _node: Any

    # -- Python numbers ---------------------------------------------------------------------------------------------

    def item(self) -> Any:
        """Return the only element as a Python number.

        Raises:
            ShapeError: the tensor has no or several elements.
        """
        a = self._array
        if a.size != 1:
            raise ShapeError(
                f"item: a tensor of one element can become a Python number, this one has {a.size} (shape {a.shape})"
            )
        if self._node is not None:
            note("item()", self)
        read("item()", self)
        value = a.item()
        return float(value) if a.dtype.kind == "V" or a.dtype.name == "bfloat16" else value

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers, a number for a 0-dim tensor."""
        a = self._array
        if self._node is not None:
            note("tolist()", self)
        read("tolist()", self)
        return (a.astype(np.float32) if a.dtype.name == "bfloat16" else a).tolist()

    def __bool__(self) -> bool:
        if self._array.size != 1:
            raise ShapeError(
                f"bool: the truth of a tensor of {self._array.size} elements is ambiguous; use .any() or .all()"
            )
        read("bool()", self)
        return bool(self._array.item())

    def __int__(self) -> int:
        return int(self._number("int"))

    def __float__(self) -> float:
        return float(self._number("float"))

    def __complex__(self) -> complex:
        return complex(self._number("complex"))

    def __index__(self) -> int:
        if self._array.dtype.kind not in "iub" or self._array.size != 1:
            raise ArgumentError(f"index: only an integer tensor of one element can be an index, got {self!r}")
        read("int()", self)
        return int(self._array.item())

    def _number(self, kind: str) -> Any:
        if self._array.size != 1:
            raise ValueRangeError(
                f"{kind}: a tensor of one element can become a Python number, this one has shape {self._array.shape}"
            )
        if self._array.dtype.kind == "c" and kind != "complex":
            read(f"{kind}()", self)
            value = complex(self._array.item())
            if value.imag:
                raise ValueRangeError(f"{kind}: {value} has an imaginary part; take .real, or use complex()")
            return value.real
        if self._node is not None:
            warnings.warn(
                f"{kind}: a tensor that requires grad becomes a plain number, and its gradient ends here; write "
                f"{kind}(tensor.detach()) to say that this is meant",
                UserWarning,
                stacklevel=3,
            )
            note(f"{kind}()", self, up=3)
        read(f"{kind}()", self)
        value = self._array.item()
        return float(value) if self._array.dtype.kind == "V" else value

    def __len__(self) -> int:
        if not self._array.ndim:
            raise ArgumentError("len: a 0-dim tensor has no length")
        return len(self._array)

    def __contains__(self, element: Any) -> bool:
        value = element._array if isinstance(element, Interop) else element
        if not isinstance(value, int | float | complex | ndarray | np.generic):
            raise DtypeError(f"in: a tensor holds numbers, {type(element).__name__} cannot be among them")
        read("in", self)
        return bool((self._array == value).any())

    def __hash__(self) -> int:
        return id(self)

    def __format__(self, spec: str) -> str:
        from .tensor import InferenceTensor, Tensor

        if self._array.ndim == 0 and type(self) in (Tensor, InferenceTensor):
            value = self._array.item()
            return format(float(value) if self._array.dtype.kind == "V" else value, spec)
        return object.__format__(self, spec)

    def __repr__(self) -> str:
        return self._text("tensor(")

    def _text(self, prefix: str) -> str:
        from . import dtypes
        from .printing import tensor_text

        default = dtypes.get_default_dtype()
        names = (default.name, dtypes.default_complex().name, "int64", "bool")
        a = self._array
        # Not through grad_fn, which refuses to answer for a view that could not follow its base.
        node = None if self.is_leaf else self._node  # type: ignore[attr-defined]
        made_by = None if node is None else type(getattr(node, "node", node)).__name__
        return tensor_text(
            a,
            dtype_name=dtypes.of_numpy(a.dtype).name,
            default_dtypes=names,
            requires_grad=self._node is not None,
            grad_fn_name=made_by,
            prefix=prefix,
        )

    # -- NumPy --------------------------------------------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> ndarray[Any, Any]:
        """Return the array under the tensor, sharing memory; writes through it are not counted.

        Args:
            force: accept a tensor that requires grad, as `detach().numpy()`.

        Raises:
            GradError: the tensor requires grad and `force` is not set: its gradient would be lost silently.
        """
        if self._node is not None and not force:
            raise GradError(
                "numpy: this tensor requires grad, and NumPy would not carry the gradient on; use "
                "tensor.detach().numpy() if that is meant"
            )
        if self._node is not None:
            note("numpy()", self)
        read("numpy()", self)
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> ndarray[Any, Any]:
        a = self.numpy()
        if dtype is not None and a.dtype != dtype:
            if copy is False:
                raise ValueRangeError(f"array: {a.dtype} cannot become {np.dtype(dtype)} without a copy")
            return a.astype(dtype)
        return a.copy() if copy else a

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from .ops.numpy_protocol import ufunc_call

        return ufunc_call(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from .ops.numpy_protocol import function_call

        return function_call(function, args, kwargs)

    # -- DLPack -------------------------------------------------------------------------------------------------------

    def __dlpack__(self, **kwargs: Any) -> Any:
        if self._node is not None:
            raise _NotExportableError("dlpack: this tensor requires grad, which DLPack cannot carry; detach it first")
        if self._array.dtype.name == "bfloat16":
            raise DtypeError("dlpack: NumPy cannot export bfloat16; convert with tensor.float() first")
        if kwargs.pop("stream", None) is not None:
            raise ValueRangeError("dlpack: a tensor on the CPU has no stream; drop the argument")
        if not self._array.flags.writeable:
            return self._array.copy().__dlpack__(**kwargs)
        return self._array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    # -- copies -------------------------------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        from .serialize import deep_copy

        return deep_copy(self, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        from .serialize import reduced

        return reduced(self)
