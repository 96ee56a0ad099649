"""The graphs that the explorer is tested on, each with the options to show it with."""

from __future__ import annotations

from typing import Any

import sapwood
from sapwood import nn

__all__ = ["PROGRAMS"]


def seed() -> tuple[Any, dict[str, Any]]:
    w = sapwood.tensor([1.0], requires_grad=True)
    x = sapwood.tensor([2.0], requires_grad=True)
    a = w + x
    b = w + 1
    y = a * b
    return y, {"names": {"w": w, "x": x, "a": a, "b": b, "y": y}}


def sine() -> tuple[Any, dict[str, Any]]:
    a, b = (sapwood.tensor(v, requires_grad=True) for v in (1.5, 0.5))
    x = sapwood.tensor(2.0, requires_grad=True)
    y = sapwood.sin(a * x + b) * x
    return y, {"names": {"a": a, "b": b, "x": x, "y": y}}


def mlp() -> tuple[Any, dict[str, Any]]:
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    x = sapwood.randn(16, 8)
    return lambda: model(x).square().mean(), {"module": model}


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, x: Any) -> Any:
        inner = sapwood.relu(self.bn1(self.conv1(x)))
        return sapwood.relu(self.bn2(self.conv2(inner)) + x)


def resnet() -> tuple[Any, dict[str, Any]]:
    model = Residual()
    x = sapwood.randn(2, 4, 6, 6)
    return lambda: model(x).mean(), {"module": model}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.attn = nn.MultiheadAttention(16, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))

    def forward(self, x: Any) -> Any:
        h = self.ln1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


def gpt() -> tuple[Any, dict[str, Any]]:
    model = Block()
    x = sapwood.randn(2, 5, 16)
    return lambda: model(x).square().mean(), {"module": model}


def rnn() -> tuple[Any, dict[str, Any]]:
    w = sapwood.tensor(0.9, requires_grad=True)
    u = sapwood.tensor(0.1, requires_grad=True)
    h = sapwood.zeros(())
    for i in range(1250):
        h = sapwood.tanh(h * w + u * (i % 3))
    return h, {"names": {"w": w, "u": u}}


PROGRAMS = {"seed": seed, "sine": sine, "mlp": mlp, "resnet": resnet, "gpt": gpt, "rnn": rnn}
