"""Every public function, called in whatever ways it takes: its graph does on other numbers what it does."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import sapwood
import sapwood.nn.functional as F
from sapwood.errors import CaptureError
from sapwood.graph import capture
from sapwood.graph.ir import flatten
from sapwood.ops.declare import methods, public

sapwood.ops.complete()
FUNCTIONS = {f"sapwood.{n}": f for n, f in public.items()}
FUNCTIONS |= {f"Tensor.{n}": f for n, f in methods.items() if n not in public}
FUNCTIONS |= {f"F.{n}": getattr(F, n) for n in dir(F) if n[0].islower() and callable(getattr(F, n)) and n not in public}
UNDEFINED = ("empty", "new_empty", "new", "empty_like", "empty_strided", "empty_permuted", "new_empty_strided")
NAMES = sorted(n for n in FUNCTIONS if n.split(".")[1] not in UNDEFINED and not n.split(".")[1].startswith("set_"))

WAYS = [
    ("matrix",), ("vector",), ("bools",), ("integers",), ("images",), ("one",), ("matrix", "matrix"), ("matrix", 1),
    ("vector", "vector"), ("integers", "integers"), ("matrix", "bools"), ("matrix", 0, "integers"), ("images", 2),
    ("matrix", 0, "integers", "matrix"), ("matrix", "bools", 2.0), ("matrix", 0, 1), ("chances", "labels"),
    ("integers", 3), (["matrix", "matrix"],),
]  # fmt: skip


def made(way, seed):
    """Return the arguments of a way to call: tensors for names, drawn anew for every seed."""
    rng = np.random.default_rng(seed)
    shapes = {
        "matrix": lambda: rng.standard_normal((3, 3)).astype(np.float32),
        "vector": lambda: rng.standard_normal(4).astype(np.float32),
        "bools": lambda: rng.random((3, 3)) > 0.5,
        "integers": lambda: rng.integers(0, 3, (3, 3)),
        "labels": lambda: rng.integers(0, 4, 3),
        "chances": lambda: rng.random((3, 4)).astype(np.float32) + np.float32(0.1),
        "images": lambda: rng.standard_normal((2, 3, 4, 4)).astype(np.float32),
        "one": lambda: np.asarray(rng.standard_normal(), np.float32),
    }

    def of(x):
        if isinstance(x, list):
            return [of(y) for y in x]
        return sapwood.from_numpy(shapes[x]()) if isinstance(x, str) else x

    return [of(x) for x in way]


def tensors(thing):
    found = []
    flatten(thing, found, lambda x: isinstance(x, sapwood.Tensor))
    return found


def eager(function, way, seed):
    """Return what a function gives, None if it does not take such arguments."""
    sapwood.manual_seed(seed)
    try:
        return tensors(function(*made(way, seed)))
    except Exception:
        return None


@pytest.mark.parametrize("name", NAMES)
def test_on_other_numbers(name):
    function = FUNCTIONS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for way in WAYS:
            if not eager(function, way, 1) or (want := eager(function, way, 2)) is None:
                continue
            sapwood.manual_seed(1)
            try:
                graph = capture(lambda *given: function(*given), *made(way, 1))
            except CaptureError as problem:
                # A tensor where a number belongs, which NumPy happens to broadcast.
                if "which is no operand" not in str(problem):
                    raise
                continue
            if graph.warnings:
                continue
            sapwood.manual_seed(2)
            got = tensors(graph(*tensors(made(way, 2))))
            assert len(got) == len(want), way
            for x, y in zip(got, want):
                assert x.dtype is y.dtype, way
                a, b = x.detach()._array, y.detach()._array
                assert np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"), way
