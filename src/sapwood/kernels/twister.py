"""Random numbers by native code: the words of MT19937, turned into uniforms, coin tosses and normals as they come.

The state is that of NumPy's bit generator, read and written in place: 624 words and a position. Whoever calls holds the
generator's lock. The numbers are those of `sapwood.random` on NumPy alone; a real fused multiply-add stands where
NumPy's code rounds a double product and sum, which differs with odds of about 2^-29 an operation.

Reference: Matsumoto and Nishimura, Mersenne twister, ACM TOMACS 8 (1998); the constants are theirs.
"""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from typing import Any

from numpy import ndarray

from . import direct, engine
from .direct import Job
from .emit import loop_note
from .scalar import Scalar, bitcast, const, convert, fma, lower, select, sqrt, var
from .writer import Function, Module, Value

Array = ndarray[Any, Any]

WORDS, SHIFT = 624, 397
CHUNK = 2048
"""Numbers made from one buffer of words, which stays in the first-level cache."""

TWO_PI, FOUR_OVER_PI = 6.2831854820251465, 1.2732395447351628
SQRT_HALF_BITS = 0x3F3504F3
# The coefficients are those of Cephes' logf, sinf and cosf (Moshier, netlib.org/cephes).
LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
LN2_LOW, LN2_HIGH = -2.12194440e-4, 0.693359375
QUARTER_PI = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)
COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)

UNIFORM = ("state", "count", "range", "low", "high")
TOSS = ("state", "count", "limit", "one")
NORMAL = ("mean", "std")
LIBRARY = ("mean", "std", "log", "sincos")


def _text() -> str:
    module = Module()
    with module.function("void", "twist", "ptr %key", apart=True) as f:
        _twist(f)
    with module.function("void", "draw", "ptr %key", "ptr %to", "i64 %n", apart=True) as f:
        _draw(f)
    for dtype, kind in (("f32", "float"), ("f64", "double")):
        with module.function("void", f"uniform_{dtype}", "ptr %job", "i64 %begin", "i64 %end") as f:
            _uniform(f, dtype, kind)
    for dtype, kind in (("f32", "float"), ("f64", "double"), ("u8", "i8")):
        with module.function("void", f"toss_{dtype}", "ptr %job", "i64 %begin", "i64 %end") as f:
            _toss(f, kind)
    with module.function("void", "normal_f32", "ptr %job", "i64 %begin", "i64 %end") as f:
        _normal(f)
    with module.function("void", "normal_f64", "ptr %job", "i64 %begin", "i64 %end") as f:
        _normal_by_library(f)
    with module.function("void", "exchange", "ptr %job", "i64 %begin", "i64 %end") as f:
        _exchange(f)
    return module.text()


def _note(f: Function) -> tuple[str, str]:
    """Return the metadata of a loop whose iterations are independent, and of its accesses."""
    group = f.module.metadata("distinct !{}")
    note = loop_note(f.module, f.module.metadata(f'!{{!"llvm.loop.parallel_accesses", {group}}}'))
    return note, f", !llvm.access.group {group}"


def _twist(f: Function) -> None:
    """Make the next 624 words of the state. The new ones are made apart, so that no loop reads what it writes."""
    new = f.space("i32", WORDS, align=64)

    def mixed(a: Value, b: Value, c: Value) -> Value:
        y = f.v(f"or i32 {f.v(f'and i32 {a}, -2147483648')}, {f.v(f'and i32 {b}, 2147483647')}")
        odd = f.v(f"sub i32 0, {f.v(f'and i32 {b}, 1')}")
        z = f.v(f"xor i32 {c}, {f.v(f'lshr i32 {y}, 1')}")
        return f.v(f"xor i32 {z}, {f.v(f'and i32 {odd}, {0x9908B0DF - (1 << 32)}')}")

    first = WORDS - SHIFT
    for start, stop in ((0, first), (first, 2 * first), (2 * first, WORDS - 1)):
        note, tail = _note(f)
        source, back = ("%key", SHIFT) if start == 0 else (new, -first)
        with f.loop(stop, start, note=note) as i:
            a = f.load("i32", f.element("i32", "%key", i), tail)
            b = f.load("i32", f.element("i32", "%key", f.add(i, 1)), tail)
            c = f.load("i32", f.element("i32", source, f.add(i, back)), tail)
            f.store("i32", mixed(a, b, c), f.element("i32", new, i), tail)
    a = f.load("i32", f.element("i32", "%key", WORDS - 1))
    value = mixed(a, f.load("i32", new), f.load("i32", f.element("i32", new, SHIFT - 1)))
    f.store("i32", value, f.element("i32", new, WORDS - 1))
    note, tail = _note(f)
    with f.loop(WORDS, note=note) as i:
        f.store("i32", f.load("i32", f.element("i32", new, i), tail), f.element("i32", "%key", i), tail)


def _draw(f: Function) -> None:
    """Write the next n words of the stream."""
    position = f.element("i32", "%key", WORDS)
    done = f.cell("i64", 0)
    again, end = f.label("again"), f.label("end")
    f.go(again)
    f.start(again)
    f.leave(f.compare("sge", done.get(), "%n"), end)
    used = f.compare("eq", f.load("i32", position), WORDS, "i32")
    with f.when(used):
        f.call("void", "@twist", "ptr %key")
        f.store("i32", 0, position)
    at = f.v(f"sext i32 {f.load('i32', position)} to i64")
    n = f.least(f.sub("%n", done.get()), f.sub(WORDS, at))
    source, to = f.element("i32", "%key", at), f.element("i32", "%to", done.get())
    note, tail = _note(f)
    with f.loop(n, note=note) as i:
        y = f.load("i32", f.element("i32", source, i), tail)
        y = f.v(f"xor i32 {y}, {f.v(f'lshr i32 {y}, 11')}")
        for shift, mask in ((7, 0x9D2C5680), (15, 0xEFC60000)):
            moved = f.v(f"and i32 {f.v(f'shl i32 {y}, {shift}')}, {mask - (1 << 32)}")
            y = f.v(f"xor i32 {y}, {moved}")
        y = f.v(f"xor i32 {y}, {f.v(f'lshr i32 {y}, 18')}")
        f.store("i32", y, f.element("i32", to, i), tail)
    f.store("i32", f.v(f"trunc i64 {f.add(at, n)} to i32"), position)
    done.set(f.add(done.get(), n))
    f.go(again)
    f.start(end)


def _chunks(f: Function, job: Job, words: int, body: Any) -> None:
    """Draw words for chunks of numbers, and call body(words, first number, numbers)."""
    state = f.v(f"inttoptr i64 {job.word('state')} to ptr")
    buffer = f.space("i32", CHUNK * words, align=64)
    count = job.word("count")
    with f.loop(count, 0, CHUNK) as first:
        n = f.least(f.sub(count, first), CHUNK)
        f.call("void", "@draw", f"ptr {state}", f"ptr {buffer}", f"i64 {f.mul(n, words)}")
        body(buffer, first, n)


def _bits53(f: Function, buffer: Value, i: Value, tail: str) -> Value:
    """Return 53 bits of two words, the first one high."""
    pair = f.load("i64", f.element("i64", buffer, i), tail)
    whole = f.v(f"or i64 {f.v(f'shl i64 {pair}, 32')}, {f.v(f'lshr i64 {pair}, 32')}")
    return f.v(f"and i64 {whole}, {(1 << 53) - 1}")


def _uniform(f: Function, dtype: str, kind: str) -> None:
    job = Job(f, UNIFORM)
    out = job.array(0)
    span, low, high = (job.word(n, "double") for n in ("range", "low", "high"))
    if dtype == "f32":
        span, low, high = (f.v(f"fptrunc double {x} to float") for x in (span, low, high))

    def body(buffer: Value, first: Value, n: Value) -> None:
        note, tail = _note(f)
        to = f.element(kind, out, first)
        with f.loop(n, note=note) as i:
            if dtype == "f32":
                word = f.load("i32", f.element("i32", buffer, i), tail)
                u = f.v(f"sitofp i32 {f.v(f'and i32 {word}, {(1 << 24) - 1}')} to float")
                u = f.v(f"fmul float {u}, {const(2.0**-24, dtype).value}")
            else:
                u = f.v(f"sitofp i64 {_bits53(f, buffer, i, tail)} to double")
                u = f.v(f"fmul double {u}, {const(2.0**-53, dtype).value}")
            x = f.call(kind, f"@llvm.fma.{dtype}", f"{kind} {u}", f"{kind} {span}", f"{kind} {low}")
            reached = f.v(f"fcmp oeq {kind} {x}, {high}")  # by rounding up
            f.store(kind, f.choose(reached, low, x, kind), f.element(kind, to, i), tail)

    _chunks(f, job, 1 if dtype == "f32" else 2, body)


def _toss(f: Function, kind: str) -> None:
    job = Job(f, TOSS)
    out, limit = job.array(0), job.word("limit")
    if kind == "i8":
        one, zero = "1", "0"
    else:
        one, zero = job.word("one", "double"), "0.0"
        if kind == "float":
            one = f.v(f"fptrunc double {one} to float")

    def body(buffer: Value, first: Value, n: Value) -> None:
        note, tail = _note(f)
        to = f.element(kind, out, first)
        with f.loop(n, note=note) as i:
            below = f.compare("slt", _bits53(f, buffer, i, tail), limit)
            f.store(kind, f.choose(below, one, zero, kind), f.element(kind, to, i), tail)

    _chunks(f, job, 2, body)


def _log(u: Scalar) -> Scalar:
    """The natural logarithm as the vectorised float32 kernel computes it, of a positive normal number."""
    bits = bitcast(u, "i32")
    exponent = (bits - SQRT_HALF_BITS) >> 23
    x = bitcast(bits - (exponent << 23), "f32") - 1.0
    e = convert(exponent, "f32")
    z = x * x
    y = fma(x, LOG[0], LOG[1])
    for c in LOG[2:]:
        y = fma(y, x, c)
    y = fma(y * x, z, e * LN2_LOW)
    return (x + (y - z * 0.5)) + e * LN2_HIGH


def _sincos(angle: Scalar) -> tuple[Scalar, Scalar]:
    """Cosine and sine of an angle in [0, 2 pi), likewise."""
    quadrant = (convert(angle * FOUR_OVER_PI, "i32") + 1) & -2
    q, x = convert(quadrant, "f32"), angle
    for part in QUARTER_PI:
        x = fma(q, part, x)
    z = x * x
    y = fma(fma(z, COS[0], COS[1]), z, COS[2]) * z
    cos = fma(y, z, z * -0.5) + 1.0
    t = fma(fma(z, SIN[0], SIN[1]), z, SIN[2]) * z
    sin = fma(t, x, x)
    swapped = (quadrant & 2) != 0
    first, second = select(swapped, sin, cos), select(swapped, cos, sin)
    signs = ((quadrant + 2) & 4) << 29, (quadrant & 4) << 29
    cos, sin = (bitcast(bitcast(v, "i32") ^ s, "f32") for v, s in zip((first, second), signs))
    return cos, sin


def _normal(f: Function) -> None:
    """Turn blocks of 16 uniforms, 8 for radii and 8 for angles, into normals in place."""
    job = Job(f, NORMAL)
    out = job.array(0)
    f.do(f"%mean = fptrunc double {job.word('mean', 'double')} to float")
    f.do(f"%std = fptrunc double {job.word('std', 'double')} to float")
    mean, std, u, v = (var(f"%{n}", "f32") for n in ("mean", "std", "u", "v"))
    radius = sqrt(_log(1.0 - u) * -2.0)
    roots = [fma(x * radius, std, mean) for x in _sincos(v * TWO_PI)]
    lines, values = lower(roots)
    group = f.module.metadata("distinct !{}")
    facts = [f'!{{!"llvm.loop.parallel_accesses", {group}}}', '!{!"llvm.loop.vectorize.width", i32 8}',
             '!{!"llvm.loop.interleave.count", i32 1}']  # fmt: skip
    note, tail = loop_note(f.module, *map(f.module.metadata, facts)), f", !llvm.access.group {group}"
    with f.loop("%end", "%begin") as block:
        here = f.element("float", out, f.mul(block, 16))
        with f.loop(8, note=note) as i:
            first, second = f.element("float", here, i), f.element("float", f.at(here, 32), i)
            f.do(f"%u = load float, ptr {first}{tail}")
            f.do(f"%v = load float, ptr {second}{tail}")
            for line in lines:
                f.do(line)
            for place, value in zip((first, second), values):
                f.store("float", value, place, tail)


def _normal_by_library(f: Function) -> None:
    """Do the same in double precision with the C library's functions, whose last digits others do not have."""
    job = Job(f, LIBRARY)
    out = job.array(0)
    mean, std = job.word("mean", "double"), job.word("std", "double")
    log, sincos = (f.v(f"inttoptr i64 {job.word(n)} to ptr") for n in ("log", "sincos"))
    sin, cos = f.cell("double"), f.cell("double")
    with f.loop("%end", "%begin") as block, f.loop(8) as i:
        first = f.element("double", out, f.add(f.mul(block, 16), i))
        second = f.at(first, 64)
        u = f.v(f"fsub double 1.0, {f.load('double', first)}")
        square = f.v(f"fmul double {f.call('double', log, f'double {u}')}, -2.0")
        radius = f.call("double", "@llvm.sqrt.f64", f"double {square}")
        angle = f.v(f"fmul double {f.load('double', second)}, {const(2 * math.pi, 'f64').value}")
        f.call("void", sincos, f"double {angle}", f"ptr {sin.name}", f"ptr {cos.name}")
        for place, part in ((first, cos), (second, sin)):
            x = f.v(f"fmul double {radius}, {part.get()}")
            x = f.call("double", "@llvm.fma.f64", f"double {x}", f"double {std}", f"double {mean}")
            f.store("double", x, place)


def _exchange(f: Function) -> None:
    """Exchange element i with element targets[i], one after the other."""
    job = Job(f, ())
    order, targets = job.array(0), job.array(1)
    with f.loop("%end", "%begin") as i:
        here = f.element("i64", order, i)
        there = f.element("i64", order, f.load("i64", f.element("i64", targets, i)))
        a, b = f.load("i64", here), f.load("i64", there)
        f.store("i64", b, here)
        f.store("i64", a, there)


@functools.cache
def library() -> tuple[int, int] | None:
    """Return the addresses of the C library's log and sincos, None where it has no sincos."""
    try:
        found = ctypes.CDLL("libm.so.6")
        log, sincos = (ctypes.cast(getattr(found, n), ctypes.c_void_p).value or 0 for n in ("log", "sincos"))
    except (OSError, AttributeError):
        return None
    return log, sincos


@functools.cache
def _kernels() -> dict[str, Any]:
    names = ["uniform_f32", "uniform_f64", "toss_f32", "toss_f64", "toss_u8", "normal_f32", "normal_f64", "exchange"]
    found = engine.load(_text(), names)
    return {n: direct.make(n, found[n]) for n in names}


_UNIFORM, _TOSS, _NORMAL = struct.Struct("5q3d"), struct.Struct("6qd"), struct.Struct("3q2d")
_LIBRARY, _EXCHANGE = struct.Struct("3q2d2q"), struct.Struct("3q")
_TOSSES = {"f": "toss_f32", "d": "toss_f64", "?": "toss_u8", "B": "toss_u8", "b": "toss_u8"}


def uniform(state: int, out: Array, span: float = 1.0, low: float = 0.0, high: float = 1.0) -> None:
    """Fill a contiguous float32 or float64 array with low + span · u, u a multiple of 2^-24 or 2^-53 in [0, 1).

    Args:
        state: address of the state of NumPy's MT19937.
        high: what gives way to `low` where rounding reaches it.
    """
    words = _UNIFORM.pack(1, 1, out.size * out.itemsize // 4, state, out.size, span, low, high)
    _kernels()["uniform_f32" if out.itemsize == 4 else "uniform_f64"](words, out)


def tossable(dtype: Any) -> bool:
    """Return whether `toss` fills arrays of this type."""
    return dtype.char in _TOSSES


def toss(state: int, out: Array, limit: int, one: float = 1.0) -> None:
    """Fill a contiguous array with `one` where 53 random bits are below `limit`, else 0; bytes are 1 or 0."""
    words = _TOSS.pack(1, 1, 2 * out.size, state, out.size, limit, one)
    _kernels()[_TOSSES[out.dtype.char]](words, out)


def normal(u: Array, mean: float, std: float) -> None:
    """Turn a contiguous array of uniforms, a multiple of 16, into normals in place, block by block.

    u: float32; float64 where there is a `library`.
    """
    blocks = u.size // 16
    if u.itemsize == 4:
        _kernels()["normal_f32"](_NORMAL.pack(blocks, 64, 30 * blocks, mean, std), u)
    else:
        _kernels()["normal_f64"](_LIBRARY.pack(blocks, 64, 500 * blocks, mean, std, *(library() or (0, 0))), u)


def exchange(order: Array, targets: Array) -> None:
    """Exchange element i of `order` with element targets[i], for one i after the other; both contiguous int64."""
    _kernels()["exchange"](_EXCHANGE.pack(targets.size, targets.size, targets.size), order, targets)


__all__ = ["exchange", "library", "normal", "toss", "tossable", "uniform"]
