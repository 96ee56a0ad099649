"""Complex numbers: building them, their parts, views of them as pairs of real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import DtypeError, ShapeError
from ..tensor import Tensor
from .declare import Binary, Plain, Unary, View, composite, methods, op, registry
from .inplace import in_place

_complex_number = complex  # the op below takes the builtin's name


def has_complex(x: Any) -> bool:
    """Return whether an array, a Tensor or a number is complex."""
    d = getattr(x, "dtype", None)
    if d is None:
        return isinstance(x, _complex_number)
    return getattr(d, "kind", "") == "c" or bool(getattr(d, "is_complex", False))


@op
class conj(Unary):
    """Return the complex conjugates of complex numbers."""

    promote = None
    forward = np.conjugate
    vjp_input = lambda g: ops.conj(g)
    holomorphic = False
    inplace = False
    takes_out = False
    function = method = False
    linear = True
    dtypes = "c"


@composite(name="conj", method=True)
def conj_(input: Any) -> Any:
    """Return the complex conjugate of each element; a real tensor is returned itself."""
    if isinstance(input, np.ndarray | np.generic):
        return np.conjugate(input)
    return registry["conj"].call(input) if has_complex(input) else input


@op
class conj_physical(Unary):
    """Return the complex conjugate of each element."""

    promote = None
    forward = lambda input: np.conjugate(input) if input.dtype.kind == "c" else input.copy()
    vjp_input = lambda g: ops.conj(g)
    holomorphic = False
    function = method = inplace = False
    linear = True
    dtypes = "bifc"


@composite(name="conj_physical", method=True)
def conj_physical_of(input: Any, *, out: Tensor | None = None) -> Any:
    """Return the complex conjugate of each element; a real tensor is returned itself."""
    return registry["conj_physical"].call(input, out=out) if out is not None or has_complex(input) else input


@composite(name="conj_physical_", method="conj_physical_", function_name=False)
def conj_physical_in_place(input: Tensor) -> Tensor:
    """Conjugate this tensor in place; a real one stays as it is."""
    return in_place(registry["conj_physical"], input, (), (), "conj_physical_") if has_complex(input) else input


@composite(method=True)
def resolve_conj(input: Tensor) -> Tensor:
    """Return `input` itself: conjugates are computed when they are asked for."""
    return input


@composite(method=True)
def resolve_neg(input: Tensor) -> Tensor:
    """Return `input` itself: signs are applied when they are asked for."""
    return input


@composite(method=True)
def is_conj(input: Tensor) -> bool:
    """Return False: no tensor is waiting to be conjugated."""
    return False


@composite(method=True)
def is_neg(input: Tensor) -> bool:
    """Return False: no tensor is waiting to be negated."""
    return False


def _pairs(input: Any) -> Any:
    if input.dtype.kind != "c":
        raise DtypeError(f"view_as_real: a complex tensor is expected, got {input.dtype}")
    real = np.asarray(input).real  # a NumPy scalar has no second half to stride to
    return np.lib.stride_tricks.as_strided(real, (*real.shape, 2), (*real.strides, real.itemsize))


@op
class view_as_real(View):
    """Return a view of complex numbers as pairs (real, imaginary) along a new last dimension."""

    forward = _pairs
    vjp_input = lambda g: ops.complex(ops.select(g, -1, 0), ops.select(g, -1, 1))
    holomorphic = False
    method = False
    dtypes = "c"
    samples = lambda rng: [(_numbers(rng, shape),) for shape in ((), (3,), (2, 3), (0,))]


def _numbers(rng: Any, shape: tuple[int, ...]) -> Any:
    return np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape))


def _joined(input: Any) -> Any:
    found = {"float32": np.complex64, "float64": np.complex128}.get(input.dtype.name)
    if found is None:
        raise DtypeError(f"view_as_complex: a float32 or float64 tensor is expected, got {input.dtype}")
    if not input.ndim or input.shape[-1] != 2:
        raise ShapeError(f"view_as_complex: the last dimension must hold pairs (size 2), got shape {input.shape}")
    if input.strides[-1] != input.itemsize or any(s % (2 * input.itemsize) for s in input.strides[:-1]):
        raise ShapeError("view_as_complex: the pairs must lie side by side in memory; call contiguous() first")
    return input.view(found)[..., 0]


@op
class view_as_complex(View):
    """Return a view of pairs (real, imaginary) along the last dimension as complex numbers."""

    forward = _joined
    vjp_input = lambda g: ops.stack([g.real, g.imag], -1)
    holomorphic = False
    method = False
    dtypes = "f"
    exempt = {"layout": "pairs that do not lie side by side are no complex numbers; it is refused"}
    samples = lambda rng: [(rng.standard_normal((3, 2)),), (rng.standard_normal(2),)]


class Part(Plain):
    """The real or imaginary parts, as symbols take them: `x.real` in a formula. On Tensors they are views of pairs."""

    inputs = ("input",)
    function = method = False
    holomorphic = False
    dtypes = "c"
    samples = lambda rng: [(_numbers(rng, (2, 3)),)]


@op
class real(Part):
    """Return the real parts."""

    forward = lambda input: input.real.copy()
    vjp_input = lambda g: ops.complex(g, ops.zeros_like(g))


@op
class imag(Part):
    """Return the imaginary parts."""

    forward = lambda input: input.imag.copy()
    vjp_input = lambda g: ops.complex(ops.zeros_like(g), g)


@composite(name="real")
def real_of(input: Tensor) -> Tensor:
    """Return a view of the real parts; a real tensor is returned itself."""
    return ops.select(ops.view_as_real(input), -1, 0) if has_complex(input) else input


@composite(name="imag")
def imag_of(input: Tensor) -> Tensor:
    """Return a view of the imaginary parts.

    Raises:
        DtypeError: the tensor is real.
    """
    if not has_complex(input):
        raise DtypeError(f"imag: a complex tensor is expected, got {input.dtype}; a real one has no imaginary part")
    return ops.select(ops.view_as_real(input), -1, 1)


methods["real"] = property(real_of, lambda self, value: ops.real(self).copy_(value))
methods["imag"] = property(imag_of, lambda self, value: ops.imag(self).copy_(value))


def _angle_vjp(g: Any, input: Any) -> Any:
    if not has_complex(input):
        return ops.zeros_like(g)
    square = (input * ops.conj(input)).real
    there = square != 0
    return ops.where(there, g * input * 1j / ops.where(there, square, 1), 0)


def _angle(input: Any) -> Any:
    if input.dtype.kind == "c":
        return np.arctan2(input.imag, input.real)
    return np.where(input != input, input, np.where(input < 0, np.pi, 0)).astype(input.dtype)


@op
class angle(Unary):
    """Return the angle of each complex number in radians; of real ones 0, or π where negative."""

    forward = _angle
    vjp_input = lambda g, input: _angle_vjp(g, input)
    holomorphic = False
    inplace = False
    numpy = (np.angle,)
    domain = (0.2, 3.0)
    dtypes = "bifc"


def _parts(name: str, real: Any, imag: Any) -> Any:
    """Return the complex type of two parts."""
    found = {"float32": np.complex64, "float64": np.complex128}.get(real.dtype.name)
    if found is None:
        raise DtypeError(f"{name}: float32 or float64 tensors are expected, got {real.dtype}")
    if real.dtype != imag.dtype:
        raise DtypeError(f"{name}: one dtype is expected, got {real.dtype} and {imag.dtype}; convert one of them")
    return found


def _complex(real: Any, imag: Any) -> Any:
    out = np.empty(np.broadcast_shapes(real.shape, imag.shape), _parts("complex", real, imag))
    out.real = real
    out.imag = imag
    return out


@op
class complex(Binary):
    """Return complex numbers with the given real and imaginary parts."""

    inputs = ("real", "imag")
    promote = None
    scalars = False
    inplace = False
    half = False
    method = False
    forward = _complex
    vjp_real = lambda g: g.real
    vjp_imag = lambda g: g.imag
    holomorphic = False


def _polar(abs: Any, angle: Any) -> Any:
    out = np.empty(np.broadcast_shapes(abs.shape, angle.shape), _parts("polar", abs, angle))
    out.real = abs * np.cos(angle)
    out.imag = abs * np.sin(angle)
    return out


@op
class polar(Binary):
    """Return complex numbers with the given absolute values and angles (in radians)."""

    inputs = ("abs", "angle")
    promote = None
    scalars = False
    inplace = False
    half = False
    method = False
    forward = _polar
    vjp_abs = lambda g, out: (ops.conj(g) * ops.sgn(out)).real
    vjp_angle = lambda g, out: (ops.conj(g) * (out * 1j)).real
    holomorphic = False
    domain = (0.2, 3.0)
