"""Random numbers: a model draws its own, of the same distribution, anew in every run."""

from __future__ import annotations

from typing import Any

import numpy as np

from sapwood import dtypes
from sapwood.export.onnx.exporter import TYPES, Exporter, builds
from sapwood.export.onnx.kinds import F32, result_type
from sapwood.graph.ir import Call

DRAWN = (
    "rand", "randn", "normal", "uniform", "normal_fill", "normal_of", "bernoulli", "bernoulli_fill", "bernoulli_each",
    "bernoulli_as", "exponential", "dropout_noise",
)  # fmt: skip
"""Draws that are written; of the others, ONNX has no distribution."""


@builds(*DRAWN)
def _draw(x: Exporter, call: Call) -> str:
    t, a, name = result_type(call), call.attrs, call.op.name
    shape = x.op("Expand", np.float32(0), x.ints(*call.results[0].shape))

    def uniform() -> Any:
        return x.op("RandomUniformLike", shape, dtype=1, low=0.0, high=1.0)

    def scaled(made: Any, factor: Any, shift: Any) -> Any:
        parts = [v if isinstance(v, str) else np.float32(v) for v in (factor, shift)]
        return x.op("Add", x.op("Mul", made, parts[0]), parts[1])

    normal = name in ("randn", "normal", "normal_fill", "normal_of")
    if normal:
        made = x.op("RandomNormalLike", shape, dtype=1, mean=0.0, scale=1.0)
        if name == "normal_of":
            mean, std = (x.operand(v, F32) for v in call.inputs)
            made = scaled(made, std, mean)
        elif name != "randn":
            made = scaled(made, x.attr(call, "std"), x.attr(call, "mean"))
    elif name.startswith("bernoulli"):
        given = x.attr(call, "p") if "p" in a else x.operand(call.inputs[-1], F32)
        p = given if isinstance(given, str) else np.float32(given)
        made = x.cast(x.op("Less", uniform(), p), dtypes.bool_, F32)
    elif name == "dropout_noise":
        p = x.attr(call, "p")
        kept = x.cast(x.op("GreaterOrEqual", uniform(), np.float32(p)), dtypes.bool_, F32)
        made = x.op("Mul", kept, np.float32(0 if p == 1 else 1 / (1 - p)))
    elif name == "exponential":
        # 1 minus the draw is never 0.
        log = x.op("Log", x.op("Sub", np.float32(1), uniform()))
        made = x.op("Div", log, np.float32(-x.attr(call, "lambd")))
    else:
        low, high = (x.attr(call, "low"), x.attr(call, "high")) if name == "uniform" else (0, 1)
        made = scaled(uniform(), high - low, low)
    return str(made) if t is F32 else str(x.op("Cast", made, to=TYPES[t.name]))
