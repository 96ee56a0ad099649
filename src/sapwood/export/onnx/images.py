"""Images in ONNX: resizing, grids and samples of them."""

from __future__ import annotations

import numpy as np

from sapwood import dtypes
from sapwood.export.onnx.exporter import Exporter, builds
from sapwood.export.onnx.kinds import result_type
from sapwood.graph.ir import Call

MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


@builds("resample")
def _resample(x: Exporter, call: Call) -> str:
    kind, align, scales = (x.attr(call, n) for n in ("kind", "align", "scales"))
    a, t = x.operand(call.inputs[0]), result_type(call)
    shape, size = call.inputs[0].shape, x.attr(call, "size")
    mode = kind.rstrip("123")
    if mode in MODES and not any(scales) and t is dtypes.float32:
        # ONNX's own operator: other runtimes have it fast.
        way = "align_corners" if align else "asymmetric" if mode == "nearest" else "half_pixel"
        axes = list(range(2, len(shape)))
        return str(
            x.op(
                "Resize", a, None, None, x.ints(*size), axes=axes, mode=MODES[mode], coordinate_transformation_mode=way,
                nearest_mode="floor" if mode == "nearest" else None,
                cubic_coeff_a=-0.75 if mode == "bicubic" else None,
            )
        )  # fmt: skip
    return _by_matrices(x, call, str(a))


def _by_matrices(x: Exporter, call: Call, a: str) -> str:
    """Multiply every dimension by the matrix of its weights."""
    from sapwood.ops.upsample import taps

    shape, t = list(call.inputs[0].shape), result_type(call)
    kind, align, scales = (x.attr(call, n) for n in ("kind", "align", "scales"))
    for i, out in enumerate(x.attr(call, "size")):
        n, dim = shape[i + 2], i + 2
        index, weight = taps(kind, n, out, align, scales[i], np.float64)
        matrix = np.zeros((n, out))
        columns = np.broadcast_to(np.arange(out)[:, None], index.shape)
        np.add.at(matrix, (index, columns), 1 if weight is None else weight)
        order = list(range(len(shape)))
        order[dim], order[-1] = order[-1], order[dim]
        a = x.op("Transpose", a, perm=order) if dim != len(shape) - 1 else a
        a = x.op("MatMul", a, matrix.astype(t.numpy))
        a = x.op("Transpose", a, perm=order) if dim != len(shape) - 1 else a
    return str(a)


@builds("affine_grid_generator")
def _affine_grid(x: Exporter, call: Call) -> str:
    size = x.attr(call, "size")
    theta = x.operand(call.inputs[0])
    return str(x.op("AffineGrid", theta, x.ints(*size), align_corners=int(x.attr(call, "align_corners"))))
