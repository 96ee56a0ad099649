"""Every draw gives PyTorch's numbers and leaves PyTorch's state behind; a generator can be saved, shared and restored.

Golden values: `golden/make_random.py`.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import pickle
import platform
import subprocess
import sys
import threading
import warnings
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sapwood.random.arrays as sr
from sapwood.errors import DtypeError, LoadError, MissingError, ShapeError, ValueRangeError
from sapwood.random.choice import _exchange
from sapwood.random.rounding import fma32, fma64

GOLDEN = np.load(Path(__file__).parent / "golden" / "random.npz")
CASES = json.loads(GOLDEN["cases"].tobytes())

# float64 logarithms, sines … come from the C library, on both sides. The golden values were made with glibc on a CPU
# with FMA; another C library may round differently, so that elsewhere only the consumed words are compared.
SAME_LIBM = platform.system() == "Linux" and platform.libc_ver()[0] == "glibc" and platform.machine() == "x86_64"
BY_LIBM = {
    "normal_", "exponential_", "cauchy_", "log_normal_", "geometric_", "trunc_normal_",
    "standard_gamma", "dirichlet", "normal", "normal_by_mean", "normal_by_std", "multinomial",
}  # fmt: skip


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def dtype_of(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def run_fill(case: dict) -> np.ndarray:
    n, dtype = case["size"], dtype_of(case["dtype"])
    base = np.zeros((n, 6), dtype) if case["layout"] == "strided" else np.zeros(n, dtype)
    out = base[:, ::2].T if case["layout"] == "strided" else base
    name = "dropout_noise_" if case["op"] == "dropout" else case["op"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # bounds beyond what the dtype holds exactly
        assert getattr(sr, name)(out, *case["args"]) is out
    return base


def run_draw(case: dict) -> np.ndarray:
    values = [np.linspace(low, high, case["size"]) for low, high, _ in case["params"]]
    values = [np.round(v) if p[2] else v for v, p in zip(values, case["params"])]
    return getattr(sr, case["op"])(*[v.astype(dtype_of(case["dtype"])) for v in values])


def run_other(case: dict) -> np.ndarray:
    dtype, op = dtype_of(case["dtype"]), case["op"]
    if op == "randperm":
        return sr.randperm(*case["args"], dtype)
    matrix = (np.arange(np.prod(case["shape"])).reshape(case["shape"]) % 7 * 0.7 + 0.05).astype(dtype)
    if op == "normal_by_mean":
        return sr.normal(matrix, case["args"][0])
    if op == "normal_by_std":
        return sr.normal(case["args"][0], matrix)
    return getattr(sr, op)(matrix, *case.get("args", ()))


def label(case: dict) -> str:
    what = case.get("size", case.get("shape", ""))
    return f"{case['op']}{case.get('args', case.get('params', ''))}-{case['dtype']}-{what}-{case.get('layout', '')}"


@pytest.mark.parametrize("number", range(len(CASES)), ids=[label(case) for case in CASES])
def test_draws_equal_pytorch(number: int) -> None:
    case = CASES[number]
    sr.manual_seed(case["seed"])
    out = run_fill(case) if "layout" in case else run_draw(case) if "params" in case else run_other(case)
    state = sr.get_rng_state().numpy()
    assert sha(state[:5016].tobytes()) == case["words"]
    if SAME_LIBM or case["op"] not in BY_LIBM:
        data = np.ascontiguousarray(out).tobytes()
        if f"case_{number}" in GOLDEN:
            np.testing.assert_array_equal(np.frombuffer(data, np.uint8), GOLDEN[f"case_{number}"])
        assert sha(data) == case["sha256"]
        assert sha(state.tobytes()) == case["state"]


@pytest.mark.parametrize("moment", ["fresh", "one_word", "spare_normal", "all_words", "next_round"])
def test_states_are_pytorchs(moment: str) -> None:
    saved, normals = GOLDEN[f"state_{moment}"], GOLDEN[f"after_{moment}"]
    generator = sr.Generator()
    generator.set_state(saved)
    np.testing.assert_array_equal(generator.get_state().numpy(), saved)
    for twin in (generator.clone_state(), pickle.loads(pickle.dumps(generator)), copy.deepcopy(generator)):
        np.testing.assert_allclose(sr.randn((8,), np.float64, generator=twin), normals, rtol=0 if SAME_LIBM else 1e-14)
    np.testing.assert_array_equal(generator.get_state().numpy(), saved)


def test_own_states_are_pytorchs() -> None:
    advance = {"fresh": 0, "one_word": 1, "all_words": 624, "next_round": 625}
    for moment, words in advance.items():
        generator = sr.Generator().manual_seed(-5)
        generator.words(words)
        np.testing.assert_array_equal(generator.get_state().numpy(), GOLDEN[f"state_{moment}"])


def test_seeds() -> None:
    generator = sr.Generator()
    assert generator.initial_seed() == 67280421310721
    assert generator.manual_seed(-1) is generator
    assert generator.initial_seed() == 2**64 - 1
    first = generator.words(3)
    np.testing.assert_array_equal(generator.manual_seed(2**32 - 1).words(3), first)  # the low 32 bits choose
    assert generator.manual_seed(np.int64(3)).initial_seed() == 3
    assert sr.manual_seed(1.5) is sr.default_generator and sr.initial_seed() == 1
    assert generator.seed() == generator.initial_seed() and sr.seed() == sr.initial_seed()
    for seed in (2**64, -(2**63) - 1):
        with pytest.raises(ValueRangeError, match="manual_seed: seed must lie in"):
            generator.manual_seed(seed)
    for wrong in (1.5, "a", True):
        with pytest.raises(RuntimeError, match="manual_seed: seed must be an int"):
            generator.manual_seed(wrong)  # type: ignore[arg-type]


def test_seeding_forgets_the_spare_normal() -> None:
    generator = sr.Generator().manual_seed(1)
    expected = sr.randn((3,), generator=generator)
    np.testing.assert_array_equal(sr.randn((3,), generator=generator.manual_seed(1)), expected)


def test_bad_states_are_refused() -> None:
    generator = sr.Generator()
    state = generator.get_state().numpy()
    with pytest.raises(LoadError, match="5056 bytes, got 5"):
        generator.set_state(np.zeros(5, np.uint8))
    with pytest.raises(LoadError, match="no MT19937 state"):
        generator.set_state(np.zeros(5056, np.uint8))
    with pytest.raises(DtypeError, match="array of uint8"):
        generator.set_state(np.zeros(5056))
    np.testing.assert_array_equal(generator.get_state().numpy(), state)
    with pytest.raises(MissingError, match="only device 'cpu'"):
        sr.Generator("cuda")


def test_fork_rng_gives_the_state_back() -> None:
    sr.manual_seed(0)
    state = sr.get_rng_state().numpy()
    with pytest.raises(KeyError), sr.fork_rng():  # noqa: PT012
        sr.randn((3,))
        raise KeyError
    np.testing.assert_array_equal(sr.get_rng_state().numpy(), state)
    with sr.fork_rng(enabled=False):
        sr.rand((1,))
    assert (sr.get_rng_state().numpy() != state).any()
    sr.set_rng_state(state)
    np.testing.assert_array_equal(sr.get_rng_state().numpy(), state)


def test_threads_share_a_generator_without_losing_words() -> None:
    expected = np.sort(sr.Generator().manual_seed(0).words(40_000))
    generator = sr.Generator().manual_seed(0)
    parts: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: parts.extend(generator.words(100) for _ in range(100))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), expected)


def test_doubles_leave_no_word_unused() -> None:
    one, other = sr.Generator().manual_seed(4), sr.Generator().manual_seed(4)
    with one.doubles() as draw:
        drawn = [draw() for _ in range(700)]
    np.testing.assert_array_equal(drawn, other.uniform53(700))
    np.testing.assert_array_equal(one.get_state().numpy(), other.get_state().numpy())
    fresh = sr.Generator().manual_seed(4)
    with fresh.doubles():
        pass
    np.testing.assert_array_equal(fresh.get_state().numpy(), sr.Generator().manual_seed(4).get_state().numpy())


def test_import_leaves_numpy_random_alone() -> None:
    code = "import sys, sapwood.random; sys.exit('numpy.random' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(Path(sr.__file__).parents[2])}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def test_memory_order_of_strided_arrays() -> None:
    sr.manual_seed(3)
    flat = sr.uniform_(np.empty((4, 5), np.float32))
    sr.manual_seed(3)
    turned = np.empty((4, 5), np.float32)
    sr.uniform_(turned.T)
    np.testing.assert_array_equal(turned, flat)


finite = st.floats(-1e10, 1e10, allow_subnormal=False)


@settings(max_examples=300, deadline=None)
@given(st.floats(-1e3, 1e3), finite, finite)
def test_fma64_rounds_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact != 0 and abs(exact) < Fraction(1, 10**200):
        return  # the error of the product falls below the normal numbers
    if a and abs(Fraction(a) * Fraction(b)) < Fraction(1, 10**200):
        return
    assert fma64(np.array([a]), b, c)[0] == float(exact)


@settings(max_examples=300, deadline=None)
@given(st.floats(-1, 1, width=32), st.floats(-100, 100, width=32), st.floats(-100, 100, width=32))
def test_fma32_rounds_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    got = Fraction(float(fma32(np.array([a], np.float32), b, c)[0]))
    up, down = (Fraction(float(np.nextafter(np.float32(got), np.float32(to)))) for to in (np.inf, -np.inf))
    assert abs(got - exact) <= min(abs(up - exact), abs(down - exact))


def test_fma32_decides_ties_by_the_exact_sum() -> None:
    # a·b = 2**-24 - 2**-70. The float64 sum drops the last term and leaves a tie, which goes up to the even neighbour.
    a, b, c = np.array([1 + 2.0**-23], np.float32), 2.0**-24 * (1 - 2.0**-23), 1 + 2.0**-23
    assert np.float32(float(a[0]) * b + c) == np.float32(1 + 2.0**-22)
    assert fma32(a, b, c)[0] == np.float32(c)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 1000, 1500])
def test_exchanges_without_a_loop(n: int) -> None:
    rng = np.random.default_rng(n)
    targets = np.arange(n - 1) + rng.integers(0, np.arange(n, 1, -1)) if n > 1 else np.empty(0, np.int64)
    order = list(range(n))
    for i, j in enumerate(targets.tolist()):
        order[i], order[j] = order[j], order[i]
    assert _exchange(targets, n).tolist() == order


ERRORS = [
    (lambda: sr.uniform_(np.empty(2), 1.0, 0.0), ValueRangeError, "uniform_: expected low <= high"),
    (lambda: sr.uniform_(np.empty(2, np.float16), 0.0, 1e6), ValueRangeError, "uniform_: bounds must fit float16"),
    (lambda: sr.uniform_(np.empty(2, np.int64)), DtypeError, "uniform_: expected a floating dtype, got int64"),
    (lambda: sr.normal_(np.empty(2), 0.0, -1.0), ValueRangeError, "normal_: std must be at least 0"),
    (lambda: sr.normal(np.zeros(2), -np.ones(2)), ValueRangeError, "normal: every element of std"),
    (lambda: sr.normal(np.zeros(2), np.ones(3)), ShapeError, "do not broadcast"),
    (lambda: sr.exponential_(np.empty(2), 0.0), ValueRangeError, "exponential_: rate must be positive"),
    (lambda: sr.geometric_(np.empty(2), 1.0), ValueRangeError, "geometric_: p must lie strictly"),
    (lambda: sr.bernoulli_(np.empty(2), 1.5), ValueRangeError, r"bernoulli_: p must lie in \[0, 1\]"),
    (lambda: sr.bernoulli(np.array([0.5, np.nan])), ValueRangeError, "every probability"),
    (lambda: sr.randint(3, 3, (2,)), ValueRangeError, "random_: expected low < high"),
    (lambda: sr.randint(0, 300, (2,), np.int8), ValueRangeError, "does not fit int8"),
    (lambda: sr.random_(np.empty(2, np.complex64)), DtypeError, "random_: expected an integer"),
    (lambda: sr.randperm(-1), ValueRangeError, "randperm: n must not be negative"),
    (lambda: sr.multinomial(np.ones(3), 4), ValueRangeError, "multinomial: num_samples"),
    (lambda: sr.multinomial(np.zeros(3), 1), ValueRangeError, "sums to 0"),
    (lambda: sr.multinomial(np.array([1.0, -1.0]), 1), ValueRangeError, "finite and not negative"),
    (lambda: sr.multinomial(np.ones((1, 1, 3)), 1), ShapeError, "1 or 2 dimensions"),
    (lambda: sr.poisson(np.array([-1.0])), ValueRangeError, "poisson: a rate must not be negative"),
    (lambda: sr.poisson(np.array([1])), DtypeError, "poisson: expected a floating dtype"),
    (lambda: sr.binomial(np.ones(2), np.ones(3)), ShapeError, "binomial: count"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number: int) -> None:
    call, error, text = ERRORS[number]
    with pytest.raises(error, match=text):
        call()


def test_a_failed_draw_leaves_the_generator_usable() -> None:
    with pytest.raises(ValueRangeError):
        sr.poisson(np.array([3.0, -1.0]))
    assert sr.rand((2,)).shape == (2,)


def test_narrow_dtypes_warn_about_gaps() -> None:
    with pytest.warns(UserWarning, match=r"float16 holds every integer only up to 2\*\*11"):
        sr.randint(0, 5000, (2,), np.float16)
