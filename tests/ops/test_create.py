"""Constructors, random tensors and conversions: what samples cannot say (classes, texts, memory, nodes)."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import sapwood as sw
from sapwood.errors import ArgumentError, DtypeError, GradError, ShapeError, ValueRangeError


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (True, sw.bool),
        ([1, 2], sw.int64),
        ([1, 2.5], sw.float32),
        ([1, 1j], sw.complex64),
        ([], sw.float32),
        (np.float64(1), sw.float64),
        ([np.float16(1), 2.5], sw.float32),
        ([np.int32(1), np.int8(2)], sw.int32),
        (range(3), sw.int64),
        (np.ones(2, np.uint8), sw.uint8),
    ],
)
def test_inferred_dtype(data, dtype):
    assert sw.tensor(data).dtype is dtype


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: sw.tensor([[1, 2], [3]]), ShapeError, "lengths 1, 2"),
        (lambda: sw.tensor([[2], 1]), ArgumentError, "mixed at depth 1"),
        (lambda: sw.tensor("a"), DtypeError, "got str"),
        (lambda: sw.tensor(2**63), ValueRangeError, "does not fit int64"),
        (lambda: sw.tensor(300, dtype=sw.uint8), ValueRangeError, "300 does not fit uint8"),
        (lambda: sw.tensor(float("nan"), dtype=sw.int64), ValueRangeError, "nan does not fit"),
        (lambda: sw.tensor(1j, dtype=sw.float32), DtypeError, "complex number cannot become float32"),
        (lambda: sw.from_numpy(np.ones(3)[::-1]), ValueRangeError, "negative stride"),
        (lambda: sw.from_numpy(np.array(["a"])), DtypeError, "no dtype stands for"),
        (lambda: sw.from_numpy([1]), ArgumentError, "array is expected, got list"),
        (lambda: sw.zeros(), ArgumentError, "a size is expected"),
        (lambda: sw.zeros(2.0), ArgumentError, "must be an int, got float"),
        (lambda: sw.zeros(-1), ValueRangeError, "must not be negative"),
        (lambda: sw.full(2, 3), ArgumentError, "must be a sequence"),
        (lambda: sw.arange(5, 0), ValueRangeError, "leads away from end"),
        (lambda: sw.arange(0, 5, 0), ValueRangeError, "step must not be 0"),
        (lambda: sw.linspace(0, 1, -1), ValueRangeError, "steps must not be negative"),
        (lambda: sw.Tensor(2.5), ArgumentError, "a sequence or a tensor"),
        (lambda: sw.LongTensor(sw.ones(2)), ArgumentError, "int64 is expected, got float32"),
        (lambda: sw.rand(2, dtype=sw.int64), NotImplementedError, "got int64"),
        (lambda: sw.normal(0.0, 1.0), ArgumentError, "a size is expected"),
        (lambda: sw.zeros(2, out=sw.empty(2), dtype=sw.int64), DtypeError, "drop one of them"),
        (lambda: sw.iinfo(sw.float32), TypeError, "use finfo"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_copies_and_lost_gradients_warn():
    x = sw.ones(1, requires_grad=True)
    with pytest.warns(UserWarning, match="already"):
        assert not sw.tensor(x).requires_grad
    with pytest.warns(UserWarning, match="not be connected"):
        sw.tensor([x, 2.0])
    frozen = np.ones(2)
    frozen.flags.writeable = False
    with pytest.warns(UserWarning, match="read-only"):
        sw.from_numpy(frozen)


def test_memory_is_shared():
    a = np.zeros(3)
    t = sw.from_numpy(a)
    t[0] = 1
    assert sw.as_tensor(a).data_ptr() == t.data_ptr() and a[0] == 1
    assert sw.tensor(a).data_ptr() != t.data_ptr()
    assert sw.Tensor(t).data_ptr() == t.data_ptr() and sw.as_tensor(t) is t
    buffer = bytearray(8)
    sw.frombuffer(buffer, dtype=sw.float32)[0] = 1
    assert bytes(buffer[:4]) == b"\x00\x00\x80?"
    u = sw.from_dlpack(sw.to_dlpack(t))
    u[1] = 5
    assert a[1] == 5 and np.from_dlpack(t)[1] == 5


def test_strides_are_kept():
    turned = sw.ones(2, 3).t()
    assert sw.zeros_like(turned).stride() == (1, 3) == sw.rand_like(turned).stride()
    assert sw.zeros_like(turned, memory_format=sw.contiguous_format).stride() == (2, 1)
    assert sw.empty(1, 3, 2, 2, memory_format=sw.channels_last).stride() == (12, 1, 6, 3)
    assert sw.empty_strided((2, 2), (1, 2)).stride() == (1, 2)


def test_arange_counts_by_rounding_up():
    assert sw.arange(0, 1, 0.1).shape == (10,) and sw.arange(1, 4.5).tolist() == [1, 2, 3, 4]
    assert sw.arange(5, 0, -2).tolist() == [5, 3, 1] and sw.arange(3.0).dtype is sw.float32


NODES = {
    "normal_": ("NormalBackward0", ()),
    "uniform_": ("UniformBackward0", ()),
    "random_": ("RandomBackward2", ()),
    "exponential_": ("ExponentialBackward0", ()),
    "cauchy_": ("CauchyBackward0", ()),
    "log_normal_": ("LogNormalBackward0", ()),
    "geometric_": ("GeometricBackward0", (0.5,)),
    "bernoulli_": ("BernoulliBackward2", (0.5,)),
}


@pytest.mark.parametrize("name", NODES)
def test_random_in_place(name):
    node, args = NODES[name]
    x = sw.ones(3, requires_grad=True)
    with pytest.raises(GradError, match="leaf that requires grad"):
        getattr(x, name)(*args)
    y = x * 2
    version = y._version
    assert getattr(y, name)(*args) is y and y._version == version + 1
    assert type(y.grad_fn).__name__ == node
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_random_with_parameters_sends_zeros_back():
    x = sw.full((3,), 0.5, requires_grad=True)
    for t, node in (
        (sw.bernoulli(x), "BernoulliBackward0"),
        (sw.normal(x, 1.0), "NormalBackward1"),
        (sw.normal(0.0, x), "NormalBackward2"),
        (sw.normal(x, x), "NormalBackward3"),
        (sw.poisson(x), "PoissonBackward0"),
    ):
        assert type(t.grad_fn).__name__ == node
        (g,) = sw.autograd.grad(t.sum(), x)
        assert g.tolist() == [0, 0, 0]
    with pytest.raises(NotImplementedError):
        sw.bernoulli(x, 0.5).sum().backward()


def test_state_is_a_tensor():
    state = sw.get_rng_state()
    first = sw.rand(3)
    assert state.dtype is sw.uint8 and state.shape == (5056,)
    sw.set_rng_state(state)
    assert sw.rand(3).tolist() == first.tolist()


def test_numpy_functions_keep_the_graph_or_refuse():
    t, x, a = sw.ones(3), sw.ones(3, requires_grad=True), np.ones(3)
    assert type(np.concatenate([t, t])) is np.ndarray and type(np.sin(t)) is sw.Tensor
    assert np.concatenate([x, t]).requires_grad and np.sum(x, axis=0).requires_grad and (a * x).requires_grad
    assert (a * x).dtype is sw.float64 and (np.float64(2) * x).dtype is sw.float32
    assert np.maximum(t, 0).tolist() == [1, 1, 1] and np.std(x).item() == 0
    with pytest.raises(GradError, match="would be lost"):
        np.histogram(x)
    with pytest.raises(GradError):
        a += x
    a += t
    assert type(a) is np.ndarray and a.tolist() == [2, 2, 2]


def test_copies():
    x = sw.tensor([1.0, 2.0], requires_grad=True)
    x.grad, x.note = sw.ones(2), "kept"
    twin = copy.deepcopy(x)
    assert twin.grad is not x.grad and twin.grad.tolist() == [1, 1] and twin.note == "kept"
    with pytest.raises(GradError, match="only leaves"):
        copy.deepcopy(x * 2)
    base = sw.arange(4.0)
    for both in (copy.deepcopy([base, base[1:]]), pickle.loads(pickle.dumps([base, base[1:]]))):
        both[0][1] = 9
        assert both[1].tolist() == [9, 2, 3]


def test_numbers():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f"{sw.tensor(2.5):.2f}|{sw.tensor(3.0)}" == "2.50|3.0" and [1, 2][sw.tensor(1)] == 2
    with pytest.raises(ValueError, match="one element"):
        float(sw.ones(2))
    with pytest.raises(RuntimeError, match="imaginary"):
        float(sw.tensor(1j))
    assert repr(sw.finfo(sw.float32)).startswith("finfo(resolution=1e-06, min=-3.40282e+38")
    assert repr(sw.iinfo(sw.int8)) == "iinfo(min=-128, max=127, dtype=int8)"
    assert isinstance(sw.ones(1), sw.FloatTensor) and not isinstance(sw.ones(1), sw.LongTensor)
