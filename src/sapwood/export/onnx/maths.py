"""Elementwise functions and activations in ONNX, some of them compositions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sapwood import dtypes
from sapwood.export.onnx.exporter import TYPES, Exporter, builds
from sapwood.export.onnx.kinds import result_type, wide
from sapwood.export.onnx.sizes import Size
from sapwood.graph.ir import Call


@builds("add_number", "mul_number", "div_number", "number_minus", "clamp_min_number")
def _number(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a, n = x.operand(call.inputs[0], t), x.number(_followed(x, call, "number"), t)
    kind = {
        "add_number": "Add",
        "mul_number": "Mul",
        "div_number": "Div",
        "number_minus": "Sub",
        "clamp_min_number": "Max",
    }
    pair = (n, a) if call.op.name == "number_minus" else (a, n)
    return str(x.op(kind[call.op.name], *pair))


def _followed(x: Exporter, call: Call, name: str) -> Any:
    """Return an attribute that may be a dynamic size."""
    return call.attrs[name] if isinstance(call.attrs[name], Size) else x.attr(call, name)


@builds("expm1", "log1p", "exp2", "log2", "log10", "rsqrt", "square", "erfc", "deg2rad", "rad2deg", "sinc")
def _composed(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a = x.operand(call.inputs[0], t)

    def n(v: float) -> Any:
        return np.asarray(v, t.numpy)

    def erfc(a: str) -> str:
        return str(x.op("Sub", n(1), wide(x, a, t, lambda m: x.op("Erf", m))))

    forms: dict[str, Any] = {
        "exp2": lambda: x.op("Exp", x.op("Mul", a, n(math.log(2)))),
        "log2": lambda: x.op("Mul", x.op("Log", a), n(1 / math.log(2))),
        "log10": lambda: x.op("Mul", x.op("Log", a), n(1 / math.log(10))),
        "rsqrt": lambda: x.op("Reciprocal", x.op("Sqrt", a)),
        "square": lambda: x.op("Mul", a, a),
        "deg2rad": lambda: x.op("Mul", a, n(math.pi / 180)),
        "rad2deg": lambda: x.op("Mul", a, n(180 / math.pi)),
        "erfc": lambda: erfc(a),
        "log1p": lambda: _log1p(x, a, t),
        "expm1": lambda: _expm1(x, a, t),
        "sinc": lambda: _sinc(x, a, t),
    }
    return str(forms[call.op.name]())


def _log1p(x: Exporter, a: str, t: Any) -> str:
    # log(u)·a/(u - 1), u = 1 + a rounded, is right to the last digits (Kahan).
    one = np.asarray(1, t.numpy)
    u = x.op("Add", a, one)
    exact = x.op("Equal", u, one)
    lower = x.op("Where", exact, one, x.op("Sub", u, one))
    infinite = x.op("IsInf", u)
    quotient = x.op("Where", infinite, one, x.op("Div", a, lower))
    return str(x.op("Where", exact, a, x.op("Mul", x.op("Log", u), quotient)))


def _expm1(x: Exporter, a: str, t: Any) -> str:
    # tanh(a/2)·(e^a + 1), which does not cancel near zero.
    one, half = np.asarray(1, t.numpy), np.asarray(0.5, t.numpy)
    near = x.op("Mul", x.op("Tanh", x.op("Mul", a, half)), x.op("Add", x.op("Exp", a), one))
    small = x.op("Less", x.op("Abs", a), one)
    return str(x.op("Where", small, near, x.op("Sub", x.op("Exp", a), one)))


def _sinc(x: Exporter, a: str, t: Any) -> str:
    zero, one = np.asarray(0, t.numpy), np.asarray(1, t.numpy)
    angle = x.op("Mul", a, np.asarray(math.pi, t.numpy))
    none = x.op("Equal", a, zero)
    safe = x.op("Where", none, one, angle)
    return str(x.op("Where", none, one, x.op("Div", wide(x, angle, t, lambda m: x.op("Sin", m)), safe)))


@builds("atan2")
def _atan2(x: Exporter, call: Call) -> str:
    t = result_type(call)
    y, a = x.operands(call, t)
    zero, pi = np.asarray(0, t.numpy), math.pi
    ratio = wide(x, x.op("Div", y, a), t, lambda m: x.op("Atan", m))
    turn = x.op("Where", x.op("Less", y, zero), np.asarray(-pi, t.numpy), np.asarray(pi, t.numpy))
    beside = x.op("Where", x.op("Less", a, zero), x.op("Add", ratio, turn), ratio)
    upright = x.op("Mul", x.op("Sign", y), np.asarray(pi / 2, t.numpy))
    return str(x.op("Where", x.op("Equal", a, zero), upright, beside))


@builds("hypot")
def _hypot(x: Exporter, call: Call) -> str:
    a, b = x.operands(call, result_type(call))
    return str(x.op("Sqrt", x.op("Add", x.op("Mul", a, a), x.op("Mul", b, b))))


@builds("logaddexp", "logaddexp2")
def _logaddexp(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a, b = x.operands(call, t)
    scale = np.asarray(math.log(2) if call.op.name.endswith("2") else 1, t.numpy)
    most = x.op("Max", a, b)
    apart = x.op("Neg", x.op("Mul", x.op("Abs", x.op("Sub", a, b)), scale))
    return str(x.op("Add", most, x.op("Div", _log1p(x, x.op("Exp", apart), t), scale)))


@builds("round")
def _round(x: Exporter, call: Call) -> str:
    decimals = x.attr(call, "decimals")
    a = x.operand(call.inputs[0])
    if not decimals:
        return str(x.op("Round", a)) if result_type(call).is_floating_point else a
    scale = np.asarray(10.0**decimals, result_type(call).numpy)
    return str(x.op("Div", x.op("Round", x.op("Mul", a, scale)), scale))


@builds("nan_to_num")
def _nan_to_num(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a = x.operand(call.inputs[0])
    if not t.is_floating_point:
        return a
    limit = float(np.finfo(t.numpy).max)
    values = [x.attr(call, n) for n in ("nan", "posinf", "neginf")]
    nan, high, low = (np.asarray(d if v is None else v, t.numpy) for v, d in zip(values, (0.0, limit, -limit)))
    a = x.op("Where", x.op("IsNaN", a), nan, a)
    a = x.op("Where", x.op("IsInf", a, detect_negative=0), high, a)
    return str(x.op("Where", x.op("IsInf", a, detect_positive=0), low, a))


@builds("xlogy", "special_xlog1py")
def _xlogy(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a, b = x.operands(call, t)
    zero = np.asarray(0, t.numpy)
    log = _log1p(x, b, t) if call.op.name.endswith("1py") else x.op("Log", b)
    none = x.op("And", x.op("Equal", a, zero), x.op("Not", x.op("IsNaN", b)))
    return str(x.op("Where", none, zero, x.op("Mul", a, log)))


@builds("to_copy")
def _to_copy(x: Exporter, call: Call) -> str:
    return str(x.op("Cast", x.operand(call.inputs[0]), to=TYPES[result_type(call).name]))


@builds("gelu")
def _gelu(x: Exporter, call: Call) -> str:
    t = result_type(call)
    how = x.attr(call, "approximate")
    return wide(x, x.operand(call.inputs[0]), t, lambda n: x.op("Gelu", n, approximate=how))


def _activation(kind: str, **names: str) -> Any:
    def build(x: Exporter, call: Call) -> str:
        t = result_type(call)
        given: dict[str, Any] = {ours: float(x.attr(call, theirs)) for ours, theirs in names.items()}
        return wide(x, x.operand(call.inputs[0]), t, lambda n: x.op(kind, n, **given))

    return build


builds("leaky_relu", "leaky_relu_over")(_activation("LeakyRelu", alpha="negative_slope"))
builds("hardswish")(_activation("HardSwish"))


@builds("softmax_of", "log_softmax_of")
def _softmax(x: Exporter, call: Call) -> str:
    kind = "Softmax" if call.op.name == "softmax_of" else "LogSoftmax"
    a = x.operand(call.inputs[0])
    if not call.inputs[0].shape:
        return str(x.op("Squeeze", x.op(kind, x.op("Unsqueeze", a, x.ints(0)), axis=0), x.ints(0)))
    return str(x.op(kind, a, axis=x.attr(call, "dim")))


@builds("glu")
def _glu(x: Exporter, call: Call) -> str:
    dim = x.attr(call, "dim")
    a, b = x.op("Split", x.operand(call.inputs[0]), outputs=2, axis=dim, num_outputs=2)
    return str(x.op("Mul", a, x.op("Sigmoid", b)))


@builds("fmax", "fmin")
def _fmax(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a, b = x.operands(call, t)
    kind = "Max" if call.op.name == "fmax" else "Min"
    if not t.is_floating_point:
        return str(x.op(kind, a, b))
    both = x.op("Where", x.op("IsNaN", b), a, x.op(kind, a, b))
    return str(x.op("Where", x.op("IsNaN", a), b, both))


@builds("signbit")
def _signbit(x: Exporter, call: Call) -> str:
    a, v = x.operand(call.inputs[0]), call.inputs[0]
    zero = np.asarray(0, v.dtype.numpy)
    if not v.dtype.is_floating_point:
        return str(x.op("Less", a, zero))
    # The reciprocal of -0 is -infinity.
    return str(x.op("Or", x.op("Less", a, zero), x.op("Less", x.op("Reciprocal", a), zero)))


@builds("copysign")
def _copysign(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a, b = x.operands(call, t)
    zero = np.asarray(0, t.numpy)
    negative = x.op("Or", x.op("Less", b, zero), x.op("Less", x.op("Reciprocal", b), zero))
    size = x.op("Abs", a)
    return str(x.op("Where", negative, x.op("Neg", size), size))


@builds("heaviside")
def _heaviside(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a, b = x.operands(call, t)
    zero, one = np.asarray(0, t.numpy), np.asarray(1, t.numpy)
    step = x.op("Where", x.op("Greater", a, zero), one, zero)
    result = x.op("Where", x.op("Equal", a, zero), b, step)
    return str(x.op("Where", x.op("IsNaN", a), a, result)) if t.is_floating_point else str(result)


@builds("isclose")
def _isclose(x: Exporter, call: Call) -> str:
    t = call.inputs[0].dtype
    a, b = x.operands(call, t)
    rtol, atol = (np.asarray(x.attr(call, n), t.numpy) for n in ("rtol", "atol"))
    near = x.op("LessOrEqual", x.op("Abs", x.op("Sub", a, b)), x.op("Add", x.op("Mul", x.op("Abs", b), rtol), atol))
    same = x.op("Equal", a, b)
    if not t.is_floating_point:
        return str(x.op("Or", same, near))
    finite = x.op("Not", x.op("IsInf", b))
    close = x.op("Or", same, x.op("And", finite, near))
    if not x.attr(call, "equal_nan"):
        return str(close)
    return str(x.op("Or", close, x.op("And", x.op("IsNaN", a), x.op("IsNaN", b))))


@builds("isreal")
def _isreal(x: Exporter, call: Call) -> str:
    return str(x.op("Expand", np.asarray(True), x.op("Shape", x.operand(call.inputs[0]))))


@builds("angle")
def _angle(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a = x.operand(call.inputs[0], t)
    turned = x.op(
        "Where", x.op("Less", a, np.asarray(0, t.numpy)), np.asarray(math.pi, t.numpy), np.asarray(0, t.numpy)
    )
    return str(x.op("Where", x.op("IsNaN", a), a, turned))


@builds("logit")
def _logit(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a, eps = x.operand(call.inputs[0], t), x.attr(call, "eps")
    if eps is not None:
        a = x.op("Min", x.op("Max", a, np.asarray(eps, t.numpy)), np.asarray(1 - eps, t.numpy))
    return str(x.op("Log", x.op("Div", a, x.op("Sub", np.asarray(1, t.numpy), a))))


@builds("ldexp")
def _ldexp(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a, b = x.operands(call, t)
    return str(x.op("Mul", a, x.op("Pow", np.asarray(2, t.numpy), b)))


@builds("special_entr")
def _entr(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a = x.operand(call.inputs[0], t)
    zero = np.asarray(0, t.numpy)
    inside = x.op("Neg", x.op("Mul", a, x.op("Log", a)))
    low = x.op("Where", x.op("Less", a, zero), np.asarray(-np.inf, t.numpy), inside)
    return str(x.op("Where", x.op("Equal", a, zero), zero, low))


@builds("special_ndtr")
def _ndtr(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a = x.cast(x.operand(call.inputs[0], t), t, dtypes.float32)
    r = x.op(
        "Mul", x.op("Add", x.op("Erf", x.op("Mul", a, np.float32(math.sqrt(0.5)))), np.float32(1)), np.float32(0.5)
    )
    return x.cast(r, dtypes.float32, t)
