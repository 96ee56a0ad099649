"""Adding a constant border, or cutting one off: `constant_pad_nd`."""

from __future__ import annotations

import numpy as np

from .. import ops
from ..errors import ShapeError
from .declare import Movement, op
from .sizes import ints


@op
class constant_pad_nd(Movement):
    """Add `value` around the tensor: `pad` holds (before, after) from the last dimension on; negative numbers cut."""

    takes_out = False
    method = False
    vjp_input = lambda g, pad: ops.constant_pad_nd(g, tuple(-n for n in pad), 0)
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), (1, 2)),
        (rng.standard_normal((2, 3)), (1, -1, 0, 2), 2.5),
    ]

    def canon(a, pad, value):
        pad = ints("pad", "pad", pad)
        if len(pad) % 2 or len(pad) > 2 * a.ndim:
            raise ShapeError(f"pad: (before, after) for at most {a.ndim} dimensions is expected, got {pad}")
        for i in range(len(pad) // 2):
            n = a.shape[-1 - i]
            if n + pad[2 * i] + pad[2 * i + 1] < 0 or n + min(pad[2 * i], 0) + min(pad[2 * i + 1], 0) < 0:
                raise ShapeError(f"pad: {pad[2 * i : 2 * i + 2]} cuts more than the {n} of dimension {-1 - i}")
        return pad, value

    def forward(input, pad, value=0):
        size, inner, source = list(input.shape), [], []
        for i in range(input.ndim):
            before, after = pad[2 * i : 2 * i + 2] or (0, 0)
            n = input.shape[-1 - i]
            size[-1 - i] = n + before + after
            source.insert(0, slice(max(-before, 0), n - max(-after, 0)))
            inner.insert(0, slice(max(before, 0), size[-1 - i] - max(after, 0)))
        out = np.full(size, value, input.dtype) if value else np.zeros(size, input.dtype)
        out[tuple(inner)] = input[tuple(source)]
        return out


__all__ = ["constant_pad_nd"]
