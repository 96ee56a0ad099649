"""Printed forms against recorded ones of PyTorch (tests/golden/make_printing.py writes them)."""

from __future__ import annotations

import doctest
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from sapwood import printing
from sapwood.errors import ArgumentError, ValueRangeError
from sapwood.printing import get_printoptions, printoptions, set_printoptions, tensor_text

CASES = json.loads((Path(__file__).parent / "golden" / "printing.json").read_text())
DEFAULTS = ("float32", "complex64", "int64", "bool")
DEFAULT_OPTIONS = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}


@pytest.fixture(autouse=True)
def _fresh_options() -> Iterator[None]:
    yield
    set_printoptions(profile="default")


def array_of(case: dict[str, Any]) -> np.ndarray:
    dtype = ml_dtypes.bfloat16 if case["dtype"] == "bfloat16" else case["dtype"]
    return np.frombuffer(bytes.fromhex(case["data"]), dtype=dtype).reshape(case["shape"])


def text_of(case: dict[str, Any], array: np.ndarray) -> str:
    options = {name: math.inf if option == "inf" else option for name, option in case["options"].items()}
    with printoptions(**options):
        return tensor_text(
            array,
            dtype_name=case["dtype"],
            default_dtypes=tuple(case["default"]),
            requires_grad=case["requires_grad"],
            grad_fn_name=case["grad_fn"],
        )


def plain(values: Any, **keywords: Any) -> str:
    array = np.asarray(values)
    return tensor_text(array, dtype_name=array.dtype.name, default_dtypes=DEFAULTS, **keywords)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['dtype']}-{case['shape']}-{case['options']}")
def test_recorded_form(case: dict[str, Any]) -> None:
    assert text_of(case, array_of(case)) == case["text"]


def test_recorded_forms_cover_every_dtype_and_mark() -> None:
    assert {case["dtype"] for case in CASES} == {
        *("bool", "uint8", "int8", "int16", "int32", "int64"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    }
    texts = [case["text"] for case in CASES]
    for mark in (
        "nan",
        "-inf",
        "-0.",
        "e-",
        "...",
        "size=",
        "dtype=",
        "grad_fn=",
        "requires_grad=",
        ",\n       dtype=",
    ):
        assert any(mark in text for text in texts), mark


@pytest.mark.parametrize(
    "case", [case for case in CASES if len(case["shape"]) > 1], ids=lambda case: str(case["shape"])
)
def test_memory_layout_does_not_show(case: dict[str, Any]) -> None:
    array = array_of(case)
    assert text_of(case, np.asfortranarray(array)) == case["text"]
    assert text_of(case, array[::-1].copy()[::-1]) == case["text"]


def test_array_is_not_changed() -> None:
    array = np.array([[1.0, np.nan], [-0.0, 1e9]])
    before = array.tobytes()
    plain(array)
    assert array.tobytes() == before


@pytest.mark.parametrize("shape", [(10**6, 10**7), (7, 10**12)])
def test_summary_does_not_visit_what_it_leaves_out(shape: tuple[int, int]) -> None:
    # Some 10**13 elements: a copy or a full pass, even of the rows that are shown, would end the run.
    array = np.broadcast_to(np.float32(1.5), shape)
    row = "[1.5000, 1.5000, 1.5000,  ..., 1.5000, 1.5000, 1.5000]"
    rows = [row] * 3 + ["..."] + [row] * 3
    assert plain(array) == "tensor([" + ",\n        ".join(rows) + "])"


def test_every_half_precision_value_prints_as_its_double() -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        values = bits.view(dtype).reshape(-1, 64)
        with np.errstate(invalid="ignore"):
            doubles = values.astype(np.float64)
        for row, double in zip(values, doubles):
            text = tensor_text(row, dtype_name="float64", default_dtypes=("float64",))
            assert text == tensor_text(double, dtype_name="float64", default_dtypes=("float64",))


def test_extra_suffixes_come_last_and_wrap() -> None:
    assert plain([1, 2], extra=("layout=x", "tangent=y")) == "tensor([1, 2], layout=x, tangent=y)"
    assert plain([1, 2], grad_fn_name="F", extra=("t" * 60,)) == f"tensor([1, 2], grad_fn=<F>,\n       {'t' * 60})"


def test_grad_fn_takes_the_place_of_requires_grad() -> None:
    assert plain(np.float32(1), requires_grad=True, grad_fn_name="AddBackward0") == "tensor(1., grad_fn=<AddBackward0>)"


def test_indentation_follows_the_last_line_of_the_prefix() -> None:
    assert plain([[1], [2]], prefix="Parameter containing:\nT(") == "Parameter containing:\nT([[1],\n   [2]])"


def test_infinite_linewidth_never_breaks() -> None:
    with printoptions(linewidth=math.inf):
        assert plain(range(900)) == f"tensor([{', '.join(f'{i:3d}' for i in range(900))}])"


@pytest.mark.parametrize("values", [np.array(["a"]), np.array([None]), np.array(["2020-01-01"], "datetime64[D]")])
def test_other_kinds_are_refused(values: np.ndarray) -> None:
    with pytest.raises(ArgumentError, match="expected an array of numbers"):
        plain(values)


def test_options_are_kept_until_set_again() -> None:
    assert get_printoptions() == DEFAULT_OPTIONS
    set_printoptions(precision=2, linewidth=40, sci_mode=True)
    assert get_printoptions() == {**DEFAULT_OPTIONS, "precision": 2, "linewidth": 40, "sci_mode": True}
    set_printoptions(edgeitems=5)
    assert get_printoptions() == {**DEFAULT_OPTIONS, "precision": 2, "linewidth": 40, "edgeitems": 5}
    set_printoptions(profile="short", precision=7)
    assert get_printoptions() == {**DEFAULT_OPTIONS, "precision": 7, "edgeitems": 2}
    set_printoptions(profile="full")
    assert get_printoptions() == {**DEFAULT_OPTIONS, "threshold": math.inf}


def test_context_restores_options_after_an_error() -> None:
    set_printoptions(precision=3, sci_mode=False)
    before = get_printoptions()

    def fail_inside() -> None:
        with printoptions(precision=1, profile="full"):
            assert get_printoptions() == {**DEFAULT_OPTIONS, "precision": 1, "threshold": math.inf}
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    assert get_printoptions() == before


@pytest.mark.parametrize("bad", [{"profile": "Full"}, {"precision": -1}, {"precision": 2.0}, {"edgeitems": -3}])
def test_bad_options_change_nothing(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueRangeError, match="set_printoptions: expected"):
        set_printoptions(linewidth=10, **bad)
    assert get_printoptions() == DEFAULT_OPTIONS


def test_examples_in_docstrings() -> None:
    result = doctest.testmod(printing)
    assert result.attempted and not result.failed
