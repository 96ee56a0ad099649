"""Reductions, sorting and norms in ONNX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sapwood import dtypes
from sapwood.export.onnx.exporter import Exporter, builds
from sapwood.export.onnx.kinds import dims_of, fixed, result_type
from sapwood.export.onnx.sizes import varies
from sapwood.graph.ir import Call

REDUCE = {"sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "prod": "ReduceProd",
          "logsumexp": "ReduceLogSumExp"}  # fmt: skip


@builds(*REDUCE)
def _reduce(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a = x.operand(call.inputs[0], t)
    dim, keep = x.attr(call, "dim"), x.attr(call, "keepdim")
    if not call.inputs[0].shape:
        return str(x.op("Identity", a))
    dims = None if dim is None or dim == () else x.ints(*((dim,) if isinstance(dim, int) else dim))
    return str(x.op(REDUCE[call.op.name], a, dims, keepdims=int(bool(keep))))


@builds("max_all", "min_all")
def _extreme_all(x: Exporter, call: Call) -> str:
    return str(x.op("ReduceMax" if call.op.name == "max_all" else "ReduceMin", x.operand(call.inputs[0]), keepdims=0))


@builds("all", "any")
def _all(x: Exporter, call: Call) -> str:
    # Counting works for no elements, too: all are true where none is not.
    a = x.operand(call.inputs[0], dtypes.bool_)
    every = call.op.name == "all"
    a = x.cast(x.op("Not", a) if every else a, dtypes.bool_, dtypes.int64)
    dim, keep = x.attr(call, "dim"), x.attr(call, "keepdim")
    if call.inputs[0].shape:
        dims = None if dim is None or dim == () else x.ints(*((dim,) if isinstance(dim, int) else dim))
        a = x.op("ReduceSum", a, dims, keepdims=int(bool(keep)))
    found = x.op("Greater", a, np.int64(0))
    return x.cast(x.op("Not", found) if every else found, dtypes.bool_, result_type(call))


@builds("argmax", "argmin")
def _argmax(x: Exporter, call: Call) -> str:
    dim, keep = x.attr(call, "dim"), x.attr(call, "keepdim")
    a = x.operand(call.inputs[0])
    kind = "ArgMax" if call.op.name == "argmax" else "ArgMin"
    if dim is None or not call.inputs[0].shape:
        flat = x.op(kind, x.op("Reshape", a, x.ints(-1)), axis=0, keepdims=0)
        return fixed(x, call, flat)
    return str(x.op(kind, a, axis=dim, keepdims=int(bool(keep))))


@builds("max", "min")
def _extreme(x: Exporter, call: Call) -> list[str]:
    dim, keep = x.attr(call, "dim"), int(bool(x.attr(call, "keepdim")))
    a = x.operand(call.inputs[0])
    word = "Max" if call.op.name == "max" else "Min"
    if not call.inputs[0].shape:
        return [str(x.op("Identity", a)), str(x.op("Identity", np.int64(0)))]
    return [
        str(x.op(f"Reduce{word}", a, x.ints(dim), keepdims=keep)),
        str(x.op(f"Arg{word}", a, axis=dim, keepdims=keep)),
    ]


@builds("var", "std")
def _variance(x: Exporter, call: Call) -> str:
    dim, keep = x.attr(call, "dim"), int(bool(x.attr(call, "keepdim")))
    shape = call.inputs[0].shape
    dims = list(range(len(shape))) if dim is None or dim == () else [dim] if isinstance(dim, int) else list(dim)
    n = math.prod(shape[d] for d in dims)
    a = x.operand(call.inputs[0])
    d = x.op("Sub", a, x.op("ReduceMean", a, x.ints(*dims), keepdims=1)) if dims else x.op("Sub", a, a)
    total = x.op("ReduceSum", x.op("Mul", d, d), x.ints(*dims) if dims else None, keepdims=keep)
    with np.errstate(all="ignore"):
        v = x.op("Div", total, _freedom(x, call, n))
    return str(x.op("Sqrt", v)) if call.op.name == "std" else str(v)


def _freedom(x: Exporter, call: Call, n: int) -> Any:
    """Return n minus the correction, at least 0."""
    t = result_type(call)
    if varies(n):
        left = x.op("Sub", x.number(n, t), np.asarray(x.attr(call, "correction"), t.numpy))
        return x.op("Max", left, np.asarray(0, t.numpy))
    return np.asarray(max(0, n - x.attr(call, "correction")), t.numpy)


@builds("cumsum")
def _cumsum(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a = x.operand(call.inputs[0], t)
    return str(x.op("CumSum", a, np.int64(x.attr(call, "dim")))) if call.inputs[0].shape else str(x.op("Identity", a))


@builds("topk")
def _topk(x: Exporter, call: Call) -> list[str]:
    dim, k = x.attr(call, "dim"), x.attr(call, "k")
    if not call.inputs[0].shape:
        return [str(x.op("Identity", x.operand(call.inputs[0]))), str(x.op("Identity", np.int64(0)))]
    values = x.op(
        "TopK",
        x.operand(call.inputs[0]),
        x.ints(k),
        outputs=2,
        axis=dim,
        largest=int(bool(x.attr(call, "largest"))),
        sorted=1,
    )
    return [str(v) for v in values]


@builds("sort")
def _sort(x: Exporter, call: Call) -> list[str]:
    dim = x.attr(call, "dim")
    if not call.inputs[0].shape:
        return [str(x.op("Identity", x.operand(call.inputs[0]))), str(x.op("Identity", np.int64(0)))]
    n = call.inputs[0].shape[dim]
    values = x.op(
        "TopK",
        x.operand(call.inputs[0]),
        x.ints(n),
        outputs=2,
        axis=dim,
        largest=int(bool(x.attr(call, "descending"))),
        sorted=1,
    )
    return [str(v) for v in values]


@builds("restore_dims")
def _restore(x: Exporter, call: Call) -> str:
    dim, keep, shape = x.attr(call, "dim"), x.attr(call, "keepdim"), call.attrs["shape"]
    a = x.operand(call.inputs[0])
    if not keep and dim is not None and shape:
        a = x.op("Unsqueeze", a, x.ints(*sorted(d % len(shape) for d in ((dim,) if isinstance(dim, int) else dim))))
    return str(x.op("Expand", a, x.ints(*shape)))


@builds("argsort")
def _argsort(x: Exporter, call: Call) -> str:
    dim = x.attr(call, "dim")
    if not call.inputs[0].shape:
        return str(x.op("Identity", np.int64(0)))
    n = x.ints(call.inputs[0].shape[dim])
    largest = int(bool(x.attr(call, "descending")))
    return str(x.op("TopK", x.operand(call.inputs[0]), n, outputs=2, axis=dim, largest=largest, sorted=1)[1])


@builds("count_nonzero")
def _count(x: Exporter, call: Call) -> str:
    shape = call.inputs[0].shape
    a = x.cast(x.operand(call.inputs[0], dtypes.bool_), dtypes.bool_, dtypes.int64)
    dims = x.ints(*dims_of(x.attr(call, "dim"), len(shape))) if shape else None
    return str(x.op("ReduceSum", a, dims, keepdims=0)) if shape else str(a)


@builds("nansum")
def _nansum(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a = x.operand(call.inputs[0], t)
    if t.is_floating_point:
        a = x.op("Where", x.op("IsNaN", a), np.asarray(0, t.numpy), a)
    shape = call.inputs[0].shape
    if not shape:
        return str(x.op("Identity", a))
    dims = x.ints(*dims_of(x.attr(call, "dim"), len(shape)))
    return str(x.op("ReduceSum", a, dims, keepdims=int(bool(x.attr(call, "keepdim")))))


@builds("linalg_vector_norm", "norm_of_difference")
def _norm(x: Exporter, call: Call) -> str:
    t, p = result_type(call), x.attr(call, "ord")
    a = x.operand(call.inputs[0], t)
    shape = call.inputs[0].shape
    if not shape:
        return str(x.op("Abs", a)) if p else str(x.op("Sign", x.op("Abs", a)))
    dims = x.ints(*dims_of(x.attr(call, "dim"), len(shape)))
    keep = int(bool(x.attr(call, "keepdim")))
    size = x.op("Abs", a)
    if p in (math.inf, -math.inf):
        return str(x.op("ReduceMax" if p > 0 else "ReduceMin", size, dims, keepdims=keep))
    if p == 0:
        return str(x.op("ReduceSum", x.op("Sign", size), dims, keepdims=keep))
    if p in (1, 2):
        return str(x.op(f"ReduceL{int(p)}", a, dims, keepdims=keep))
    total = x.op("ReduceSum", x.op("Pow", size, np.asarray(p, t.numpy)), dims, keepdims=keep)
    return str(x.op("Pow", total, np.asarray(1 / p, t.numpy)))


@builds("dist")
def _dist(x: Exporter, call: Call) -> str:
    t, p = result_type(call), x.attr(call, "p")
    size = x.op("Abs", x.op("Sub", *x.operands(call, t)))
    if p in (math.inf, -math.inf):
        return str(x.op("ReduceMax" if p > 0 else "ReduceMin", size, keepdims=0))
    if p == 0:
        return str(x.op("ReduceSum", x.op("Sign", size), keepdims=0))
    total = x.op("ReduceSum", x.op("Pow", size, np.asarray(p, t.numpy)), keepdims=0)
    return str(x.op("Pow", total, np.asarray(1 / p, t.numpy)))


@builds("var_mean", "std_mean")
def _var_mean(x: Exporter, call: Call) -> list[str]:
    shape = call.inputs[0].shape
    dims, keep = dims_of(x.attr(call, "dim"), len(shape)), int(bool(x.attr(call, "keepdim")))
    a = x.operand(call.inputs[0])
    mean = x.op("ReduceMean", a, x.ints(*dims), keepdims=1) if dims else a
    d = x.op("Sub", a, mean)
    total = x.op("ReduceSum", x.op("Mul", d, d), x.ints(*dims), keepdims=keep)
    n = math.prod(shape[i] for i in dims)
    v = x.op("Div", total, _freedom(x, call, n))
    v = x.op("Sqrt", v) if call.op.name == "std_mean" else v
    return [str(v), str(x.op("ReduceMean", a, x.ints(*dims), keepdims=keep))]


@builds("aminmax")
def _aminmax(x: Exporter, call: Call) -> list[str]:
    shape, a = call.inputs[0].shape, x.operand(call.inputs[0])
    if not shape:
        return [str(x.op("Identity", a)), str(x.op("Identity", a))]
    dims, keep = x.ints(*dims_of(x.attr(call, "dim"), len(shape))), int(bool(x.attr(call, "keepdim")))
    return [str(x.op(k, a, dims, keepdims=keep)) for k in ("ReduceMin", "ReduceMax")]


@builds("reverse_cumsum")
def _reverse_cumsum(x: Exporter, call: Call) -> str:
    a = x.operand(call.inputs[0])
    if not call.inputs[0].shape:
        return str(x.op("Identity", a))
    return str(x.op("CumSum", a, np.int64(x.attr(call, "dim")), reverse=1))


@builds("addr")
def _addr(x: Exporter, call: Call) -> str:
    t = result_type(call)
    c, a, b = x.operands(call, t)
    outer = x.op("Mul", x.op("Unsqueeze", a, x.ints(1)), x.op("Unsqueeze", b, x.ints(0)))
    alpha, beta = (np.asarray(x.attr(call, n), t.numpy) for n in ("alpha", "beta"))
    return str(x.op("Add", x.op("Mul", c, beta), x.op("Mul", outer, alpha)))


@builds("addbmm")
def _addbmm(x: Exporter, call: Call) -> str:
    t = result_type(call)
    c, a, b = x.operands(call, t)
    product = x.op("ReduceSum", x.op("MatMul", a, b), x.ints(0), keepdims=0)
    alpha, beta = (np.asarray(x.attr(call, n), t.numpy) for n in ("alpha", "beta"))
    return str(x.op("Add", x.op("Mul", c, beta), x.op("Mul", product, alpha)))


@builds("vdot")
def _vdot(x: Exporter, call: Call) -> str:
    return str(x.op("MatMul", *x.operands(call, result_type(call))))


@builds("trilinear")
def _trilinear(x: Exporter, call: Call) -> str:
    a, w, b = x.operands(call)
    return str(x.op("Einsum", a, w, b, equation="ni,oij,nj->no"))


@builds("cdist")
def _cdist(x: Exporter, call: Call) -> str:
    t, p = result_type(call), x.attr(call, "p")
    a, b = x.operands(call, t)
    size = x.op("Abs", x.op("Sub", x.op("Unsqueeze", a, x.ints(-2)), x.op("Unsqueeze", b, x.ints(-3))))
    last = x.ints(-1)
    if p == math.inf:
        return str(x.op("ReduceMax", size, last, keepdims=0))
    if p == 0:
        return str(x.op("ReduceSum", x.op("Sign", size), last, keepdims=0))
    if p == 2:
        return str(x.op("ReduceL2", size, last, keepdims=0))
    return str(
        x.op(
            "Pow",
            x.op("ReduceSum", x.op("Pow", size, np.asarray(p, t.numpy)), last, keepdims=0),
            np.asarray(1 / p, t.numpy),
        )
    )


@builds("linalg_cross")
def _cross(x: Exporter, call: Call) -> str:
    a, b = x.operands(call, result_type(call))
    dim = x.attr(call, "dim")

    def turned(n: str, order: tuple[int, ...]) -> str:
        return str(x.op("Gather", n, np.array(order, np.int64), axis=dim))

    one, two = (1, 2, 0), (2, 0, 1)
    left, right = x.op("Mul", turned(a, one), turned(b, two)), x.op("Mul", turned(a, two), turned(b, one))
    return str(x.op("Sub", left, right))
