"""Whole training steps (clear gradients, forward, backward, update), in PyTorch's vocabulary."""

from __future__ import annotations

from typing import Any

import numpy as np
from kernels import Step, array
from workloads import mlp_step


def training_step(t: Any, model: Any, x: Any, y: Any, optimizer: Any = None) -> Step:
    """Return a step with cross entropy between (N, classes) logits and the classes y."""
    optimizer = optimizer or t.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        t.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def mlp_small(t: Any) -> Step:
    return mlp_step(t)


def mlp_784(t: Any) -> Step:
    nn = t.nn
    model = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )  # fmt: skip
    return training_step(t, model, t.tensor(array(128, 784)), t.tensor(np.arange(128) % 10))


def cnn_28(t: Any) -> Step:
    nn = t.nn
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip
    return training_step(t, model, t.tensor(array(32, 1, 28, 28)), t.tensor(np.arange(32) % 10))


def resnet_32(t: Any) -> Step:
    nn = t.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
            self.norm, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

        def forward(self, x: Any) -> Any:
            inner = self.norm(self.first(x)).relu()
            return (self.norm2(self.second(inner)) + x).relu()

    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), Block(32), Block(32), nn.MaxPool2d(2), Block(32), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    return training_step(t, model, t.tensor(array(32, 3, 32, 32)), t.tensor(np.arange(32) % 10))


def lstm_40(t: Any) -> Step:
    nn = t.nn

    class Last(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.recurrent, self.head = nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.recurrent(x)[0][:, -1])

    return training_step(t, Last(), t.tensor(array(32, 40, 32)), t.tensor(np.arange(32) % 10))


def gpt_4x128(t: Any, width: int = 128, heads: int = 4, length: int = 64, vocabulary: int = 65) -> Step:
    nn, functional = t.nn, t.nn.functional

    class Layer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            n, steps, _ = x.shape
            parts = self.mix(self.before(x)).split(width, dim=2)
            q, k, v = (p.view(n, steps, heads, width // heads).transpose(1, 2) for p in parts)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).contiguous().view(n, steps, width))
            return x + self.wide(self.between(x))

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.layers = nn.Sequential(*[Layer() for _ in range(4)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, x: Any) -> Any:
            x = self.tokens(x) + self.places(t.arange(x.shape[1]))
            return self.head(self.norm(self.layers(x))).view(-1, vocabulary)

    tokens = t.tensor(np.random.default_rng(0).integers(0, vocabulary, (12, length)))
    model = Model()
    return training_step(t, model, tokens, tokens.reshape(-1), t.optim.AdamW(model.parameters(), lr=1e-3))


WORKLOADS = (mlp_small, mlp_784, cnn_28, resnet_32, lstm_40, gpt_4x128)
