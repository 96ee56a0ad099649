"""Native draws: the same stream, bit for bit, as on NumPy alone."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.kernels import builtin
from sapwood.random import arrays, boxmuller, choice, draws, generator

pytestmark = pytest.mark.skipif(not builtin.available(), reason=builtin.why_not() or "")


def everything(n, seed):
    """Return the bytes of draws of every kind, one after the other from one stream, and the state they leave."""
    g = generator.Generator().manual_seed(seed)
    made = [
        arrays.rand((n,), generator=g),
        arrays.rand((n,), np.float64, generator=g),
        arrays.uniform_(np.empty(n, np.float32), -0.3, 0.7, generator=g),
        arrays.uniform_(np.empty(n), -0.3, 0.7, generator=g),
        arrays.randn((n,), generator=g),
        arrays.normal_(np.empty(n, np.float32), 0.5, 1.7, generator=g),
        arrays.normal_(np.empty(n, np.float16), 0.5, 1.7, generator=g),
        arrays.normal_(np.empty(n), 0.5, 1.7, generator=g),
        arrays.dropout_noise_(np.empty(n, np.float32), 0.1, generator=g),
        arrays.dropout_noise_(np.empty(n), 1.0, generator=g),
        arrays.randperm(n, generator=g),
    ]
    for dtype in (np.float32, np.float64, np.bool_, np.uint8, np.int64, np.float16):
        made.append(arrays.bernoulli_(np.empty(n, dtype), 0.3, generator=g))
    made.append(arrays.uniform_(np.empty((n, 2), np.float32).T, generator=g))
    return [x.tobytes() for x in (*made, g.state_bytes())]


@pytest.mark.parametrize("seed", [0, 123456789])
@pytest.mark.parametrize("n", [255, 256, 300, 623, 624, 625, 2048, 2049, 10007])
def test_the_stream_is_that_of_numpy_alone(n, seed, monkeypatch):
    fast = everything(n, seed)
    for module in (generator, draws, boxmuller, choice):
        monkeypatch.setattr(module, "native", lambda count: None)
    assert fast == everything(n, seed)


def test_a_bound_that_rounding_reaches_gives_way():
    low, high = np.float32(1.0), np.nextafter(np.float32(1.0), np.float32(2.0))
    x = arrays.uniform_(np.empty(1000, np.float32), float(low), float(high))
    assert np.all(x == low)
