"""The laws of kernels: what native code computes for an op is what NumPy computes, on any layout and size.

`agrees` compares an op's kernel and `follows` those of its formulas with the functions on NumPy; `alone` compares
results of one thread and of two, bit by bit. Kernels are called on arrays of any size here, where ops leave small ones
to NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..errors import SapwoodError
from ..kernels import threads
from ..ops import serving
from ..ops.declare import Op, input_names, todo, zero
from .sampling import Sample, cast

Array = np.ndarray[Any, Any]
SIZES = (0, 1, 7, 8, 9, 63, 1000)
ULPS = 4
"""Units in the last place: two for the kernel, as much for NumPy, which is what it is compared with."""
LOOSE = 64
"""The same for sums and compositions, relative to the largest element: their terms cancel."""


def has_kernel(op: type[Op]) -> bool:
    """Return whether there may be a kernel for the op's result."""
    from ..kernels import vocabulary

    return serving.served(op) and (op.native is not None or vocabulary.knows(op)) and "f" in op.dtypes


def has_formula(op: type[Op]) -> bool:
    """Return whether there may be kernels for the op's derivatives."""
    return (
        serving.served(op) and op.kind in serving.KINDS and any(v not in (None, zero, todo) for v in (op.vjp, *op.vjps))
    )


def variants(op: type[Op], sample: Sample) -> Iterator[Sample]:
    """Yield the sample in other layouts, and larger where the op allows it."""
    single = cast(op, sample, "f")
    if single is None:
        return
    for s in (sample, single):
        for change in (np.ascontiguousarray, _every_second, _from_behind, _columns):
            yield s.map(lambda a, change=change: change(a) if a.dtype.kind == "f" else a)  # type: ignore[misc]
    floats = [a for a in single.arrays() if a.dtype.kind == "f" and a.size]
    if op.kind == "elementwise" and floats:
        for n in SIZES:
            yield single.map(lambda a, n=n: np.resize(a, n) if a.ndim or n > 1 else a)  # type: ignore[misc]
        for shapes in (((63, 9), (9,)), ((8, 1, 7), (9, 1)), ((7, 8), ())):
            left = list(shapes)
            yield single.map(lambda a, left=left: np.resize(a, left.pop(0) if left else (1,)))  # type: ignore[misc]
    elif floats:
        for factor in (3, 40):
            yield single.map(
                lambda a, factor=factor: (
                    np.tile(a, [factor if n > 1 else 1 for n in a.shape])  # type: ignore[misc]
                    if a.dtype.kind == "f"
                    else a
                )
            )


def _every_second(a: Array) -> Array:
    wide = np.zeros([2 * n for n in a.shape], a.dtype)
    every_second: tuple[Any, ...] = (..., *[slice(None, None, 2)] * a.ndim)
    view = wide[every_second]
    view[...] = a
    return view


def _from_behind(a: Array) -> Array:
    return np.ascontiguousarray(a[::-1])[::-1] if a.ndim else a.copy()


def _columns(a: Array) -> Array:
    return np.asfortranarray(a)


def arguments(op: type[Op], sample: Sample) -> tuple[list[Any], dict[str, Any]] | None:
    """Return what forward is called with; None where attributes lead to another function."""
    values = {n: d for n, d, _ in op.params} | dict(zip([n for n, _, _ in op.params], sample.args)) | sample.kwargs
    if any(values[n] != v for n, v in op.usual.items()):
        return None
    attrs = tuple(values[n] for n in op.attrs)
    if op.canon is not None and op.attrs:
        try:
            attrs = op.canon(*[values[n] for n in input_names(op)][:1], *attrs)
        except (SapwoodError, ValueError, IndexError):
            return None
    values |= dict(zip(op.attrs, attrs))
    taken = [(n, keyword) for n, _, keyword in op.params if n not in op.usual]
    return [values[n] for n, keyword in taken if not keyword], {n: values[n] for n, keyword in taken if keyword}


def agrees(op: type[Op], sample: Sample) -> None:
    """The kernel's result is NumPy's, within the rounding of both."""
    found = arguments(op, sample)
    if found is None:
        return
    args, named = found
    expected = _quiet(serving.plain_of(op), args, named)
    if expected is None:
        return
    result = _run(serving.kernel(op, least=0), args, named)
    exact = _quiet(serving.plain_of(op), list(map(_wide, args)), named)
    _close(op, result, expected, exact, ULPS if op.kind == "elementwise" else LOOSE)


def follows(op: type[Op], sample: Sample) -> None:
    """The kernels of the derivatives' formulas give what the formulas give on arrays."""
    from ..kernels.fuse import Fused

    for name, formula, args in formulas(op, sample):
        expected = _quiet(formula, args, {})
        if expected is None:
            continue
        exact = _quiet(formula, list(map(_wide, args)), {})
        _close(op, _run(Fused(formula), args, {}), expected, exact, LOOSE)
        if op.kind == "elementwise" and name != "vjp":
            kernel = serving.formula_kernel(op, name, formula, op.wants[input_names(op).index(name)], 0)
            if kernel is not None:
                _close(op, _run(kernel, args, {}), expected, exact, LOOSE)


def alone(op: type[Op], sample: Sample) -> None:
    """The number of threads makes no difference."""
    found = arguments(op, sample)
    if found is None or _quiet(serving.plain_of(op), *found) is None:
        return
    kernel = serving.kernel(op, least=0)
    before = threads.get_num_threads()
    try:
        threads.set_num_threads(1)
        one = _tuple(kernel(*found[0], **found[1]))
        threads.set_num_threads(2)
        two = _tuple(kernel(*found[0], **found[1]))
    finally:
        threads.set_num_threads(before)
    for a, b in zip(one, two, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), f"{op.name}: one thread and two differ"


def formulas(op: type[Op], sample: Sample) -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    """Yield each formula of a derivative with arguments as a node would give them."""
    found = arguments(op, sample)
    if found is None:
        return
    out = _quiet(serving.plain_of(op), *found)
    if out is None or not isinstance(out, np.ndarray | np.generic) or out.dtype.kind != "f":
        return
    names = [n for n, _, keyword in op.params if not keyword and n not in op.usual]
    known: dict[str, Any] = dict(zip(names, found[0])) | found[1] | {"out": np.asarray(out)} | op.usual
    for n in input_names(op):
        if isinstance(known[n], np.ndarray):
            known |= {f"{n}_shape": known[n].shape, f"{n}_dtype": known[n].dtype, f"{n}_order": "C"}
    rng = np.random.default_rng(out.size)
    g = np.asarray(rng.standard_normal(np.shape(out)), out.dtype)
    for n, formula, wanted in zip(input_names(op), op.vjps, op.wants):
        if formula not in (None, zero, todo) and isinstance(known[n], np.ndarray):
            yield n, formula, [g, *(known[w] for w in wanted)]
    if op.vjp not in (None, todo):
        needs = tuple(isinstance(known[n], np.ndarray) for n in input_names(op))
        yield "vjp", op.vjp, [g, needs, *(known[w] for w in op.wants[0])]


def _wide(x: Any) -> Any:
    return x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype == np.float32 else x


def _quiet(function: Callable[..., Any], args: list[Any], named: dict[str, Any]) -> Any:
    """Return the result on NumPy, None where the arguments do not suit the op."""
    try:
        return _run(function, args, named)
    except (SapwoodError, ValueError, IndexError):
        return None


def _run(function: Callable[..., Any], args: list[Any], named: dict[str, Any]) -> Any:
    with np.errstate(all="ignore"):
        return function(*args, **named)


def _tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, tuple | list) else (x,)


def _close(op: type[Op], result: Any, expected: Any, exact: Any, ulps: int) -> None:
    got, wanted, true = _tuple(result), _tuple(expected), _tuple(exact)
    assert len(got) == len(wanted), f"{op.name}: {len(got)} results, not {len(wanted)}"
    for a, b, c in zip(got, wanted, true):
        if b is None:
            assert a is None, f"{op.name}: a gradient that nobody wants"
            continue
        a, b, c = np.asarray(a), np.asarray(b), np.asarray(c)
        assert a.shape == b.shape, f"{op.name}: shape {a.shape}, not {b.shape}"
        assert a.dtype == b.dtype, f"{op.name}: {a.dtype}, not {b.dtype}"
        if b.dtype.kind != "f" or not b.size:
            np.testing.assert_array_equal(a, b, op.name)
            continue
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b), f"{op.name}: NaNs")
        finite = np.isfinite(b)
        np.testing.assert_array_equal(a[~finite], b[~finite], f"{op.name}: infinities")
        with np.errstate(all="ignore"):
            size = np.abs(b) if ulps == ULPS else np.full_like(b, np.max(np.abs(b[finite]), initial=0))
            bound = ulps * np.spacing(np.abs(size)).astype(np.float64)
            error = np.abs(a.astype(np.float64) - c.astype(np.float64))
            plain = np.abs(b.astype(np.float64) - c.astype(np.float64))
        wrong = finite & ~(error <= np.maximum(bound, 2 * plain + bound / 2))
        assert not wrong.any(), f"{op.name}: {a[wrong][:3]} from the kernel, {b[wrong][:3]} from NumPy"


__all__ = ["agrees", "alone", "follows", "formulas", "has_formula", "has_kernel", "variants"]
