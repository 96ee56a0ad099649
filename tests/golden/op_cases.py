"""The calls whose results ops.npz holds: samples of every op, cast to each type, mixed, and at the edges."""

from __future__ import annotations

import numpy as np

from sapwood.ops.declare import Binary, Comparison, Unary
from sapwood.testing.sampling import TYPES, Sample, cast, kinds, samples

# Two operands of different types: which type wins, and what a 0-dim tensor or a Python number changes about it.
MIXES = (
    ("int64", "float32"), ("bool", "int64"), ("float64", "float32"), ("float32", "complex64"), ("uint8", "int8"),
    ("int32", "int64"), ("bool", "bool"), ("float16", "int64"),
)  # fmt: skip
NUMBERS = (2, 0.5, True)


def cases(op):
    """Yield (label, sample) for an op; the same ones whenever the declaration is the same."""
    # A public function is asked with every element type, an internal one with those that it declares.
    types = TYPES if op.function or op.method else kinds(op)
    for i, sample in enumerate(samples(op)):
        made = [(k, cast(op, sample, k)) for k in types]
        if not any(c for _, c in made):
            made = [("own", sample)]
        for kind, variant in made:
            if variant is not None:
                yield f"{i}.{TYPES.get(kind, kind)}", variant
    if op.function or op.method:
        if issubclass(op, Binary | Comparison) and len(samples(op)[0].arrays()) == 2:
            yield from mixed(op)
        yield from edges(op)


def mixed(op):
    """Yield calls with operands of two types, a 0-dim one and a number."""
    sample = next(s for s in samples(op) if len(s.args) == 2 and s.args[0].ndim and s.args[0].size)
    a, b = (np.rint(np.abs(x)) + 1 for x in sample.args)
    for left, right in MIXES:
        yield f"{left}-{right}", Sample((a.astype(left), b.astype(right)), sample.kwargs)
        yield f"{left}-0d-{right}", Sample((a.astype(left), np.asarray(b.flat[0].astype(right))), sample.kwargs)
    for number in NUMBERS:
        for left in ("float32", "int64", "bool"):
            yield f"{left}-{number}", Sample((a.astype(left), number), sample.kwargs)


def edges(op):
    """Yield calls of functions of one tensor on a 0-dim one and on empty ones, with each sample's other arguments."""
    if issubclass(op, Unary) and not op.attrs:
        return  # their own samples hold these shapes
    seen = set()
    for sample in samples(op):
        rest = repr((sample.args[1:], sample.kwargs))
        if len(sample.arrays()) != 1 or not isinstance(sample.args[0], np.ndarray) or rest in seen:
            continue
        seen.add(rest)
        own = sample.args[0]
        zero_d = np.asarray(own.reshape(-1)[0]) if own.size else np.zeros((), own.dtype)
        for label, first in (
            ("0d", zero_d),
            ("empty", np.zeros(0, own.dtype)),
            ("empty-rows", np.zeros((0, 3), own.dtype)),
            ("empty-columns", np.zeros((2, 0), own.dtype)),
        ):
            yield f"{label}.{len(seen)}", Sample((first, *sample.args[1:]), sample.kwargs)


def fingerprint(sample):
    """Return numbers that change when the call changes."""
    walk = [float(np.abs(np.where(np.isfinite(a), a, 7)).ravel() @ np.arange(1, a.size + 1)) for a in sample.arrays()]
    text = repr(sample)
    return [float(sum(map(ord, text))), *(float(f"{w:.9g}") for w in walk)]
