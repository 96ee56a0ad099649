"""Fused functions: the same values as the function on arrays, one kernel where one is possible."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sapwood
from sapwood.kernels import builtin, engine, geometry, threads
from sapwood.kernels.fuse import Fused, build, elementwise, fuse
from sapwood.kernels.partition import partition
from sapwood.kernels.symbols import Unfusable, source

pytestmark = pytest.mark.skipif(not builtin.available(), reason=builtin.why_not() or "")

DTYPES = (np.float32, np.float64)
SHAPES = [(3, 5), (1, 7), (7, 1), (7, 1000), (60, 2100), (2000, 9), (2, 3, 70), (1, 1)]


def softmax(x):
    e = np.exp(x - np.max(x, -1, keepdims=True))
    return e / np.sum(e, -1, keepdims=True)


def log_softmax(x):
    d = x - np.max(x, -1, keepdims=True)
    return d - np.log(np.sum(np.exp(d), -1, keepdims=True))


def softmax_backward(g, out):
    return out * (g - np.sum(g * out, -1, keepdims=True))


def layer_norm(x, w, b, eps=1e-5):
    d = x - np.mean(x, -1, keepdims=True)
    return d / np.sqrt(np.mean(d * d, -1, keepdims=True) + eps) * w + b


def layer_norm_backward(g, x, w):
    d = x - np.mean(x, -1, keepdims=True)
    r = 1 / np.sqrt(np.mean(d * d, -1, keepdims=True) + 1e-5)
    u, h = d * r, g * w
    rest = tuple(range(x.ndim - 1))
    g_x = r * (h - np.mean(h, -1, keepdims=True) - u * np.mean(h * u, -1, keepdims=True))
    return g_x, np.sum(g * u, rest), np.sum(g, rest)


def batch_norm(x, w, b):
    m = np.mean(x, 0, keepdims=True)
    d = x - m
    v = np.mean(d * d, 0, keepdims=True)
    return d / np.sqrt(v + 1e-5) * w + b, m.reshape(x.shape[1:]), v.reshape(x.shape[1:])


FUNCTIONS = {
    "pointwise": lambda x, w: (x * 2 + w, x > w, -abs(x) / 3, np.where(x > 0, x, w)),
    "softmax": lambda x, w: softmax(x),
    "log_softmax": lambda x, w: log_softmax(x),
    "softmax_backward": lambda x, w: softmax_backward(x + w, x * w),
    "layer_norm": lambda x, w: layer_norm(x, w, w),
    "layer_norm_backward": lambda x, w: layer_norm_backward(x * 3, x, w),
    "batch_norm": lambda x, w: batch_norm(x, w, w),
    "softmax over columns": lambda x, w: np.exp(x - np.max(x, 0)) / np.sum(np.exp(x - np.max(x, 0)), 0),
    "sums": lambda x, w: (np.sum(x * w, -1), np.sum(x, 0), np.sum(x)),
    "extrema": lambda x, w: (np.max(x, -1), np.min(x + w, 0), np.max(x), x.min((0, -1), keepdims=True)),
    "variance": lambda x, w: np.mean((x - np.mean(x)) ** 2),
    "norm": lambda x, w: x / np.sqrt(np.sum(x * x)),
    "row values": lambda x, w: (np.sum(x, -1, keepdims=True) * 2 + np.max(w), np.exp(-np.sum(x * x))),
    "nested": lambda x, w: np.sum(np.sum(x, -1) ** 2) + np.sum(w),
    "three levels": lambda x, w: np.sum(x - np.mean(x / np.sum(x * x, 0), -1, keepdims=True), 0) + np.max(x),
}  # fmt: skip


def ulp_close(result, expected, magnitude, dtype):
    """Compare with a float64 reference; errors are relative to the size of what was added up."""
    tolerance = {np.dtype(np.float32): 3e-6, np.dtype(np.float64): 3e-14}[np.dtype(dtype)]
    np.testing.assert_allclose(np.asarray(result, float), expected, rtol=tolerance, atol=tolerance * magnitude)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, shape, dtype):
    function = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    x, w = rng.uniform(0.5, 1.5, shape).astype(dtype), rng.uniform(0.5, 1.5, shape[-1]).astype(dtype)
    x[..., ::3] *= -1
    expected = function(x.astype(float), w.astype(float))
    result = build(function, (x, w))(x, w)
    several = isinstance(expected, tuple)
    for r, e in zip(result if several else (result,), expected if several else (expected,), strict=True):
        e = np.asarray(e)
        assert type(r) is np.ndarray
        assert r.shape == e.shape
        assert r.dtype == (bool if e.dtype == bool else dtype)
        assert r.flags.c_contiguous
        ulp_close(r, e, 40 * max(1, np.abs(e).max()) if name.startswith(("layer", "batch", "three")) else 4, dtype)


def on_tensors(op, *arrays, **attrs):
    """Return an op's result for arrays, whatever the op is written with."""
    result = op(*[sapwood.from_numpy(a) for a in arrays], **attrs)
    return result.numpy()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        (sapwood.exp, {}),
        (sapwood.sigmoid, {}),
        (sapwood.tanh, {}),
        (sapwood.rsqrt, {}),
        (sapwood.nn.functional.gelu, {}),
        (sapwood.nn.functional.gelu, {"approximate": "tanh"}),
        (sapwood.nn.functional.silu, {}),
        (sapwood.nn.functional.elu, {"alpha": 0.7}),
        (sapwood.nn.functional.leaky_relu, {"negative_slope": 0.2}),
        (sapwood.nn.functional.softplus, {}),
        (sapwood.nn.functional.hardswish, {}),
    ],
    ids=lambda v: getattr(v, "__name__", "") or str(v),
)
def test_ops_by_name_and_by_formula(op, attrs, dtype):
    x = np.random.default_rng(0).uniform(0.01, 0.99, (5, 40)).astype(dtype)
    eager = {"elu": "elu", "leaky_relu": "leaky_relu"}.get(op.__name__)
    declared = op.op if hasattr(op, "op") else sapwood.ops.registry[eager or op.__name__]
    given = tuple(attrs.get(n, d) for n, d, _ in declared.params if n in declared.attrs)
    result = build(lambda s: type(s).__sapwood_op__(declared, (s,), given), (x,))(x)
    expected = on_tensors(op, x.astype(float), **attrs)
    ulp_close(result, expected, 1, dtype)


def test_softmax_is_one_kernel_and_layer_norm_backward_two():
    def kernels(function, *shapes):
        symbols = [source(i, np.ones(s)) for i, s in enumerate(shapes)]
        out = function(*symbols)
        return len(partition(list(out) if isinstance(out, tuple) else [out]))

    assert kernels(softmax, (3, 4)) == 1
    assert kernels(layer_norm, (3, 4), (4,), (4,)) == 1
    assert kernels(layer_norm_backward, (3, 4), (3, 4), (4,)) == 2
    assert kernels(batch_norm, (3, 4), (4,), (4,)) == 1
    assert kernels(lambda x: x + 1, (3, 4)) == 1


def test_costly_values_are_computed_once():
    from sapwood.kernels.loops import Kernel

    x = source(0, np.ones((30, 40)))
    out = softmax(x)
    (group,) = partition([out])
    kernel = Kernel(group, set(), out.roots()[-1])
    assert [len(s.roots) for s in kernel.sweeps] == [0, 1, 1]
    assert kernel.scratch == [], "exp(x - max) waits in the result's own memory"


def test_numbers_and_sizes_cost_no_compilation():
    function = fuse(lambda x, eps: x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps))
    function(np.ones((3, 4)), 1e-5)
    before = engine.counts()
    for n in (5, 6, 700):
        for eps in (1e-3, 1e-4):
            x = np.random.default_rng(n).random((n, n))
            np.testing.assert_allclose(function(x, eps), x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps), 1e-13)
    assert engine.counts() == before


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(dtype):
    rng = np.random.default_rng(0)
    function = lambda x, y: (x + y, np.sum(x * y, 0), np.sum(x * y, -1), x - np.max(y, -1, keepdims=True))
    normal = lambda *s: rng.standard_normal(s).astype(dtype)
    arrays = [
        normal(30, 40), normal(40, 30).T, normal(30, 80)[:, ::2], normal(60, 40)[::2], normal(30, 40)[::-1],
        normal(30, 40)[:, ::-1], np.broadcast_to(normal(40), (30, 40)), np.broadcast_to(normal(30, 1), (30, 40)),
    ]  # fmt: skip
    for x in arrays:
        for y in arrays:
            result = fuse(function)(x, y)
            for r, e in zip(result, function(x.astype(float), y.astype(float)), strict=True):
                assert r.dtype == dtype
                ulp_close(r, e, 30, dtype)


def test_many_axes():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((4, 6, 5, 7)), rng.standard_normal(6)

    def channels(x, w):
        m = np.mean(x, (0, 2, 3), keepdims=True)
        d = x - m
        v = np.mean(d * d, (0, 2, 3), keepdims=True)
        return d / np.sqrt(v + 1e-5) * w.reshape((1, -1, 1, 1)), m.reshape((6,)), v.reshape((6,))

    for function in (
        channels,
        lambda x, w: np.sum(x, (1, 2)),
        lambda x, w: np.sum(x, (0, 3)),
        lambda x, w: np.sum(x * x, (0, 2), keepdims=True),
        lambda x, w: x - np.max(x, (1, 3), keepdims=True),
        lambda x, w: np.exp(x - np.max(x, 1, keepdims=True)) / np.sum(np.exp(x), 1, keepdims=True),
    ):
        result, expected = build(function, (x, w))(x, w), function(x, w)
        several = isinstance(expected, tuple)
        for r, e in zip(result if several else (result,), expected if several else (expected,), strict=True):
            np.testing.assert_allclose(r, e, 1e-12, 1e-12)


def test_special_values():
    x = np.array([[1.0, np.nan, 2.0], [np.inf, 1.0, np.inf], [-np.inf, 1.0, 2.0], [np.inf, -np.inf, 0.0]])
    x = np.tile(x, (1, 30))
    for function in (
        lambda x: np.sum(x, -1),
        lambda x: np.max(x, -1),
        lambda x: np.min(x, -1),
        lambda x: np.max(x, 0),
        lambda x: np.sum(x, 0),
        lambda x: np.sum(x),
        lambda x: x - np.max(x, -1, keepdims=True),
    ):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(build(function, (x,))(x), function(x))
            y = x.astype(np.float32)
            np.testing.assert_array_equal(build(function, (y,))(y), function(y))


def test_sums_are_nearly_exact():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(3_000_001).astype(np.float32) + np.float32(1000)
    exact = math.fsum(x.tolist())
    assert abs(float(fuse(lambda x: np.sum(x))(x)) - exact) <= np.spacing(np.float32(exact))
    y = x.astype(float) * 1e-3 + 1.1
    exact = math.fsum(y.tolist())
    assert abs(float(fuse(lambda x: np.sum(x))(y)) - exact) <= np.spacing(exact)
    tall = y[:1_000_000].reshape(-1, 4)
    result = fuse(lambda x: np.sum(x, 0))(tall)
    for j in range(4):
        assert abs(result[j] - math.fsum(tall[:, j].tolist())) <= np.spacing(result[j])


def test_threads_do_not_change_results():
    before = threads.get_num_threads()
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2000, 700)).astype(np.float32), rng.standard_normal(700).astype(np.float32)
    functions = [fuse(f) for f in FUNCTIONS.values()]
    try:
        answers = []
        for n in (1, 2, 3, 5):
            threads.set_num_threads(n)
            found = [f(x, w) for f in functions]
            answers.append([r.tobytes() for f in found for r in (f if isinstance(f, tuple) else (f,))])
        assert all(a == answers[0] for a in answers[1:])
    finally:
        threads.set_num_threads(before)


def test_long_sweeps_are_divided_the_same_way_for_any_number_of_threads():
    x = source(0, np.ones(5_000_000))
    (group,) = partition([x.sum()])
    from sapwood.kernels.loops import Kernel

    strides = {x: geometry.strides_of(x, (8,)), group.results[0]: {}}
    order = geometry.axis_order(group, [x], strides)
    size = geometry.measure(Kernel(group, set(), order[-1]), order, strides)
    assert size.parts == size.units == 64


def test_nones_and_lists():
    function = fuse(lambda x: (None, x + 1, None))
    first, second, third = function(np.ones(3))
    assert first is third is None
    assert second.tolist() == [2, 2, 2]
    assert [type(r) for r in fuse(lambda x: [x + 1, x])(np.ones(3))] == [np.ndarray, np.ndarray]


def test_a_result_that_is_an_input_is_a_copy():
    x = np.ones(3)
    result = fuse(lambda x: (x, x * 2))(x)
    assert result[0].tolist() == [1, 1, 1]
    assert not np.shares_memory(result[0], x)


def test_keyword_arguments_and_other_values():
    function = fuse(lambda x, scale=1.0, *, mode="plain": x * scale if mode == "plain" else x / scale)
    x = np.array([2.0, 4.0])
    assert function(x, 2).tolist() == [4, 8]
    assert function(x, 2.5).tolist() == [5, 10]
    assert function(x, scale=2).tolist() == [4, 8]
    assert function(x, 2, mode="other").tolist() == [1, 2]
    assert function(x, True).tolist() == [2, 4]
    assert isinstance(function, Fused)


UNFUSABLE = {
    "an unknown function": (lambda x: np.cumsum(x, 0), np.ones((2, 3))),
    "a product of matrices": (lambda x: x @ x, np.ones((3, 3))),
    "a question about values": (lambda x: x if (x > 0).all() else -x, np.ones(3)),
    "a truth": (lambda x: x if x[0] else -x, np.ones(3)),
    "its own transpose": (lambda x: x + np.transpose(x), np.ones((3, 3))),
    "a reshape": (lambda x: np.reshape(x, (6,)) * 2, np.ones((2, 3))),
    "integers": (lambda x: x + 1, np.arange(3)),
    "an empty array": (lambda x: x + 1, np.ones((0, 3))),
    "a mixture of dtypes": (lambda x: x + np.ones(3, np.float32), np.ones(3)),
    "a keyword of a ufunc": (lambda x: np.add(x, x, dtype=float), np.ones(3)),
    "a number": (lambda x: 3, np.ones(3)),
}


@pytest.mark.parametrize("what", UNFUSABLE)
def test_what_cannot_be_fused_runs_on_arrays(what):
    function, x = UNFUSABLE[what]
    np.testing.assert_array_equal(fuse(function)(x), function(x))


def test_errors_of_the_function_itself_pass():
    with pytest.raises(ZeroDivisionError):
        fuse(lambda x: x * (1 // 0))(np.ones(3))


def test_sizes_that_do_not_broadcast_are_numpys_error():
    with pytest.raises(ValueError, match="broadcast"):
        fuse(lambda x, y: x + y)(np.ones(3), np.ones(4))


def test_without_kernels_the_function_runs_on_arrays(monkeypatch):
    monkeypatch.setattr(builtin, "why_not", lambda: "no kernels today")
    with pytest.raises(Unfusable, match="no kernels today"):
        build(softmax, (np.ones((2, 3)),))
    np.testing.assert_allclose(fuse(softmax)(np.ones((2, 4))), np.full((2, 4), 0.25))


@pytest.mark.parametrize("dtype", DTYPES)
def test_elementwise_formulas_become_builtins(dtype):
    rng = np.random.default_rng(0)
    g, x = rng.standard_normal((2, 3, 50)).astype(dtype)

    def slope(g, x, beta):
        s = 1 / (np.exp(-x * beta) + 1)
        return g * (s * (x * beta * (1 - s) + 1))

    native = builtin.pointwise("slope", elementwise(slope, 2), 2, slope, attrs={"beta": 1.0})
    for given in (g, g[:1], g[:, :1], g.T.copy().T):
        ulp_close(native(given, x, 0.5), slope(given.astype(float), x.astype(float), 0.5), 1, dtype)
    masked = builtin.pointwise("masked", elementwise(lambda g, out: g * (out > 0), 2), 2, slope)
    np.testing.assert_array_equal(masked(g, x), g * (x > 0))


def test_formulas_that_are_not_elementwise_are_refused():
    for wrong in (lambda x: x - np.max(x), lambda x: x[0], lambda x: 3):
        with pytest.raises(Unfusable):
            builtin.pointwise("wrong", elementwise(wrong, 1), 1, wrong)


def test_plans_are_forgotten_with_what_they_point_to(monkeypatch):
    import gc
    import weakref

    from sapwood.kernels import fuse as module

    monkeypatch.setattr(module, "PLANS", 3)
    function = fuse(lambda x: np.sum(x * x, -1) + 1)
    definitions = []
    for n in range(2, 12):
        x = np.random.default_rng(n).random((n, n))
        np.testing.assert_allclose(function(x), np.sum(x * x, -1) + 1)
        definitions += [weakref.ref(plan.__self__.kept[-1]) for plan in function._plans.values()]
    gc.collect()
    assert len(function._plans) <= 3
    assert len({id(d) for t in definitions if (d := t()) is not None}) <= 3


@pytest.mark.parametrize("shapes", [((3,), (4,)), ((300,), (7,)), ((5, 3), (5,)), ((2, 3, 4), (3, 1)), ((6,), ())])
def test_results_of_different_shapes(shapes):
    x, y = (np.linspace(-1, 2, int(np.prod(s))).reshape(s) for s in shapes)
    function = fuse(lambda a, b: (np.exp(a), b * 2.0, np.sum(a), np.exp(-b)))
    for got, expected in zip(function(x, y), (np.exp(x), y * 2, np.sum(x), np.exp(-y)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-14)
