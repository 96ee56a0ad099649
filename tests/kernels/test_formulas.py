"""Vector maths: every function within 2 units in the last place of the true value, and right where it is special."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("llvmlite")
pytest.importorskip("mpmath")

import exact
from plain_loop import Loop, text

from sapwood.kernels import formulas, scalar

INF, NAN = float("inf"), float("nan")
BOUND = 2.0
NAMES = list(exact.FUNCTIONS)


@pytest.fixture(scope="module")
def compiled():
    known = {}

    def get(name, dtype, fast=False):
        key = name, dtype, fast
        if key not in known:
            known[key] = Loop(getattr(formulas, name), *[dtype] * (1 + (name in ("pow", "atan2"))), fast=fast)
        return known[key]

    return get


@pytest.mark.parametrize("name", NAMES)
def test_float32_everywhere(compiled, name):
    double, _, intervals = exact.FUNCTIONS[name]
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        for row in exact.operands(name, "f32", 40009, 500, intervals, rng):
            error = exact.ulps(compiled(name, "f32")(*row), double(*(x.astype(np.float64) for x in row)), "f32")
            worst = int(np.argmax(error))
            assert error[worst] <= BOUND, (name, [float(x[worst]) for x in row])


@pytest.mark.parametrize("name", NAMES)
def test_float64_everywhere(compiled, name):
    double, true, intervals = exact.FUNCTIONS[name]
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        for row in exact.operands(name, "f64", 1, 60, intervals, rng):
            want = exact.truth(double, true, row)
            error = exact.ulps(compiled(name, "f64")(*row), want, "f64")
            worst = int(np.argmax(error))
            assert error[worst] <= BOUND, (name, [float(x[worst]) for x in row])


SPECIAL = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (1.0, np.e)],
    "exp2": [(3.0, 8.0), (-2.0, 0.25), (INF, INF), (-INF, 0.0)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0)],
    "log": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN)],
    "log2": [(8.0, 3.0), (0.125, -3.0), (0.0, -INF), (INF, INF), (-1.0, NAN)],
    "log10": [(1.0, 0.0), (1000.0, 3.0), (0.0, -INF), (INF, INF), (-1.0, NAN)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (INF, INF), (-2.0, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "sigmoid": [(0.0, 0.5), (INF, 1.0), (-INF, 0.0)],
    "sinh": [(-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "cosh": [(0.0, 1.0), (INF, INF), (-INF, INF)],
    "asinh": [(-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1.0, 0.0), (0.5, NAN), (-3.0, NAN), (INF, INF), (-INF, NAN)],
    "atanh": [(-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (INF, NAN)],
    "rsqrt": [(4.0, 0.5), (0.0, INF), (-0.0, -INF), (INF, 0.0), (-1.0, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN)],
    "asin": [(-0.0, -0.0), (1.0, np.pi / 2), (-1.0, -np.pi / 2), (1.5, NAN), (INF, NAN)],
    "acos": [(1.0, 0.0), (-1.0, np.pi), (0.0, np.pi / 2), (-2.0, NAN)],
    "atan": [(-0.0, -0.0), (INF, np.pi / 2), (-INF, -np.pi / 2), (1.0, np.pi / 4)],
    "erf": [(-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "erfc": [(0.0, 1.0), (INF, 0.0), (-INF, 2.0)],
    "gelu": [(0.0, 0.0), (INF, INF), (-INF, NAN), (-100.0, -0.0), (100.0, 100.0)],
    "gelu_tanh": [(-0.0, -0.0), (INF, INF), (-INF, NAN), (-100.0, -0.0), (100.0, 100.0)],
    "silu": [(-0.0, -0.0), (INF, INF), (-INF, NAN), (-1e30, -0.0), (1e30, 1e30)],
    "mish": [(-0.0, -0.0), (INF, INF), (-INF, NAN), (-1e30, -0.0), (1e30, 1e30)],
    "softplus": [(0.0, np.log(2)), (INF, INF), (-INF, 0.0), (30.0, 30.0)],
    "logsigmoid": [(0.0, -np.log(2)), (INF, 0.0), (-INF, -INF)],
    "elu": [(-0.0, -0.0), (2.5, 2.5), (INF, INF), (-INF, -1.0)],
    "hardswish": [(-0.0, -0.0), (-3.0, -0.0), (-4.0, -0.0), (3.0, 3.0), (INF, INF), (-INF, NAN)],
    "relu": [(-0.0, 0.0), (-1.0, 0.0), (2.0, 2.0), (INF, INF), (-INF, 0.0)],
}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name, dtype):
    run = Loop(getattr(formulas, name), dtype)
    kind = exact.KINDS[dtype]
    # Alone and in the middle of a vector: the loop's remainder is other code.
    for x, want in [*SPECIAL[name], (NAN, NAN)]:
        for n in (1, 67):
            got = run(np.full(n, x, kind))
            want = kind(want)
            np.testing.assert_array_equal(got, np.full(n, want))
            if name != "relu":
                assert (np.signbit(got) == np.signbit(want)).all() or np.isnan(want), (name, x)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_powers_of_special_values(compiled, dtype):
    kind = exact.KINDS[dtype]
    values = np.array([0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, INF, -INF, NAN], kind)
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        for name, want in (("pow", np.power(x, y)), ("atan2", np.arctan2(x, y))):
            got = compiled(name, dtype)(x, y)
            np.testing.assert_allclose(got, want, rtol=4 * np.finfo(kind).eps, atol=0)
            regular = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got[regular]), np.signbit(want[regular]))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_exact_results(compiled, dtype):
    kind = exact.KINDS[dtype]
    n = np.arange(-140, 120, dtype=kind)
    np.testing.assert_array_equal(compiled("exp2", dtype)(n), np.ldexp(kind(1), n.astype(int)))
    np.testing.assert_array_equal(compiled("log2", dtype)(np.ldexp(kind(1), n.astype(int))), n)
    np.testing.assert_array_equal(compiled("pow", dtype)(n, np.full_like(n, 2)), n * n)
    np.testing.assert_array_equal(compiled("pow", dtype)(np.full_like(n, 9), np.full_like(n, 0.5)), 3)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_angles_without_the_rare_path(compiled, name, dtype):
    x = np.random.default_rng(0).uniform(-1e4, 1e4, 3001).astype(exact.KINDS[dtype])
    np.testing.assert_array_equal(compiled(name, dtype, fast=True)(x), compiled(name, dtype)(x))
    x = scalar.var("%x", dtype)
    held = scalar.guard([getattr(formulas, name)(x)])
    large = Loop(lambda v: scalar.guard([getattr(formulas, name)(v)]), dtype)
    assert held is not None
    assert large(np.array([1.0, -1e4, 2e9, -2e9, NAN])).tolist() == [False, False, True, True, False]


def test_parameters_of_activations():
    x = np.linspace(-3, 3, 101, dtype=np.float32)
    got = Loop(lambda v: formulas.elu(v, 0.5, 2.0, 1.5), "f32")(x)
    np.testing.assert_allclose(got, np.where(x > 0, 2 * x, np.expm1(x * 1.5)), rtol=1e-6)
    got = Loop(lambda v, b: formulas.softplus(v, b, 4.0), "f32", "f32")(x, np.float32(2.0))
    np.testing.assert_allclose(got, np.where(x > 2, x, np.log1p(np.exp(2 * x)) / 2), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", [n for n in formulas.__all__ if n not in ("pow", "atan2")])
def test_no_calls_and_no_branches(name, dtype):
    called = set(re.findall(r"@llvm\.(\w+)", text(getattr(formulas, name), (dtype,))[0]))
    assert called <= {"fma", "sqrt", "rint", "fabs", "copysign"}
