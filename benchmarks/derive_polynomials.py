"""Derive the polynomials of the vector maths, and write them as a module.

    python benchmarks/derive_polynomials.py > src/sapwood/kernels/coefficients.py    (then ruff format; some minutes)

Each is the minimax polynomial p of a function g on an interval: the largest |weight · (g - p)| is smallest.
Coefficients are rounded from the lowest up, and what the rounding of one did is made up for by fitting the rest again.
The comment beside each table is the largest weighted error after rounding, where the weight makes it a relative error
of the function that the table is used for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from mpmath import cos, erf, erfc, exp, log, mp, mpf, nstr, pi, sin, sqrt

mp.dps = 60
ROUND = {"f32": lambda c: float(np.float32(float(c))), "f64": float}


def minimax(g: list[Any], w: list[Any], t: list[Any], degree: int) -> list[Any]:
    """Return the coefficients of the minimax polynomial on the grid t of values g with weights w.

    Lawson's iteration: weighted least squares, where each point's weight is multiplied by the error it was left with.
    The normal equations are solved in double for what is missing to a solution that is kept in many digits.
    """
    middle = (t[0] + t[-1]) / 2
    half = (t[-1] - t[0]) / 2
    u = [(x - middle) / half for x in t]
    basis = np.polynomial.chebyshev.chebvander(np.array([float(x) for x in u]), degree)
    plain = np.array([float(x) for x in w])
    lawson = np.ones(len(t))
    c = [mpf(0)] * (degree + 1)
    best, least = c, mpf("inf")
    for step in range(60):
        error = [wk * (gk - chebyshev(c, x)) for wk, gk, x in zip(w, g, u)]
        worst = max(abs(e) for e in error)
        if worst < least:
            best, least = c, worst
        scale = float(worst)
        if step > 4:
            lawson *= np.array([abs(float(e / worst)) for e in error]) + 1e-12
            lawson /= lawson.max()
        rows = np.sqrt(lawson)
        right = np.array([float(e / worst) for e in error]) * rows
        c = [a + mpf(d) * scale for a, d in zip(c, np.linalg.lstsq(basis * (plain * rows)[:, None], right)[0])]
    # From Chebyshev polynomials of u to powers of t.
    previous, current = [mpf(1)], [-middle / half, 1 / half]
    out = [mpf(0)] * (degree + 1)
    for ck in best:
        for j, x in enumerate(previous):
            out[j] += ck * x
        twice = [mpf(0)] * (len(current) + 1)
        for j, x in enumerate(current):
            twice[j] -= 2 * middle / half * x
            twice[j + 1] += 2 / half * x
        for j, x in enumerate(previous):
            twice[j] -= x
        previous, current = current, twice
    return out


def chebyshev(c: list[Any], x: Any) -> Any:
    """Evaluate a sum of Chebyshev polynomials (Clenshaw)."""
    one = two = mpf(0)
    for ck in reversed(c[1:]):
        one, two = ck + 2 * x * one - two, one
    return c[0] + x * one - two


def horner(c: list[Any], x: Any) -> Any:
    total = mpf(0)
    for ck in reversed(c):
        total = total * x + ck
    return total


def fit(
    g: Callable[[Any], Any], w: Callable[[Any], Any], a: Any, b: Any, degree: int, dtype: str
) -> tuple[list[float], Any]:
    """Return rounded coefficients of degree `degree`, lowest first, and the largest weighted error they leave."""
    count = max(16 * (degree + 2), 150)
    # No point at a zero of the interval's inside: several g are quotients with a removable gap there.
    t = [(a + b) / 2 - (b - a) / 2 * mp.cos(pi * (k + mpf("0.5")) / count) for k in range(count)]
    values = [g(x) for x in t]
    weights = [w(x) for x in t]
    done: list[float] = []
    kept, rest, scale = t, values, weights
    for left in range(degree, -1, -1):
        c = minimax(rest, scale, kept, left)
        # The fifth coefficient and those after it have so little weight that rounding them all at once is as good.
        fixed = [ROUND[dtype](x) for x in (c[:1] if len(done) < 4 else c)]
        done += fixed
        if len(done) > degree:
            break
        rest = [(r - mpf(fixed[0])) / x for r, x in zip(rest, kept)]
        scale = [s * abs(x) for s, x in zip(scale, kept)]
        # Points without weight make the exchange's equations singular.
        least = max(scale) * mpf(10) ** -25
        kept, rest, scale = zip(*[(x, r, s) for x, r, s in zip(kept, rest, scale) if s > least])
    return done, max(abs(s * (v - horner([mpf(c) for c in done], x))) for s, v, x in zip(weights, values, t))


LN2 = log(2)
# A little beyond half an octave, because the nearest integer is found with a rounded product.
R = LN2 / 2 * mpf("1.0005")
F0, F1 = sqrt(mpf("0.5")) - 1, sqrt(mpf(2)) - 1
Q = pi / 4 * mpf("1.0005")
TINY = mpf(10) ** -12


def odd(f: Callable[[Any], Any], c: int = 1) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return g and weight for f(x) = c·x + x³ g(x²), the error relative to f."""
    return (lambda z: (f(sqrt(z)) / sqrt(z) - c) / z), (lambda z: z * sqrt(z) / f(sqrt(z)))


def log_odd(z: Any) -> Any:
    """R with log((1+s)/(1-s)) = 2 s + s R(s²) s²."""
    s = sqrt(z)
    return (log((1 + s) / (1 - s)) / s - 2) / z


def erfcx_over(k: int) -> Callable[[Any], Any]:
    """(x + k)·exp(x²)·erfc(x) as a function of t = (x - k)/(x + k), which takes [0, inf] to [-1, 1]."""

    def g(t: Any) -> Any:
        x = k * (1 + t) / (1 - t)
        # Beyond 40 the asymptotic series has more digits than erfc's own underflow leaves.
        if x < 40:
            return (x + k) * exp(x * x) * erfc(x)
        total = term = mpf(1)
        for i in range(1, 20):
            term *= -(2 * i - 1) / (2 * x * x)
            total += term
        return (x + k) / (x * sqrt(pi)) * total

    return g


def tables() -> Any:
    """Yield (name, docstring, g, weight, from, to, degree of f32, degree of f64); None where a type has no table."""
    one = lambda x: mpf(1)
    yield (
        "EXP", "exp(r) = 1 + r + r² p(r), |r| <= ln(2)/2",
        lambda r: (exp(r) - 1 - r) / r**2, lambda r: r**2 / exp(r), -R, R, 4, 9,
    )  # fmt: skip
    yield (
        "EXP2", "2^r = 1 + r p(r), |r| <= 1/2",
        lambda r: (2**r - 1) / r, lambda r: abs(r) / 2**r, -mpf("0.5"), mpf("0.5"), 5, 10,
    )  # fmt: skip
    yield (
        "LOG", "log(1 + f) = f - f²/2 + f³ p(f), sqrt(1/2) <= 1 + f <= sqrt(2)",
        lambda f: (log(1 + f) - f + f**2 / 2) / f**3, lambda f: abs(f**3 / log(1 + f)), F0, F1, 7, None,
    )  # fmt: skip
    s1 = F1 / (2 + F1)
    yield (
        "LOG_ODD", "log(1 + f) = 2 s + s z p(z), s = f/(2 + f), z = s²",
        log_odd, lambda z: z / 2, TINY, s1**2, None, 6,
    )  # fmt: skip
    yield (
        "LOG_TAIL", "log(1 + f) = 2 s (1 + z (1/3 + z p(z))), s = f/(2 + f), z = s²: for pow of float64",
        lambda z: (log_odd(z) / 2 - mpf(1) / 3) / z, lambda z: z**2, TINY, s1**2, None, 7,
    )  # fmt: skip
    yield (
        "LOG2_SHORT", "log2(1 + f) = s p(z), to 36 bits: for pow of float32, computed in double",
        lambda z: log((1 + sqrt(z)) / (1 - sqrt(z))) / sqrt(z) / LN2, one, TINY, s1**2, None, 4,
    )  # fmt: skip
    yield (
        "EXP2_SHORT", "2^r = p(r), to 28 bits: for pow of float32, computed in double",
        lambda r: mpf(2) ** r, lambda r: mpf(2) ** -r, -mpf("0.5"), mpf("0.5"), None, 6,
    )  # fmt: skip
    yield ("SINH", "sinh(x) = x + x³ p(x²), |x| <= 1", *odd(mp.sinh), TINY, mpf(1), 3, 7)
    yield ("TANH", "tanh(x) = x + x³ p(x²), |x| <= 1/2", *odd(mp.tanh), TINY, mpf("0.25"), 4, 9)
    yield ("SIN", "sin(r) = r + r³ p(r²), |r| <= pi/2", *odd(sin), TINY, (2 * Q) ** 2, 3, 7)
    yield ("SIN_SHORT", "sin(r) = r + r³ p(r²), |r| <= pi/4", *odd(sin), TINY, Q**2, 2, 5)
    yield (
        "COS_SHORT", "cos(r) = 1 - r²/2 + r⁴ p(r²), |r| <= pi/4",
        lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, lambda z: z**2 / cos(sqrt(z)), TINY, Q**2, 2, 5,
    )  # fmt: skip
    yield ("TAN", "tan(r) = r + r³ p(r²), |r| <= pi/4", *odd(mp.tan), TINY, Q**2, 6, 13)
    yield ("ATAN", "atan(t) = t + t³ p(t²), |t| <= 1/2", *odd(mp.atan), TINY, mpf("0.25"), 5, 12)
    yield ("ASIN", "asin(x) = x + x³ p(x²), |x| <= 1/2", *odd(mp.asin), TINY, mpf("0.25"), 4, 12)
    yield (
        "ERF", "erf(x) = x + x p(x²), |x| <= 1",
        lambda z: erf(sqrt(z)) / sqrt(z) - 1, lambda z: sqrt(z) / erf(sqrt(z)), TINY, mpf(1), 6, 12,
    )  # fmt: skip
    g = erfcx_over(3)
    for low, high, end in ((9, None, mpf("10.3")), (None, 22, mpf("27.4"))):
        yield (
            "ERFCX", "(x + 3) exp(x²) erfc(x) = p((x - 3)/(x + 3)), x >= 0 as long as erfc(x) > 0",
            g, lambda t: 1 / g(t), -mpf(1), (end - 3) / (end + 3), low, high,
        )  # fmt: skip
    for low, high, end in ((4, None, mpf(4)), (None, 11, mpf(6))):
        yield (
            "ERF_TAIL", "(x + 3) exp(x²) (1 - erf(x)) = p((x - 3)/(x + 3)), x >= 1 as long as erf(x) < 1",
            g, lambda t: erfc(3 * (1 + t) / (1 - t)) / g(t), -mpf("0.5"), (end - 3) / (end + 3), low, high,
        )  # fmt: skip
    for low, high, end in ((9, None, mpf("10.3")), (None, 22, mpf("27.4"))):
        yield (
            "NORMAL", "(x + s) exp(x²/2) N(-x) = p((x - s)/(x + s)), s = sqrt(18), N the normal distribution, x >= 0",
            lambda t: g(t) / sqrt(mpf(2)), lambda t: sqrt(mpf(2)) / g(t), -mpf(1), (end - 3) / (end + 3), low, high,
        )  # fmt: skip
    yield (
        "EXP_WIDE", "exp(r) = 1 + r + r² p(r), -0.587 <= r <= 0.801",
        lambda r: (exp(r) - 1 - r) / r**2, lambda r: r**2 / exp(r), mpf("-0.5866"), mpf("0.801"), 5, None,
    )  # fmt: skip
    middle, slope = mpf("2.75"), mpf("0.4375")
    yield (
        "MILLS", "log(2 exp(a²/2) N(-a)) = -7/16 a + a p(a - 11/4), 0 <= a <= 5.5",
        lambda t: log(erfc((t + middle) / sqrt(mpf(2))) * exp((t + middle) ** 2 / 2)) / (t + middle) + slope,
        lambda t: t + middle, -middle + mpf(10) ** -6, mpf("5.5") - middle, 11, None,
    )  # fmt: skip


CONSTANTS = {
    "PI": pi,
    "HALF_PI": pi / 2,
    "LN2": LN2,
    "LOG2_E": 1 / LN2,
    "TWICE_LOG2_E": 2 / LN2,
    "LOG10_E": 1 / log(10),
    "LOG10_2": LN2 / log(10),
    "THIRD": mpf(1) / 3,
    "SQRT_18": sqrt(mpf(18)),
    "GELU_1": 2 * sqrt(2 / pi),
    "GELU_3": 2 * sqrt(2 / pi) * mpf("0.044715"),
}


def parts(x: Any, dtype: str) -> list[float]:
    """Return three numbers of the type whose sum is x: each is what rounding the ones before it left."""
    out: list[float] = []
    for _ in range(3):
        out.append(ROUND[dtype](x))
        x -= mpf(out[-1])
    return out


HEADER = '''"""Polynomials of the vector maths, lowest coefficient first.

Written by benchmarks/derive_polynomials.py; do not edit.

The figure beside a table is its largest error, relative to the function it is for.
"""

from typing import Final

Table = tuple[float, ...]
'''


def spell(c: float, dtype: str) -> str:
    """Write a coefficient with the fewest digits that read back as the same number of its type."""
    return repr(float(str(np.float32(c)))) if dtype == "f32" else repr(c)


def main() -> None:
    """Print the module; with names as arguments, those tables only."""
    wanted = sys.argv[1:]
    if not wanted:
        print(HEADER)
        mp.dps = 450
        print(
            f"# The first 1280 binary digits of 1/pi\nINVERSE_PI: Final[int] = 0x{int((+mp.pi) ** -1 * 2**1280):X}\n\n"
        )
        mp.dps = 60
        print("# Constants as sums of three numbers of each type")
        for name, x in CONSTANTS.items():
            print(f"{name}: Final[dict[str, Table]] = {{")
            for dtype in ROUND:
                print(f'    "{dtype}": ({", ".join(spell(c, dtype) for c in parts(x, dtype))}),')
            print("}")
    last = ""
    for name, doc, g, w, a, b, low, high in tables():
        if wanted and name not in wanted:
            continue
        if name != last:
            print(f"{'}' if last else ''}\n\n# {doc}\n{name}: Final[dict[str, Table]] = {{".lstrip("\n"))
        last = name
        for dtype, degree in (("f32", low), ("f64", high)):
            if degree is not None:
                c, error = fit(g, w, a, b, degree, dtype)
                print(f'    "{dtype}": (  # {nstr(error, 2)}')
                print("".join(f"        {spell(x, dtype)},\n" for x in c) + "    ),", flush=True)
    print("}")


if __name__ == "__main__":
    main()
