"""The workloads in the idiom of peers whose vocabulary is not PyTorch's: JAX, HIPS/autograd, tinygrad, MLX.

Each class has the workloads that the peer can do; arrays, sizes and steps are those of the other files. What a peer
defers is awaited, so that a step is finished when it returns.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from kernels import Step, array

LABELS, SMALL_LABELS = np.arange(512) % 1024, np.arange(64) % 10


def _weights(*sizes: int) -> list[Any]:
    """Return uniform weights (out, in) and zero biases for layers of these sizes."""
    rng = np.random.default_rng(0)
    found = []
    for a, b in itertools.pairwise(sizes):
        found += [rng.uniform(-1, 1, (b, a)).astype(np.float32) / np.float32(a) ** 0.5, np.zeros(b, np.float32)]
    return found


class Jax:
    """jax.jit of each step; whole training steps are one compiled function."""

    def __init__(self) -> None:
        import jax

        self.jax, self.np = jax, jax.numpy

    def _timed(self, function: Callable[..., Any], *args: Any) -> Step:
        compiled = self.jax.jit(function)
        given = [self.jax.device_put(a) for a in args]
        return lambda: self.jax.block_until_ready(compiled(*given))

    def plain_multiply(self) -> Step:
        return self._timed(lambda a, b: a * b, np.ones(1, np.float32), np.ones(1, np.float32))

    def seed_graph(self) -> Step:
        step = self.jax.grad(lambda w, x: ((w + x) * (w + 1)).sum(), argnums=(0, 1))
        return self._timed(step, np.ones(1, np.float32), np.ones(1, np.float32))

    def chain_of_100(self) -> Step:
        def chain(w: Any, x: Any) -> Any:
            y = w
            for _ in range(100):
                y = y * x
            return y.sum()

        return self._timed(self.jax.grad(chain, argnums=(0, 1)), np.ones(1, np.float32), np.ones(1, np.float32))

    def add_10M(self) -> Step:
        return self._timed(lambda a, b: a + b, array(10_000_000), array(10_000_000, seed=1))

    def gelu_4M(self) -> Step:
        return self._timed(lambda a: self.jax.nn.gelu(a, approximate=False), array(4_000_000))

    def chain_1M(self) -> Step:
        n = self.np
        return self._timed(lambda a: n.exp(self.jax.nn.sigmoid(n.tanh(a * 2 + 1))).sum(), array(1000, 1000))

    def _both_ways(self, function: Callable[[Any], Any]) -> Step:
        def step(a: Any, g: Any) -> Any:
            out, back = self.jax.vjp(function, a)
            return out, back(g if out.ndim else self.np.ones(()))

        return self._timed(step, array(512, 1024), array(512, 1024, seed=1))

    def softmax(self) -> Step:
        return self._both_ways(lambda a: self.jax.nn.softmax(a, -1))

    def layer_norm(self) -> Step:
        def step(a: Any, w: Any, b: Any, g: Any) -> Any:
            def function(a: Any, w: Any, b: Any) -> Any:
                d = a - a.mean(-1, keepdims=True)
                return d * self.jax.lax.rsqrt((d * d).mean(-1, keepdims=True) + 1e-5) * w + b

            out, back = self.jax.vjp(function, a, w, b)
            return out, back(g)

        ones = np.ones(1024, np.float32)
        return self._timed(step, array(512, 1024), ones, 0 * ones, array(512, 1024, seed=1))

    def _loss(self, logits: Any, labels: Any) -> Any:
        picked = self.np.take_along_axis(self.jax.nn.log_softmax(logits), labels[:, None], 1)
        return -picked.mean()

    def cross_entropy(self) -> Step:
        return self._both_ways(lambda a: self._loss(a, LABELS))

    def matmul_1024(self) -> Step:
        return self._timed(lambda a, b: a @ b, array(1024, 1024), array(1024, 1024, seed=1))

    def _adam(self, parameters: Any, grads: Any, state: Any) -> Any:
        tree, step = self.jax.tree_util.tree_map, state[2] + 1
        first = tree(lambda m, g: 0.9 * m + 0.1 * g, state[0], grads)
        second = tree(lambda v, g: 0.999 * v + 0.001 * g * g, state[1], grads)

        def moved(p: Any, m: Any, v: Any) -> Any:
            return p - 1e-3 * m / (1 - 0.9**step) / (self.np.sqrt(v / (1 - 0.999**step)) + 1e-8)

        return tree(moved, parameters, first, second), (first, second, step)

    def adam_100x10k(self) -> Step:
        parameters = [array(10_000, seed=i) for i in range(100)]
        return self._train(parameters, lambda p: [array(10_000, seed=100 + i) for i in range(100)], given=True)

    def _train(self, parameters: Any, function: Any, given: bool = False) -> Step:
        """Return a step that replaces parameters and state; `function` gives the loss, or the gradients if `given`."""
        grads = (lambda p: fixed) if given else self.jax.grad(function)
        fixed = [self.jax.device_put(g) for g in function(None)] if given else None

        @self.jax.jit
        def update(parameters: Any, state: Any) -> Any:
            return self._adam(parameters, grads(parameters), state)

        zeros = self.jax.tree_util.tree_map(lambda p: np.zeros_like(p), parameters)
        held = [self.jax.device_put(parameters), (zeros, zeros, 0.0)]

        def step() -> None:
            held[:] = self.jax.block_until_ready(update(*held))

        return step

    def _mlp(self, sizes: tuple[int, ...], x: Any, labels: Any) -> Step:
        def loss(p: Any) -> Any:
            h = x
            for i in range(0, len(p), 2):
                h = h @ p[i].T + p[i + 1]
                h = self.jax.nn.relu(h) if i + 2 < len(p) else h
            return self._loss(h, labels)

        return self._train(_weights(*sizes), loss)

    def mlp_small(self) -> Step:
        return self._mlp((64, 128, 10), array(64, 64), SMALL_LABELS)

    def mlp_784(self) -> Step:
        return self._mlp((784, 512, 512, 10), array(128, 784), np.arange(128) % 10)

    def cnn_28(self) -> Step:
        rng = np.random.default_rng(0)

        def filters(o: int, i: int) -> Any:
            return (rng.standard_normal((o, i, 3, 3)) / (9 * i) ** 0.5).astype(np.float32)

        parameters = [filters(32, 1), filters(64, 32), *_weights(9216, 128, 10)]
        x, labels, lax = array(32, 1, 28, 28), np.arange(32) % 10, self.jax.lax

        def loss(p: Any) -> Any:
            h = x
            for w in p[:2]:
                h = self.jax.nn.relu(lax.conv(h, w, (1, 1), "VALID"))
            h = lax.reduce_window(h, -self.np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID").reshape(32, -1)
            h = self.jax.nn.relu(h @ p[2].T + p[3])
            return self._loss(h @ p[4].T + p[5], labels)

        return self._train(parameters, loss)

    def lstm_40(self) -> Step:
        rng = np.random.default_rng(0)
        shapes = ((256, 32), (256, 64), (256,), (10, 64), (10,))
        parameters = [rng.uniform(-0.125, 0.125, s).astype(np.float32) for s in shapes]
        x, labels, nn = array(32, 40, 32), np.arange(32) % 10, self.jax.nn

        def loss(p: Any) -> Any:
            def cell(state: Any, x: Any) -> Any:
                h, c = state
                i, f, g, o = self.np.split(x @ p[0].T + h @ p[1].T + p[2], 4, 1)
                c = nn.sigmoid(f) * c + nn.sigmoid(i) * self.np.tanh(g)
                return (nn.sigmoid(o) * self.np.tanh(c), c), None

            zeros = self.np.zeros((32, 64))
            (h, _), _ = self.jax.lax.scan(cell, (zeros, zeros), x.transpose(1, 0, 2))
            return self._loss(h @ p[3].T + p[4], labels)

        return self._train(parameters, loss)


class Autograd:
    """HIPS/autograd: tapes over NumPy."""

    def __init__(self) -> None:
        import autograd
        import autograd.numpy

        self.grad, self.np = autograd.grad, autograd.numpy

    def seed_graph(self) -> Step:
        step = self.grad(lambda p: self.np.sum((p[0] + p[1]) * (p[0] + 1)))
        given = (np.ones(1, np.float32), np.ones(1, np.float32))
        return lambda: step(given)

    def chain_of_100(self) -> Step:
        def chain(p: Any) -> Any:
            y = p[0]
            for _ in range(100):
                y = y * p[1]
            return self.np.sum(y)

        step, given = self.grad(chain), (np.ones(1, np.float32), np.ones(1, np.float32))
        return lambda: step(given)

    def mlp_small(self) -> Step:
        from autograd.misc.flatten import flatten

        x, n = array(64, 64), self.np
        flat, back = flatten(_weights(64, 128, 10))
        rows = np.arange(64)

        def loss(flat: Any) -> Any:
            p = back(flat)
            z = n.maximum(x @ p[0].T + p[1], 0) @ p[2].T + p[3]
            z = z - n.max(z, 1, keepdims=True)
            return n.mean(n.log(n.sum(n.exp(z), 1)) - z[rows, SMALL_LABELS])

        gradient = self.grad(loss)
        held = [flat, np.zeros_like(flat), np.zeros_like(flat), 0]

        def step() -> None:
            p, m, v, count = held
            g = gradient(p)
            m, v, count = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g, count + 1
            p = p - 1e-3 * m / (1 - 0.9**count) / (np.sqrt(v / (1 - 0.999**count)) + 1e-8)
            held[:] = p, m, v, count

        return step


class Tinygrad:
    """tinygrad on its CPU device, each step a TinyJit."""

    def __init__(self) -> None:
        # Its CPU device compiles with clang, which must be there.
        os.environ.setdefault("DEV", "CPU")
        from tinygrad import Tensor, TinyJit
        from tinygrad.nn.optim import Adam

        self.Tensor, self.jit, self.Adam = Tensor, TinyJit, Adam

    def _timed(self, function: Callable[..., Any], *args: Any) -> Step:
        given = [self.Tensor(a).realize() for a in args]
        compiled = self.jit(lambda *x: function(*x).realize())

        def step() -> None:
            compiled(*given).data()

        return step

    def _awaited(self, function: Callable[..., Any], *args: Any) -> Step:
        from tinygrad import Device

        given = [self.Tensor(a).realize() for a in args]
        compiled = self.jit(lambda *x: function(*x).realize())

        def step() -> None:
            compiled(*given)
            Device[Device.DEFAULT].synchronize()

        return step

    def add_10M(self) -> Step:
        return self._awaited(lambda a, b: a + b, array(10_000_000), array(10_000_000, seed=1))

    def gelu_4M(self) -> Step:
        return self._awaited(lambda a: a * 0.5 * (1 + (a * 0.5**0.5).erf()), array(4_000_000))

    def chain_1M(self) -> Step:
        return self._timed(lambda a: (a * 2 + 1).tanh().sigmoid().exp().sum(), array(1000, 1000))

    def matmul_1024(self) -> Step:
        return self._awaited(lambda a, b: a @ b, array(1024, 1024), array(1024, 1024, seed=1))

    def mlp_small(self) -> Step:
        from tinygrad import Context, Device

        parameters = [self.Tensor(p).realize() for p in _weights(64, 128, 10)]
        optimizer = self.Adam(parameters, lr=1e-3)
        x, y = self.Tensor(array(64, 64)), self.Tensor(SMALL_LABELS)

        @self.jit
        def compiled() -> Any:
            with Context(TRAINING=1):
                return update()

        def update() -> Any:
            optimizer.zero_grad()
            h = (x @ parameters[0].T + parameters[1]).relu() @ parameters[2].T + parameters[3]
            loss = h.sparse_categorical_crossentropy(y).backward()
            return loss.realize(*optimizer.schedule_step())

        def step() -> None:
            compiled()
            Device[Device.DEFAULT].synchronize()

        return step


class Mlx:
    """MLX's CPU build."""

    def __init__(self) -> None:
        import mlx.core as mx
        import mlx.nn as nn

        mx.set_default_device(mx.cpu)
        self.mx, self.nn = mx, nn

    def _timed(self, function: Callable[..., Any], *args: Any) -> Step:
        given = [self.mx.array(a) for a in args]
        compiled = self.mx.compile(function)
        return lambda: self.mx.eval(compiled(*given))

    def add_10M(self) -> Step:
        return self._timed(lambda a, b: a + b, array(10_000_000), array(10_000_000, seed=1))

    def gelu_4M(self) -> Step:
        return self._timed(self.nn.gelu, array(4_000_000))

    def chain_1M(self) -> Step:
        m = self.mx
        return self._timed(lambda a: m.exp(m.sigmoid(m.tanh(a * 2 + 1))).sum(), array(1000, 1000))

    def matmul_1024(self) -> Step:
        return self._timed(lambda a, b: a @ b, array(1024, 1024), array(1024, 1024, seed=1))


PEERS: dict[str, Callable[[], Any]] = {"jax.jit": Jax, "autograd": Autograd, "tinygrad": Tinygrad, "mlx": Mlx}
