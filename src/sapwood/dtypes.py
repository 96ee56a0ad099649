"""Element types: the dtype objects, PyTorch's promotion lattice, and the default dtype.

A dtype prints as PyTorch prints it (`torch.float32`) and knows its NumPy counterpart as `.numpy`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import DtypeError

__all__ = [
    "bfloat16",
    "bool_",
    "complex64",
    "complex128",
    "dtype",
    "float16",
    "float32",
    "float64",
    "get_default_dtype",
    "int8",
    "int16",
    "int32",
    "int64",
    "promote_types",
    "set_default_dtype",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

BOOL, INT, FLOAT, COMPLEX = range(4)


class dtype:
    """One element type, such as `float32`; compared by identity.

    Attributes:
        name: its name in the package, e.g. "float32".
        numpy: the numpy.dtype that holds it.
        category: BOOL < INT < FLOAT < COMPLEX, the order of promotion.
        itemsize: bytes per element.
        is_floating_point, is_complex, is_signed: as in PyTorch.
    """

    __slots__ = (
        "__weakref__",
        "_numpy",
        "category",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "name",
    )

    def __init__(self, name: str, category: int, itemsize: int, signed: bool = True) -> None:
        self.name = name
        self.category = category
        self.itemsize = itemsize
        self.is_floating_point = category == FLOAT
        self.is_complex = category == COMPLEX
        self.is_signed = signed
        self._numpy: np.dtype[Any] | None = None if name == "bfloat16" else np.dtype(name)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype; bfloat16 loads ml_dtypes at its first use."""
        if self._numpy is None:
            from ml_dtypes import bfloat16 as scalar

            self._numpy = np.dtype(scalar)
            _by_numpy[self._numpy] = self
        return self._numpy

    @property
    def is_differentiable(self) -> bool:
        """Whether a tensor of this type may require gradients."""
        return self.category >= FLOAT

    def to_real(self) -> dtype:
        """Return the type of the real part."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    def to_complex(self) -> dtype:
        """Return the complex type with parts of this precision."""
        return {"float32": complex64, "float64": complex128, "float16": complex64}.get(self.name, self)

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return "bool_" if self is bool_ else self.name


bool_ = dtype("bool", BOOL, 1, signed=False)
uint8 = dtype("uint8", INT, 1, signed=False)
int8 = dtype("int8", INT, 1)
int16 = dtype("int16", INT, 2)
int32 = dtype("int32", INT, 4)
int64 = dtype("int64", INT, 8)
uint16 = dtype("uint16", INT, 2, signed=False)
uint32 = dtype("uint32", INT, 4, signed=False)
uint64 = dtype("uint64", INT, 8, signed=False)
float16 = dtype("float16", FLOAT, 2)
bfloat16 = dtype("bfloat16", FLOAT, 2)
float32 = dtype("float32", FLOAT, 4)
float64 = dtype("float64", FLOAT, 8)
complex64 = dtype("complex64", COMPLEX, 8)
complex128 = dtype("complex128", COMPLEX, 16)

ALL: tuple[dtype, ...] = (bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64)
ALL += (float16, bfloat16, float32, float64, complex64, complex128)
by_name: dict[str, dtype] = {t.name: t for t in ALL}
by_name |= {"half": float16, "float": float32, "double": float64, "cfloat": complex64, "cdouble": complex128}
by_name |= {"short": int16, "int": int32, "long": int64}
_by_numpy: dict[np.dtype[Any], dtype] = {t._numpy: t for t in ALL if t._numpy is not None}
_python_types: dict[Any, dtype] = {bool: bool_, int: int64, complex: complex128}


def of_numpy(numpy_dtype: np.dtype[Any]) -> dtype:
    """Return the dtype that a NumPy dtype stands for.

    Raises:
        DtypeError: NumPy's type (strings, objects, dates, float128 …) has no counterpart.
    """
    found = _by_numpy.get(numpy_dtype)
    if found is not None:
        return found
    if numpy_dtype.name == "bfloat16":
        bfloat16.numpy  # noqa: B018 - registers the type
        return bfloat16
    native = numpy_dtype.newbyteorder("=")
    if native in _by_numpy:
        return _by_numpy[native]
    raise DtypeError(
        f"tensor: no dtype stands for NumPy's {numpy_dtype}; the supported ones are {', '.join(t.name for t in ALL)}. "
        "Convert the array first, e.g. array.astype('float32')."
    )


def as_dtype(value: Any, op: str = "dtype") -> dtype:
    """Return `value` as a dtype: a dtype, a NumPy dtype or scalar type, or one of bool, int, float, complex."""
    if type(value) is dtype:
        return value
    if value is float:
        return float64
    if value in _python_types:
        return _python_types[value]
    own = getattr(value, "dtype", None)
    if type(own) is dtype:  # FloatTensor and its like
        return own
    try:
        return of_numpy(np.dtype(value))
    except TypeError:
        raise DtypeError(f"{op}: dtype must be a dtype such as float32, got {value!r}") from None


_SIGNED = (int8, int16, int32, int64)
_FLOATS = (float16, bfloat16, float32, float64)


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """Return the smallest type that both `type1` and `type2` convert to (bool < int < float < complex)."""
    if type1 is type2:
        return type1
    a, b = (type1, type2) if type1.category >= type2.category else (type2, type1)
    if a.category == COMPLEX:
        wide = b in (float64, complex128) or a is complex128
        return complex128 if wide else complex64
    if a.category == FLOAT:
        if b.category != FLOAT:
            return a
        return float64 if float64 in (a, b) else float32
    if b.category == BOOL:
        return a
    if a.is_signed == b.is_signed:
        return a if a.itemsize >= b.itemsize else b
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    if unsigned is not uint8:
        if unsigned.itemsize < signed.itemsize:
            return signed
        raise DtypeError(f"promote_types: no type holds both {a.name} and {b.name}; convert one of them first")
    return int16 if signed is int8 else signed


class _Default:
    """The process-wide default floating-point type, as in PyTorch."""

    dtype = float32


def get_default_dtype() -> dtype:
    """Return the floating-point type of new tensors made from Python floats."""
    return _Default.dtype


def default_complex() -> dtype:
    """Return the complex type whose parts have the default floating-point type."""
    return complex128 if _Default.dtype is float64 else complex64


def set_default_dtype(d: dtype) -> None:
    """Make `d` the floating-point type of new tensors made from Python floats.

    Raises:
        DtypeError: `d` is not a floating-point type.
    """
    if type(d) is not dtype or not d.is_floating_point:
        raise DtypeError(f"set_default_dtype: d must be a floating-point dtype, got {d!r}")
    _Default.dtype = d


def of_number(value: complex) -> dtype:
    """Return the type that a Python number has on its own."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return int64
    return _Default.dtype if isinstance(value, float) else default_complex()


def result_dtype(dims: list[dtype], zero_dims: list[dtype], numbers: list[complex]) -> dtype:
    """Promote operands of three ranks: tensors with dimensions, 0-dim tensors, Python numbers.

    A lower rank takes part only when its category is above that of every higher rank, and then lends its category:
    float32 (3,) with float64 () is float32, int64 (3,) with 0.5 is the default float.
    """
    best: dtype | None = None
    for rank in (dims, zero_dims, [of_number(v) for v in numbers]):
        if not rank:
            continue
        here = rank[0]
        for t in rank[1:]:
            here = promote_types(here, t)
        if best is None:
            best = here
        elif here.category > best.category:
            best = promote_types(here, best)
    assert best is not None
    return best


F32 = np.dtype("float32")
F64 = np.dtype("float64")


class finfo:
    """The limits of a floating-point type; of a complex one, those of its parts.

    Attributes:
        bits, eps, max, min, tiny, smallest_normal, resolution, dtype: as in PyTorch; `dtype` is a name.
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: dtype | None = None) -> None:
        of = (_Default.dtype if type is None else type).to_real()
        if of.category != FLOAT:
            raise DtypeError(
                f"finfo: a floating-point or complex dtype is expected, got {of!r}; use iinfo for integers"
            )
        digits, lowest, decimal = _FLOAT_SHAPES[of.name]
        self.bits = 8 * of.itemsize
        self.eps = 2.0 ** (1 - digits)
        self.smallest_normal = self.tiny = 2.0**lowest
        self.max = (2.0 - self.eps) * 2.0 ** (1 - lowest)
        self.min = -self.max
        self.resolution = 10.0**-decimal
        self.dtype = of.name

    def __repr__(self) -> str:
        shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{n}={getattr(self, n):g}' for n in shown)}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(("finfo", self.dtype))


_FLOAT_SHAPES = {
    "float16": (11, -14, 3),
    "bfloat16": (8, -126, 2),
    "float32": (24, -126, 6),
    "float64": (53, -1022, 15),
}
"""Bits of the significand, exponent of the smallest normal number, exact decimal digits."""


class iinfo:
    """The limits of an integer type.

    Attributes:
        bits, max, min, dtype: as in PyTorch; `dtype` is a name.
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: dtype) -> None:
        if type.category != INT:
            raise DtypeError(f"iinfo: an integer dtype is expected, got {type!r}; use finfo for floating-point ones")
        self.bits = 8 * type.itemsize
        self.min = -(2 ** (self.bits - 1)) if type.is_signed else 0
        self.max = 2 ** (self.bits - type.is_signed) - 1
        self.dtype = type.name

    def __repr__(self) -> str:
        shown = (
            f"{n}={v if abs(v) < 1000000 else format(float(v), 'g')}" for n, v in (("min", self.min), ("max", self.max))
        )
        return f"iinfo({', '.join(shown)}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(("iinfo", self.dtype))
