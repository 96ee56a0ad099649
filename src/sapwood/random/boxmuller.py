"""Normal numbers by the transform of Box and Muller, in the three forms PyTorch's CPU kernels have.

* fewer than 16 elements, or not contiguous: one pair at a time in float64, the second of a pair kept for later;
* 16 or more, float64: blocks of 16 (8 radii, 8 angles) with the C library's log, sin and cos;
* 16 or more, float32 and narrower: the same blocks in float32 with polynomials and fused multiply-adds.

Reference: Box and Muller, A note on the generation of random normal deviates, Ann. Math. Stat. 29 (1958).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.random.generator import native
from sapwood.random.rounding import fma32, fma64, libm, sincos

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sapwood.random.generator import Generator

_CHUNK = 2048
"""Blocks of 16 worked on together: a chunk of 16384 pairs stays in the second-level cache."""


def serial_normals(generator: Generator, n: int) -> NDArray[np.float64]:
    """Draw n standard normals pair by pair, using up and leaving behind the generator's spare one: (n,), float64."""
    with generator.lock:
        spare = generator.normal
        head = 0 if spare is None or n == 0 else 1
        pairs = (n - head + 1) // 2
        out = np.empty(head + 2 * pairs)
        if head:
            out[0] = spare
            generator.normal = None
        if pairs:
            u = generator.uniform53(2 * pairs)
            radius = np.sqrt(-2.0 * libm(math.log1p, -u[1::2]))
            sin, cos = sincos(2.0 * math.pi * u[::2])
            np.multiply(radius, cos, out=out[head::2])
            np.multiply(radius, sin, out=out[head + 1 :: 2])
            if out.size > n:
                generator.normal = float(out[n])
    return out[:n]


def block_normals64(generator: Generator, n: int, mean: float, std: float) -> NDArray[np.float64]:
    """Draw n >= 16 normals block by block: (n,), float64."""
    with generator.lock:
        u = generator.uniform53(n)
        tail = generator.uniform53(16) if n % 16 else u[:0]
    whole = n - n % 16
    kernels = native(n)
    if kernels is not None and kernels.library() is not None:
        kernels.normal(u[:whole], mean, std)
        if tail.size:
            kernels.normal(tail, mean, std)
            u[n - 16 :] = tail
        return u
    u[:whole] = _transform64(u[:whole], mean, std)
    if tail.size:
        u[n - 16 :] = _transform64(tail, mean, std)
    return u


def _transform64(u: NDArray[np.float64], mean: float, std: float) -> NDArray[np.float64]:
    blocks = u.reshape(-1, 16)
    radius = np.sqrt(-2.0 * libm(math.log, (1.0 - blocks[:, :8]).ravel()))
    sin, cos = sincos(2.0 * math.pi * blocks[:, 8:].ravel())
    out = np.empty_like(blocks)
    out[:, :8] = fma64(radius * cos, std, mean).reshape(-1, 8)
    out[:, 8:] = fma64(radius * sin, std, mean).reshape(-1, 8)
    return out.ravel()


def block_normals32(generator: Generator, n: int, mean: float, std: float, *, narrow: bool) -> NDArray[np.float32]:
    """Draw n >= 16 normals block by block in float32: (n,), float32.

    Args:
        narrow: True for float16 and bfloat16, whose kernel draws nothing for the ragged end before it redraws it.
    """
    whole = n - n % 16
    with generator.lock:
        u = generator.uniform24(whole if narrow else n)
        tail = generator.uniform24(16) if n % 16 else u[:0]
    if narrow and tail.size:
        u = np.concatenate([u, tail])[:n]
    kernels = native(n)
    if kernels is not None:
        kernels.normal(u[:whole], mean, std)
        if tail.size:
            kernels.normal(tail, mean, std)
            u[n - 16 :] = tail
        return u
    _transform32(u[:whole])
    if tail.size:
        _transform32(tail)
        u[n - 16 :] = tail
    return fma32(u, std, mean)


def _transform32(u: NDArray[np.float32]) -> None:
    """Turn uniforms into standard normals, in place, a multiple of 16 of them."""
    blocks = u.reshape(-1, 16)
    work = _Work(8 * min(_CHUNK, len(blocks)))
    for start in range(0, len(blocks), _CHUNK):
        chunk = blocks[start : start + _CHUNK]
        n = 8 * len(chunk)
        if n != work.x.size:
            work = _Work(n)
        np.subtract(np.float32(1), chunk[:, :8], out=work.single.reshape(-1, 8))
        radius = work.log()
        radius *= -2.0  # exact, as is nothing else below
        np.sqrt(radius, out=radius)  # the float64 root of a float32 rounds to the float32 root
        work.round(radius)
        np.multiply(chunk[:, 8:], _TWO_PI, out=work.single.reshape(-1, 8))
        cos, sin = work.sincos()
        cos *= work.single
        sin *= work.single
        chunk[:, :8] = cos.reshape(-1, 8)
        chunk[:, 8:] = sin.reshape(-1, 8)


def _wide(*constants: float) -> list[float]:
    return [float(np.float32(c)) for c in constants]


# The coefficients are those of Cephes' logf, sinf and cosf (Moshier, netlib.org/cephes).
_TWO_PI = np.float32(2 * math.pi)
_SQRT_HALF_BITS = int(np.float32(math.sqrt(0.5)).view(np.int32))
_FOUR_OVER_PI = np.float32(4 / math.pi)
_LOG = _wide(
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_LN2_LOW, _LN2_HIGH = _wide(-2.12194440e-4, 0.693359375)
_QUARTER_PI = _wide(-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)
_COS = _wide(2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_SIN = _wide(-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)


class _Work:
    """Buffers for a chunk, and the two functions evaluated in them.

    A float32 fused multiply-add is a float64 multiplication (exact), a float64 addition and a rounding to float32:
    variables are float64 arrays that hold float32 values. The addition rounds too; that it changes the float32 result
    needs a tie, at odds of about 2**-29 an operation.
    """

    def __init__(self, n: int) -> None:
        self.single = np.empty(n, np.float32)
        self.narrow = np.empty(n, np.float32)
        self.x, self.y, self.z, self.t, self.w = (np.empty(n) for _ in range(5))
        self.e = np.empty(n, np.int32)
        self.bits = np.empty(n, np.int32)

    def round(self, x: NDArray[np.float64]) -> None:
        """Round x to float32 precision in place."""
        np.copyto(self.narrow, x, casting="same_kind")
        np.copyto(x, self.narrow)

    def fma(self, y: NDArray[np.float64], x: NDArray[np.float64], c: Any) -> None:
        """Replace y by y·x + c."""
        y *= x
        y += c
        self.round(y)

    def times(self, y: NDArray[np.float64], x: Any) -> None:
        """Replace y by y·x."""
        y *= x
        self.round(y)

    def log(self) -> NDArray[np.float64]:
        """Return the natural logarithm of `single`, positive normal numbers."""
        x, y, z, e, exponent = self.x, self.y, self.z, self.t, self.e
        bits = self.single.view(np.int32)
        np.subtract(bits, _SQRT_HALF_BITS, out=exponent)
        exponent >>= 23
        np.copyto(e, exponent)
        exponent <<= 23
        bits -= exponent  # single is now the significand in [sqrt(1/2), sqrt(2))
        np.copyto(x, self.single)
        x -= 1.0
        np.multiply(x, x, out=z)
        self.round(z)
        np.multiply(x, _LOG[0], out=y)
        y += _LOG[1]
        self.round(y)
        for c in _LOG[2:]:
            self.fma(y, x, c)
        self.times(y, x)
        np.multiply(e, _LN2_LOW, out=self.w)
        self.round(self.w)
        self.fma(y, z, self.w)
        z *= 0.5
        y -= z
        self.round(y)
        x += y
        self.round(x)
        e *= _LN2_HIGH
        x += e
        self.round(x)
        return x

    def sincos(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return cos and sin of `single`, in [0, 2 pi), and leave the radius (x, float32 values) in `single`."""
        x, y, z, t, quadrant, swap = self.w, self.y, self.z, self.t, self.e, self.bits
        np.copyto(x, self.single)
        self.single *= _FOUR_OVER_PI
        np.copyto(quadrant, self.single, casting="unsafe")
        np.copyto(self.single, self.x, casting="same_kind")
        quadrant += 1
        quadrant &= -2
        np.copyto(self.x, quadrant)
        for part in _QUARTER_PI:
            np.multiply(self.x, part, out=t)
            x += t
            self.round(x)
        np.multiply(x, x, out=z)
        self.round(z)
        for out, c in ((y, _COS), (t, _SIN)):
            np.multiply(z, c[0], out=out)
            out += c[1]
            self.round(out)
            self.fma(out, z, c[2])
        self.times(y, z)
        np.multiply(z, -0.5, out=self.x)
        self.fma(y, z, self.x)
        y += 1.0
        cos = y.astype(np.float32)
        self.times(t, z)
        t *= x
        t += x
        sin = t.astype(np.float32)
        # Odd quadrants swap the two, and the signs follow from the quadrant: on the bits, for a mask is slow on noise.
        cos_bits, sin_bits = cos.view(np.int32), sin.view(np.int32)
        np.bitwise_and(quadrant, 2, out=swap)
        swap >>= 1
        np.negative(swap, out=swap)
        swap &= cos_bits ^ sin_bits
        cos_bits ^= swap
        sin_bits ^= swap
        sin_bits ^= (quadrant & 4) << 29
        quadrant += 2
        quadrant &= 4
        quadrant <<= 29
        cos_bits ^= quadrant
        return cos, sin
