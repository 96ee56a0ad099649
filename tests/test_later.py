"""The list of late families names exactly the Tensor methods that they define."""

from __future__ import annotations

import subprocess
import sys

import sapwood
from sapwood.ops.declare import methods, registry
from sapwood.ops.install import BINARY_OPERATORS, COMPARISONS, UNARY_OPERATORS
from sapwood.ops.later import METHODS


def operators(op):
    binary = [s for s, name in BINARY_OPERATORS.items() if name == op.name]
    single = [s for s, name in (COMPARISONS | UNARY_OPERATORS).items() if name == op.name]
    in_place = [f"__i{s}__" for s in binary if op.inplace]
    return [*(f"__{s}__" for s in binary + single), *(f"__r{s}__" for s in binary), *in_place]


def test_methods_of_late_families():
    sapwood.ops.complete()
    defined: dict[str, set[str]] = {family: set() for family in METHODS}
    for op in registry.values():
        family = op.__module__.rpartition(".")[2]
        if family in defined:
            names = (op.name, *op.aliases)
            defined[family] |= {*(names if op.method else ()), *(n + "_" for n in names if op.inplace)}
            defined[family] |= {d for d in operators(op) if d not in methods}
    for name, function in methods.items():
        family = (getattr(function, "__module__", None) or "").rpartition(".")[2]
        if family in defined:
            defined[family].add(name)
    for family, names in defined.items():
        assert set(METHODS[family].split()) == names, f"ops/later.py: the methods of {family} are {sorted(names)}"


def test_first_use_of_a_late_name():
    code = (
        "import sapwood as t; x = t.tensor([0.0, 1.0]); n = len(t.ops.registry); "
        "print(x.softmax(0).sum().item(), t.erf(x)[0].item(), hasattr(t.Tensor, 'median'), len(t.ops.registry) > n)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["1.0", "0.0", "True", "True"]
