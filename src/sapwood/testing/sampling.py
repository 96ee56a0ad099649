"""Sample calls of an op: where they come from, how they are cast to other element types, and how they are made.

A sample holds arrays where a call takes tensors. Samples of a declaration are float64 or what the op needs otherwise;
`cast` makes the float32, integer, bool and complex ones from them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..autograd.run import grad
from ..errors import MissingError
from ..ops.declare import Binary, Comparison, Op, Unary, input_names, todo
from ..tensor import Tensor, wrap

Array = np.ndarray[Any, Any]
TYPES = {"d": "float64", "f": "float32", "i": "int64", "b": "bool", "c": "complex128"}
"""The element types that samples are cast to; float64 comes first, the others are optional for an op."""


class Sample(NamedTuple):
    """Arguments of one call: arrays stand for tensors."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __repr__(self) -> str:
        named = [f"{k}={_brief(v)}" for k, v in self.kwargs.items()]
        return f"({', '.join([*map(_brief, self.args), *named])})"

    def map(self, change: Callable[[Any], Any]) -> Sample:
        """Return the sample with every array replaced by `change(array)`."""
        return Sample(
            tuple(_mapped(a, change) for a in self.args), {k: _mapped(v, change) for k, v in self.kwargs.items()}
        )

    def arrays(self) -> list[Array]:
        """Return the arrays in order, those in sequences too."""
        found: list[Array] = []

        def note(a: Array) -> Array:
            found.append(a)
            return a

        self.map(note)
        return found


def _mapped(x: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(x, np.ndarray):
        return change(x)
    if isinstance(x, list) or (isinstance(x, tuple) and any(isinstance(m, np.ndarray) for m in x)):
        return type(x)(_mapped(m, change) for m in x)
    return x


def _brief(x: Any) -> str:
    if isinstance(x, np.ndarray):
        return f"{x.dtype}{list(x.shape)}"
    return f"[{', '.join(map(_brief, x))}]" if isinstance(x, list | tuple) else repr(x)


@cache
def samples(op: Any) -> tuple[Sample, ...]:
    """Return the op's sample calls: its own, or those of its kind.

    Raises:
        AssertionError: a declaration without samples of a kind that has no default.
    """
    rng = np.random.default_rng(sum(map(ord, op.name)))
    if op.samples is not None:
        made = list(op.samples(rng))
    elif issubclass(op, Unary):
        made = [(_values(op, rng, shape),) for shape in ((), (5,), (2, 3), (0,), (2, 1, 3))]
    elif issubclass(op, Binary | Comparison):
        pairs = (((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (3,)), ((0, 3), (3,)), ((), ()))
        made = [(_values(op, rng, a), _values(op, rng, b)) for a, b in pairs]
    else:
        raise AssertionError(f"{op.name}: the declaration has no samples, and its kind has no default ones")
    return tuple(Sample(tuple(s[:-1]), s[-1]) if s and isinstance(s[-1], dict) else Sample(tuple(s), {}) for s in made)


def _values(op: type[Op], rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    if op.domain is None:
        values = rng.standard_normal(shape)
    else:
        values = rng.uniform(max(op.domain[0], -4.0) + 0.05, min(op.domain[1], 4.0) - 0.05, shape)
    if "f" in op.dtypes:
        return np.asarray(values)
    return np.asarray(values + 1j * rng.standard_normal(shape) if "c" in op.dtypes else rng.integers(0, 5, shape))


def kinds(op: type[Op]) -> str:
    """Return the keys of TYPES that the op's `dtypes` allow."""
    return ("df" if "f" in op.dtypes else "") + "".join(k for k in "ibc" if k in op.dtypes)


def cast(op: type[Op], sample: Sample, kind: str) -> Sample | None:
    """Return the sample with its element type replaced by TYPES[kind]; None if it has no such form.

    Floating-point arrays are cast, and integers too where the op takes no floats; indices and masks stay as they are.
    """
    own = "fc" if "f" in op.dtypes or "c" in op.dtypes else "i"
    arrays = [a for a in sample.arrays() if a.dtype.kind in own]
    if not arrays or (any(a.dtype.kind == "c" for a in arrays) and kind != "c"):
        return None
    rng = np.random.default_rng(len(arrays))

    def change(a: Array) -> Array:
        if a.dtype.kind not in own or a.dtype.kind == "c":
            return a
        if kind == "c":
            return np.asarray(a + 0.5j * rng.standard_normal(a.shape))
        if kind == "b":
            return np.asarray(a > 0 if own != "i" else a % 2 == 1)
        if kind == "i" and own != "i":
            return np.asarray(np.rint(2 * np.nan_to_num(a, posinf=4, neginf=-4)).astype(np.int64))
        return a.astype(TYPES[kind])

    return sample.map(change)


@cache
def gradient_samples(op: Any) -> tuple[Sample, ...]:
    """Return the samples for laws about derivatives: as declared, and complex ones where the op takes them."""
    own = samples(op)
    if "c" not in op.dtypes:
        return own
    return own + tuple(
        c for s in own if (c := cast(op, s, "c")) is not None and any(a.dtype.kind == "f" for a in s.arrays())
    )


def call(op: type[Op], sample: Sample, wanted: tuple[bool, ...] = ()) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """Call the op on Tensors; return the Tensors it was given, in order, and its output Tensors.

    Args:
        wanted: for each array whether its Tensor requires grad.
    """
    given: list[Tensor] = []

    def tensor(a: Array) -> Tensor:
        t = wrap(a.copy(order="K") if a.flags.forc else a)
        if wanted and wanted[len(given)]:
            t.requires_grad_()
        given.append(t)
        return t

    return given, invoke(op, sample.map(tensor))


def recall(op: type[Op], sample: Sample, replaced: dict[int, Tensor]) -> tuple[Tensor, ...]:
    """Call the op on given Tensors in place of some of the sample's arrays, by position."""
    at = -1

    def tensor(a: Array) -> Tensor:
        nonlocal at
        at += 1
        return replaced[at] if at in replaced else wrap(a)

    return invoke(op, sample.map(tensor))


def invoke(op: type[Op], sample: Sample) -> tuple[Any, ...]:
    """Call the op with the sample's arguments as they are; return the outputs as a tuple."""
    result = op.call(*sample.args, **sample.kwargs)
    return tuple(result) if isinstance(result, tuple) else (result,)


def varied(op: type[Op], sample: Sample) -> tuple[bool, ...]:
    """Return for each array whether the op has a derivative by it.

    For a joint formula the derivative itself tells: it is None for the others.
    """
    names = _owners(op, sample)
    arrays = sample.arrays()
    floating = tuple(a.dtype.kind in "fc" for a in arrays)
    if op.vjp is None:
        formulas = dict(zip(input_names(op), op.vjps))
        return tuple(f and formulas[n] is not None and formulas[n] is not todo for f, n in zip(floating, names))
    given, outs = call(op, sample, floating)
    outs = tuple(o for o in outs if o.requires_grad)
    asked = [t for t in given if t.requires_grad]
    if not outs or not asked:
        return (False,) * len(arrays)
    try:
        found = iter(grad(outs, asked, cotangents(op, outs), allow_unused=True))
    except MissingError:
        return (False,) * len(arrays)
    return tuple(f and next(found) is not None for f in floating)


def _owners(op: type[Op], sample: Sample) -> list[str]:
    """Return the parameter's name for each array of the sample."""
    names: list[str] = []
    order = [n for n, _, _ in op.params]
    for n, x in (*zip(order, sample.args), *sample.kwargs.items()):
        one = Sample((x,), {})
        names += [n] * len(one.arrays())
    return names


def graded(op: type[Op], sample: Sample) -> tuple[list[Tensor], list[Tensor]]:
    """Call the op with all inputs that have a derivative requiring grad; return these and the outputs with gradient."""
    given, outs = call(op, sample, varied(op, sample))
    return [t for t in given if t.requires_grad], [o for o in outs if o.requires_grad]


def cotangents(op: type[Op], outs: Any) -> list[Tensor]:
    """Return fixed random cotangents for outputs."""
    rng = np.random.default_rng(len(op.name))
    return [wrap(cotangent(rng, tuple(o.shape), o._array.dtype)) for o in outs]


def cotangent(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return random numbers of a floating-point or complex type."""
    values = np.asarray(rng.standard_normal(shape))
    if np.dtype(dtype).kind == "c":
        values = np.asarray(values + 1j * rng.standard_normal(shape))
    return values.astype(dtype)


__all__ = [
    "TYPES", "Sample", "call", "cast", "cotangent", "cotangents", "graded", "gradient_samples", "invoke", "kinds",
    "recall", "samples", "varied",
]  # fmt: skip
