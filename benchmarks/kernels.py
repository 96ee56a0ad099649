"""Workloads on large arrays, in PyTorch's vocabulary: elementwise, normalisation, losses, products, an optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Step = Callable[[], object]


def array(*shape: int, seed: int = 0) -> Any:
    """Return standard normal numbers, float32, the same for every peer."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def add_10M(t: Any) -> Step:
    a, b = t.tensor(array(10_000_000)), t.tensor(array(10_000_000, seed=1))
    return lambda: a + b


def gelu_4M(t: Any) -> Step:
    a = t.tensor(array(4_000_000))
    return lambda: t.nn.functional.gelu(a)


def chain_1M(t: Any) -> Step:
    a = t.tensor(array(1000, 1000))
    return lambda: t.tanh(a * 2 + 1).sigmoid().exp().sum()


def _both_ways(t: Any, function: Callable[[Any], Any]) -> Step:
    a = t.tensor(array(512, 1024)).requires_grad_()
    g = t.tensor(array(512, 1024, seed=1))

    def step() -> None:
        out = function(a)
        out.backward(g if out.ndim else None)
        a.grad = None

    return step


def softmax(t: Any) -> Step:
    return _both_ways(t, lambda a: t.softmax(a, -1))


def layer_norm(t: Any) -> Step:
    return _both_ways(t, t.nn.LayerNorm(1024))


def cross_entropy(t: Any) -> Step:
    target = t.tensor(np.arange(512) % 1024)
    return _both_ways(t, lambda a: t.nn.functional.cross_entropy(a, target))


def matmul_1024(t: Any) -> Step:
    a, b = t.tensor(array(1024, 1024)), t.tensor(array(1024, 1024, seed=1))
    return lambda: a @ b


def adam_100x10k(t: Any) -> Step:
    parameters = [t.tensor(array(10_000, seed=i)).requires_grad_() for i in range(100)]
    for i, p in enumerate(parameters):
        p.grad = t.tensor(array(10_000, seed=100 + i))
    return t.optim.Adam(parameters, lr=1e-3).step  # type: ignore[no-any-return]


WORKLOADS = (add_10M, gelu_4M, chain_1M, softmax, layer_norm, cross_entropy, matmul_1024, adam_100x10k)
