"""Elementwise arithmetic and comparisons in ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from sapwood import dtypes
from sapwood.export.onnx.exporter import TYPES, Exporter, builds
from sapwood.export.onnx.kinds import F32, common, result_type, wide
from sapwood.graph.ir import Call

UNARY = {
    "abs": "Abs", "neg": "Neg", "ceil": "Ceil", "floor": "Floor", "exp": "Exp", "log": "Log", "sqrt": "Sqrt",
    "reciprocal": "Reciprocal", "sign": "Sign", "sgn": "Sign", "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh",
    "bitwise_not": "BitwiseNot", "clone": "Identity", "alias": "Identity", "conj": "Identity", "tied": "Identity",
    "detach": "Identity", "conj_physical": "Identity", "real": "Identity", "channel_shuffle_": "Identity",
}  # fmt: skip
NARROW = {
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh",
    "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf", "mish": "Mish",
}  # fmt: skip


def _unary(kind: str) -> Any:
    def build(x: Exporter, call: Call) -> str:
        return str(x.op(kind, x.operand(call.inputs[0], result_type(call))))

    return build


def _narrow(kind: str) -> Any:
    def build(x: Exporter, call: Call) -> str:
        t = result_type(call)
        return wide(x, x.operand(call.inputs[0], t), t, lambda n: x.op(kind, n))

    return build


for _name, _kind in UNARY.items():
    builds(_name)(_unary(_kind))
for _name, _kind in NARROW.items():
    builds(_name)(_narrow(_kind))

BINARY = {"mul": "Mul", "maximum": "Max", "minimum": "Min"}
BITS = {"bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor"}
COMPARE = {"eq": "Equal", "gt": "Greater", "ge": "GreaterOrEqual", "lt": "Less", "le": "LessOrEqual"}
LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}


@builds(*BINARY)
def _binary(x: Exporter, call: Call) -> str:
    t = result_type(call)
    if t is dtypes.bool_:
        return str(x.op({"mul": "And", "maximum": "Or", "minimum": "And"}[call.op.name], *x.operands(call, t)))
    return str(x.op(BINARY[call.op.name], *x.operands(call, t)))


@builds("add", "sub", "rsub")
def _added(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a, b = x.operands(call, t)
    alpha = x.attr(call, "alpha")
    if call.op.name == "rsub":
        a, b = b, a
    if alpha != 1:
        b = x.op("Mul", b, np.asarray(alpha, t.numpy))
    if t is dtypes.bool_:
        return str(x.op("Or", a, b))
    return str(x.op("Add" if call.op.name == "add" else "Sub", a, b))


@builds("div")
def _div(x: Exporter, call: Call) -> str:
    return str(x.op("Div", *x.operands(call, result_type(call))))


@builds("div_rounded", "floor_divide")
def _div_rounded(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a, b = x.operands(call, t)
    how = "floor" if call.op.name == "floor_divide" else x.attr(call, "rounding_mode")
    if t.is_floating_point:
        q = x.op("Div", a, b)
        return str(x.op("Floor", q)) if how == "floor" else _truncated(x, q)
    q = x.op("Div", a, b)
    if how != "floor":
        return str(q)
    # ONNX rounds integers towards zero.
    rest = x.op("Sub", a, x.op("Mul", q, b))
    zero = np.asarray(0, t.numpy)
    wrong = x.op(
        "And", x.op("Not", x.op("Equal", rest, zero)), x.op("Xor", x.op("Less", rest, zero), x.op("Less", b, zero))
    )
    return str(x.op("Sub", q, x.op("Cast", wrong, to=TYPES[t.name])))


def _truncated(x: Exporter, name: str) -> str:
    return str(x.op("Mul", x.op("Sign", name), x.op("Floor", x.op("Abs", name))))


@builds("trunc")
def _trunc(x: Exporter, call: Call) -> str:
    return _truncated(x, x.operand(call.inputs[0]))


@builds("frac")
def _frac(x: Exporter, call: Call) -> str:
    a = x.operand(call.inputs[0])
    return str(x.op("Sub", a, _truncated(x, a)))


@builds("remainder")
def _remainder(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a, b = x.operands(call, t)
    if not t.is_floating_point:
        return str(x.op("Mod", a, b))
    return str(x.op("Sub", a, x.op("Mul", x.op("Floor", x.op("Div", a, b)), b)))


@builds("fmod")
def _fmod(x: Exporter, call: Call) -> str:
    return str(x.op("Mod", *x.operands(call, result_type(call)), fmod=1))


@builds("pow")
def _pow(x: Exporter, call: Call) -> str:
    return str(x.op("Pow", *x.operands(call, result_type(call))))


@builds(*BITS)
def _bits(x: Exporter, call: Call) -> str:
    t = result_type(call)
    kind = BITS[call.op.name]
    return str(x.op(kind if t is dtypes.bool_ else f"Bitwise{kind}", *x.operands(call, t)))


@builds("bitwise_left_shift", "bitwise_right_shift")
def _shift(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a, b = x.operands(call, t)
    two = np.asarray(2, t.numpy)
    if call.op.name == "bitwise_left_shift":
        return str(x.op("Mul", a, x.op("Pow", two, b)))
    divisor = x.op("Cast", x.op("Pow", x.constant(np.float64(2)), x.cast(b, t, dtypes.float64)), to=TYPES["float64"])
    return x.cast(x.op("Floor", x.op("Div", x.cast(a, t, dtypes.float64), divisor)), dtypes.float64, t)


@builds(*COMPARE, "ne")
def _compare(x: Exporter, call: Call) -> str:
    t = common(call)
    kind = COMPARE.get(call.op.name, "Equal")
    if t is dtypes.bool_ and kind != "Equal":
        t = dtypes.int32
    r = x.op(kind, *x.operands(call, t))
    return str(x.op("Not", r)) if call.op.name == "ne" else str(r)


@builds(*LOGIC)
def _logic(x: Exporter, call: Call) -> str:
    return str(x.op(LOGIC[call.op.name], *x.operands(call, dtypes.bool_)))


@builds("logical_not")
def _not(x: Exporter, call: Call) -> str:
    return str(x.op("Not", x.operand(call.inputs[0], dtypes.bool_)))


@builds("isnan")
def _isnan(x: Exporter, call: Call) -> str:
    return str(x.op("IsNaN", x.operand(call.inputs[0], _floating(call.inputs[0]))))


def _floating(value: Any) -> Any:
    return value.dtype if value.dtype.is_floating_point else F32


@builds("isinf", "isposinf", "isneginf")
def _isinf(x: Exporter, call: Call) -> str:
    signs = {"isposinf": {"detect_negative": 0}, "isneginf": {"detect_positive": 0}}.get(call.op.name, {})
    return str(x.op("IsInf", x.operand(call.inputs[0], _floating(call.inputs[0])), **signs))


@builds("isfinite")
def _isfinite(x: Exporter, call: Call) -> str:
    a = x.operand(call.inputs[0], _floating(call.inputs[0]))
    return str(x.op("Not", x.op("Or", x.op("IsNaN", a), x.op("IsInf", a))))


@builds("where")
def _where(x: Exporter, call: Call) -> str:
    t = result_type(call)
    c, a, b = call.inputs
    return str(x.op("Where", x.operand(c, dtypes.bool_), x.operand(a, t), x.operand(b, t)))


@builds("clamp", "clamp_min", "clamp_max")
def _clamp(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a = x.operand(call.inputs[0], t)
    low, high = {"clamp_min": (1, None), "clamp_max": (None, 1), "clamp": (1, 2)}[call.op.name]
    for i, kind in ((low, "Max"), (high, "Min")):
        if i is not None and call.inputs[i] is not None:
            a = x.op(kind, a, x.operand(call.inputs[i], t))
    return str(a)
