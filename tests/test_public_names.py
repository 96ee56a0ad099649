"""Public names: each is documented, reachable, and not hidden behind a module of the same name."""

from __future__ import annotations

import ast
import inspect
import types
from pathlib import Path

import pytest

import sapwood
from sapwood import ops
from sapwood.ops.declare import methods, public, registry
from sapwood.ops.later import METHODS
from sapwood.tensor import Tensor

sapwood.ops.complete()
FAMILIES = sorted(p.stem for p in Path(ops.__file__).parent.glob("*.py") if p.stem != "__init__")
MACHINERY = {
    "call",
    "declare",
    "inplace",
    "install",
    "later",
    "numpy_protocol",
    "out",
    "returns",
    "serving",
    "sizes",
    "slow",
    "source",
    "warm",
}


def first_line(thing):
    return (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")


@pytest.mark.parametrize("name", sorted(public))
def test_a_public_function_says_what_it_does(name):
    text = first_line(public[name])
    assert text[:1].isupper() and text.endswith("."), f"{name}: {text!r} is no sentence"
    assert len(text) > 15, f"{name}: {text!r} says nothing"


def test_methods_say_what_they_do():
    silent = [n for n, f in methods.items() if not first_line(f).endswith(".") and not n.startswith("__")]
    assert not silent


def test_public_functions_are_names_of_the_package():
    assert [n for n in public if getattr(sapwood, n, None) is not public[n]] == []
    assert [n for n in public if getattr(ops, n, None) is not public[n]] == []


def test_methods_are_installed():
    for name, op in registry.items():
        for n in (name, *op.aliases) if op.method else ():
            assert callable(getattr(Tensor, n)), n
        if op.inplace:
            assert callable(getattr(Tensor, name + "_")), name
    assert all(hasattr(Tensor, n) for n in methods)


def test_names_in_ops_are_functions():
    hidden = [n for n in (*registry, *public) if isinstance(getattr(ops, n), types.ModuleType)]
    assert not hidden


def test_no_module_has_the_name_of_an_op():
    assert [f for f in FAMILIES if f in registry or f in public] == []


def test_the_list_of_families_is_sorted_and_complete():
    tree = ast.parse(Path(ops.__file__).read_text())
    named = next(
        [a.name for a in node.names]
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module is None
    )
    assert named == sorted(named)
    assert list(METHODS) == sorted(METHODS)
    named += METHODS
    declared = {o.__module__.rpartition(".")[2] for o in registry.values()}
    assert declared <= set(named)
    assert set(named) | MACHINERY | imported_by(named) == set(FAMILIES) | MACHINERY


def imported_by(named):
    """Return the family files that others import: tables and steps without ops of their own."""
    folder = Path(ops.__file__).parent
    found = set()
    for name in named:
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                found.add(node.module)
    return found & set(FAMILIES)
