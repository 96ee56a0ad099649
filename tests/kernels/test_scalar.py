"""Scalars: the text they become, and that the text computes what the operators say."""

from __future__ import annotations

import gc
import operator

import numpy as np
import pytest

from sapwood.errors import ArgumentError, DtypeError
from sapwood.kernels import scalar
from sapwood.kernels.scalar import const, convert, fma, lower, select, var

X = np.array([0.0, -0.0, 1.5, -2.5, 0.5, 3.5, np.inf, -np.inf, np.nan, 1e-40, -7.0, 1e30])
Y = np.array([-0.0, 2.0, np.nan, -2.5, np.inf, -3.0, 1.0, -np.inf, np.nan, 1.0, 4.0, -1e30])
SMALL = np.array([0, 1, -1, 5, -7, 100, -128, 127])


@pytest.fixture(scope="module")
def loop():
    pytest.importorskip("llvmlite")
    import plain_loop

    return plain_loop.Loop


def test_text_is_shared_and_ordered():
    x = var("%x", "f32")
    y = (x + 1) * (x + 1)
    lines, names = lower([y, x, y - 2.0])
    assert lines == [
        "%t0 = fadd float %x, 0x3FF0000000000000",
        "%t1 = fmul float %t0, %t0",
        "%t2 = fsub float %t1, 0x4000000000000000",
    ]
    assert names == ["%t1", "%x", "%t2"]
    assert lower([y], prefix="a")[1] == ["%a1"]


def test_equal_expressions_are_one_object():
    x = var("%x", "f64")
    assert fma(x, x, 0.5) is fma(x, x, 0.5)
    assert const(0.0, "f32") is not const(-0.0, "f32")
    assert const(float("nan"), "f32") is const(-float("nan"), "f32")
    assert const(0.1, "f32") is const(float(np.float32(0.1)), "f32")
    assert const(0xFFFFFFFF, "i32") is const(-1, "i32")
    assert const(1e300, "f32") is const(float("inf"), "f32")


def test_expressions_are_forgotten():
    x = var("%forgotten", "f32")
    before = len(scalar._known)
    y = (x + 17.25) * (x - 18.25)
    assert len(scalar._known) > before
    del y
    gc.collect()
    assert len(scalar._known) == before


def test_deep_expressions_need_no_recursion():
    y = var("%x", "f32")
    for i in range(20_000):
        y = y + float(i % 7)
    assert len(lower([y])[0]) == 20_000


def test_a_comparison_is_no_truth_value():
    x = var("%x", "f32")
    with pytest.raises(ArgumentError, match="select"):
        bool(x < 1)
    with pytest.raises(ArgumentError, match="select"):
        x in [var("%y", "f32")]  # noqa: B015


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, d, i, b: x + d,
        lambda x, d, i, b: i + 0.5,
        lambda x, d, i, b: i / i,
        lambda x, d, i, b: x & x,
        lambda x, d, i, b: b + b,
        lambda x, d, i, b: scalar.sqrt(i),
        lambda x, d, i, b: select(x, x, x),
        lambda x, d, i, b: scalar.bitcast(x, "i64"),
        lambda x, d, i, b: const(300, "u8"),
        lambda x, d, i, b: var("%y", "f16"),
    ],
)
def test_wrong_types_are_refused(wrong):
    with pytest.raises(DtypeError):
        wrong(var("%x", "f32"), var("%d", "f64"), var("%i", "i32"), var("%b", "i1"))


def test_rare_is_select_unless_told_otherwise():
    x = var("%x", "f32")
    y = scalar.rare(x > 1e4, scalar.sqrt(x), x * 2) + scalar.rare(x < -1e4, x * 3, x)
    assert sum("select" in line for line in lower([y])[0]) == 2
    assert [line.split()[2] for line in lower([y], fast=True)[0]] == ["fmul", "fadd"]
    held = scalar.guard([y])
    assert [line.split()[2] for line in lower([held])[0]] == ["fcmp", "fcmp", "or"]
    assert scalar.guard([x]) is None


def same(got, want):
    np.testing.assert_array_equal(got, want)
    if got.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_float_operations(loop, dtype):
    kind = {"f32": np.float32, "f64": np.float64}[dtype]
    x, y = X.astype(kind), Y.astype(kind)
    with np.errstate(all="ignore"):
        for f in (operator.add, operator.sub, operator.mul, operator.truediv):
            same(loop(f, dtype, dtype)(x, y), f(x, y))
            same(loop(lambda a, f=f: f(a, 0.1), dtype)(x), f(x, x.dtype.type(0.1)))
            same(loop(lambda a, f=f: f(0.1, a), dtype)(x), f(x.dtype.type(0.1), x))
        for name in ("lt", "le", "gt", "ge", "eq", "ne"):
            same(loop(getattr(operator, name), dtype, dtype)(x, y), getattr(operator, name)(x, y))
        for name in ("sqrt", "rint", "floor", "ceil", "trunc", "fabs", "isnan"):
            same(loop(getattr(scalar, name), dtype)(x), getattr(np, name)(x))
        for name in ("minimum", "maximum", "fmin", "fmax"):
            got = loop(getattr(scalar, name), dtype, dtype)(x, y)
            np.testing.assert_array_equal(got, getattr(np, name)(x, y))
        same(loop(scalar.copysign, dtype, dtype)(x, y), np.copysign(x, y))
        same(loop(operator.neg, dtype)(x), -x)
        same(loop(lambda a, b: select(a > b, a, 2.5), dtype, dtype)(x, y), np.where(x > y, x, x.dtype.type(2.5)))


def test_fma_rounds_once(loop):
    x = np.float32([1 + 2**-12, 1 - 2**-12])
    assert loop(lambda a: fma(a, a, -1.0), "f32")(x).tolist() == [2**-11 + 2**-24, -(2**-11) + 2**-24]


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64", "u8"])
def test_integer_operations(loop, dtype):
    kind = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8}[dtype]
    x = SMALL.astype(kind)
    y = x[::-1].copy()
    for f in (operator.add, operator.sub, operator.mul, operator.and_, operator.or_, operator.xor, operator.lt,
              operator.ge, operator.eq):  # fmt: skip
        same(loop(f, dtype, dtype)(x, y), f(x, y))
    for f in (operator.neg, operator.invert, lambda a: a >> 2, lambda a: a << 3):
        same(loop(f, dtype)(x), f(x))
    same(loop(lambda a: scalar.lshr(a, 2), dtype)(x), (x.view(f"u{x.itemsize}") >> 2).view(x.dtype))
    same(loop(scalar.maximum, dtype, dtype)(x, y), np.maximum(x, y))
    same(loop(abs, dtype)(x), abs(x) if dtype != "u8" else x)


def test_conversions(loop):
    for source in ("f32", "f64", "i8", "i16", "i32", "i64", "u8", "i1"):
        values = np.array([0, 1, 2, 100]) if source != "f32" else np.array([0, 0.5, 1.75, 100])
        for target in ("f32", "f64", "i8", "i16", "i32", "i64", "u8", "i1"):
            run = loop(lambda a, target=target: convert(a, target), source)
            same(run(values), values.astype(run.dtypes[0]).astype(run.result))
    same(loop(lambda a: convert(a, "i8"), "i64")(SMALL * 1000), (SMALL * 1000).astype(np.int8))
    same(loop(lambda a: convert(a, "i64"), "u8")(np.uint8([255, 128])), np.int64([255, 128]))
    same(loop(lambda a: convert(a, "f32"), "f64")(np.array([0.1, 1e300])), np.float32([0.1, np.inf]))


def test_bits(loop):
    x = np.float32([1.0, -0.0, np.inf])
    same(loop(lambda a: scalar.bitcast(a, "i32"), "f32")(x), x.view(np.int32))
    same(loop(lambda a: scalar.bitcast(a, "f64"), "i64")(np.int64([1, -1 << 63])), np.array([5e-324, -0.0]))
