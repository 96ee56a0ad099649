"""Write tests/golden/printing.json: what PyTorch prints for some 400 tensors.

Run with PyTorch installed: python tests/golden/make_printing.py
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch._tensor_str import printoptions

OUT = Path(__file__).with_name("printing.json")
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)
INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
NAN, INF = float("nan"), float("inf")

rng = np.random.default_rng(13)
cases: list[dict[str, Any]] = []


def add(tensor: torch.Tensor, default: torch.dtype = torch.float32, **options: Any) -> None:
    """Record one tensor, printed under the given default dtype and print options."""
    torch.set_default_dtype(default)
    with printoptions(**options):
        text = repr(tensor)
    torch.set_default_dtype(torch.float32)
    value = tensor.detach().contiguous()
    if value.dtype == torch.bfloat16:
        value = value.view(torch.int16)
    complex_default = torch.complex128 if default == torch.float64 else torch.complex64
    cases.append(
        {
            "dtype": name_of(tensor.dtype),
            "shape": list(tensor.shape),
            "data": value.numpy().tobytes().hex(),
            "default": [name_of(dtype) for dtype in (default, complex_default, torch.int64, torch.bool)],
            "requires_grad": tensor.requires_grad,
            "grad_fn": None if tensor.grad_fn is None else tensor.grad_fn.name(),
            "options": {name: "inf" if option == INF else option for name, option in options.items()},
            "text": text,
        }
    )


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def reals(*shape: int, low: float = 0.0, high: float = 0.0, special: bool = False) -> torch.Tensor:
    """Draw numbers of both signs, their magnitudes between 10**low and 10**high times a standard normal."""
    values = rng.standard_normal(shape) * 10 ** rng.uniform(low, high, shape)
    if special:
        values = np.where(rng.random(shape) < 0.2, rng.choice([NAN, INF, -INF, 0.0, -0.0], shape), values)
    return torch.tensor(values)


def listed() -> None:
    """Add values chosen by hand: each is at or near a place where the form changes."""
    # fmt: off
    lists: list[list[float]] = [
        [0.0], [-0.0, 0.0], [1.0], [-1.0, 10.0], [1.5], [0.1, -22.25], [NAN], [INF], [-INF, INF], [NAN, 1.0],
        [NAN, 10.0], [NAN, 1.5], [-INF, 0.5, 100.0], [-INF, 0.0], [1.0, 1000.0], [1.0, 1001.0], [0.5, 500.0],
        [0.5, 500.5], [1e8], [1e8 + 1], [100000008.0, 2e7], [99999999.5], [1e-4], [0.99e-4], [1e-4, 0.0, NAN],
        [1e-5, INF], [1e-10, 1e12], [12345678.0, 1e6], [0.00005, 0.00006], [0.12345, 0.00012], [999.99995, 1.0],
        [2.5, 0.00015], [5e-324], [1.7e308, 3.0], [-3.0, 4.0, NAN, INF],
    ]
    # fmt: on
    for values in lists:
        add(torch.tensor(values, dtype=torch.float32))
        add(torch.tensor(values[0], dtype=torch.float64), torch.float64)
        add(torch.tensor(values, dtype=torch.float64), sci_mode=True)
        add(torch.tensor(values, dtype=torch.float64), torch.float64, sci_mode=False)
        add(torch.tensor([complex(value, -value) for value in values], dtype=torch.complex64))
    for dtype, values in itertools.product(
        (torch.float16, torch.bfloat16), ([0.1, 3.0], [1.0, 2048.0], [6e-5, 1.0], [NAN])
    ):
        add(torch.tensor(values, dtype=dtype))
        add(torch.tensor(values[0], dtype=dtype), default=dtype)
    for parts in ((1.5, 2.0), (-0.0, -0.0), (NAN, -INF), (1e-6, 1e6), (100.0, 0.25)):
        add(torch.tensor(complex(*parts)))
        add(torch.tensor([complex(*parts), complex(*parts[::-1]), 0], dtype=torch.complex128))
    for dtype in INTEGERS[1:]:
        limits = torch.iinfo(dtype)
        add(torch.tensor([limits.min, limits.max, 0], dtype=dtype))
        add(torch.tensor(limits.max, dtype=dtype))
    add(torch.tensor(True))
    add(torch.tensor([[True, False], [False, False]]))


def empties() -> None:
    for shape, dtype in itertools.product(
        ((0,), (0, 3), (2, 0), (2, 3, 0)), (torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64)
    ):
        add(torch.zeros(shape, dtype=dtype))
    add(torch.zeros(0, 2, dtype=torch.float64, requires_grad=True), torch.float64)
    add(torch.zeros(0, 2), torch.float64, edgeitems=0)


def shapes() -> None:
    """Add arrays of every dtype and up to five dimensions, whole and summarised."""
    sizes = ((), (4,), (17,), (3, 4), (2, 3, 2), (1, 2, 1, 3), (2, 1, 2, 1, 2))
    for dtype, size in itertools.product(INTEGERS, sizes):
        high = 2 if dtype == torch.bool else 128
        add(torch.tensor(rng.integers(0 if dtype in INTEGERS[:2] else -high, high, size)).to(dtype))
    for dtype, size in itertools.product(FLOATS, sizes):
        add(reals(*size, high=float(rng.integers(0, 4)), special=len(size) > 1).to(dtype))
    for dtype, size in itertools.product(COMPLEX, sizes):
        add(torch.complex(reals(*size, high=2.0), reals(*size, special=True)).to(dtype))
    for dtype in (torch.uint8, torch.float16, torch.bfloat16):
        add((torch.arange(1001) % 251).to(dtype))
        add((torch.arange(1000) % 251).to(dtype))
        add((torch.arange(1024) % 13 / 4).reshape(32, 4, 8).to(dtype))
    for size in ((30,), (7, 3), (3, 7), (7, 7), (7, 2, 8), (2, 8, 2, 7), (1, 9, 1, 1, 9)):
        add(reals(*size, high=2.0).float(), threshold=10)
        add(torch.tensor(rng.integers(-999, 999, size)), threshold=10, edgeitems=1)
        add(torch.complex(reals(*size), reals(*size)), threshold=10, edgeitems=2)
        add(reals(*size), threshold=10, edgeitems=0)
    # What is left out decides nothing: the middle alone is large, or alone has digits.
    add(torch.tensor([1.0, 2.0, 3.0, 1e9, 4.5, 3.0, 2.0, 1.0]), threshold=5)


def options() -> None:
    for profile, size in itertools.product(("default", "short", "full"), ((5,), (50, 21), (6, 5, 2))):
        add((reals(*size) * 4).round().half() / 4, profile=profile)
    add(reals(5, 5).float(), profile="short", precision=3, threshold=5)
    add(reals(40).float(), threshold=INF, edgeitems=1)
    for width in (1, 20, 40, 55, 79, 81, 120):
        add(reals(9, high=2.0), linewidth=width)
        add(reals(2, 5, special=True), linewidth=width)
        add(torch.complex(reals(2, 4), reals(2, 4)), linewidth=width)
        add(torch.arange(40).reshape(2, 20), linewidth=width)
    for precision in (0, 1, 2, 6, 10):
        add(reals(3, 3, high=1.0).float(), precision=precision)
        add(torch.complex(reals(3), reals(3, low=-6.0)), precision=precision)
        add(torch.arange(3.0), precision=precision)


def suffixes() -> None:
    """Add tensors that carry a gradient, with lines that end near the place where a suffix no longer fits."""
    for length in range(1, 9):
        leaf = reals(length).float().requires_grad_()
        wide = reals(2, length).requires_grad_()
        for tensor in (leaf, leaf * 2, leaf.double(), wide, wide.exp(), wide.t()):
            add(tensor)
    for width in range(28, 66):
        leaf = torch.ones(7, dtype=torch.float64, requires_grad=True)
        add(leaf, linewidth=width)
        add(torch.zeros(1, 2, 0, dtype=torch.float64).requires_grad_() * 2, linewidth=width)
    for tensor in (leaf, torch.tensor(3), torch.tensor([[True]]), torch.zeros(0)):
        add(tensor, edgeitems=0)
        add(tensor, edgeitems=0, threshold=0)


for group in (listed, empties, shapes, options, suffixes):
    group()
OUT.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
print(len(cases), "cases,", OUT.stat().st_size, "bytes")
