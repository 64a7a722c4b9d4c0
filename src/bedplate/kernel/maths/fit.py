"""Fit the polynomials of the vector maths, and print `coefficients.py`.

    python -m bedplate.kernel.maths.fit > src/bedplate/kernel/maths/coefficients.py

Each polynomial interpolates its function at the Chebyshev nodes of the interval, which is
within a small factor of the best possible (minimax) one; 60 digits throughout, rounded once.
The leading terms of each series are left out of the fit and stand exactly in the kernels, so
that the rounding of a coefficient never shows. Needs mpmath, which the package itself does not.

source  Trefethen, Approximation Theory and Approximation Practice, chapters 4 and 16
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from mpmath import mp as _mp
from mpmath import mpf

mp: Any = _mp  # mpmath adds its functions at run time, which type checkers cannot see
Function = Callable[[Any], Any]


def interpolate(function: Function, low: Any, high: Any, degree: int) -> list[Any]:
    """The coefficients, lowest power first, of the polynomial through the Chebyshev nodes."""
    low, high = mpf(low), mpf(high)
    nodes = [mp.cos(mp.pi * (2 * k + 1) / (2 * degree + 2)) for k in range(degree + 1)]
    points = [(low + high) / 2 + (high - low) / 2 * node for node in nodes]
    values = [function(point) for point in points]
    return newton_to_powers(points, divided_differences(points, values))


def weighed(function: Function, weight: Function, low: Any, high: Any, degree: int) -> list[Any]:
    """The coefficients of the polynomial whose greatest error times `weight` is least, nearly.

    Least squares at many Chebyshev nodes; where the error is large its square counts more in
    the next round (Lawson 1961).
    """
    low, high, count = mpf(low), mpf(high), 25 * degree
    nodes = [mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    points = [(low + high) / 2 + (high - low) / 2 * node for node in nodes]
    weights = [weight(point) for point in points]
    values = [function(point) * w for point, w in zip(points, weights, strict=True)]
    rows = [[w * p**k for k in range(degree + 1)] for p, w in zip(points, weights, strict=True)]
    shares, found = [mpf(1)] * count, []
    for _ in range(40):
        scales = [mp.sqrt(share) for share in shares]
        matrix = mp.matrix([[e * s for e in row] for row, s in zip(rows, scales, strict=True)])
        right = mp.matrix([v * s for v, s in zip(values, scales, strict=True)])
        found = list(mp.lu_solve(matrix.T * matrix, matrix.T * right))
        errors = [abs(mp.fdot(row, found) - value) for row, value in zip(rows, values, strict=True)]
        shares = [
            share * (error / max(errors) + mpf("1e-3"))
            for share, error in zip(shares, errors, strict=True)
        ]
        shares = [share * count / mp.fsum(shares) for share in shares]
    return found


def divided_differences(points: list[Any], values: list[Any]) -> list[Any]:
    table = list(values)
    for level in range(1, len(points)):
        for i in range(len(points) - 1, level - 1, -1):
            table[i] = (table[i] - table[i - 1]) / (points[i] - points[i - level])
    return table


def newton_to_powers(points: list[Any], differences: list[Any]) -> list[Any]:
    powers = [mpf(0)] * len(points)
    for point, difference in zip(reversed(points), reversed(differences), strict=True):
        shifted = [mpf(0), *powers[:-1]]
        powers = [s - point * p for s, p in zip(shifted, powers, strict=True)]
        powers[0] += difference
    return powers


def series(terms: Function, first: int, last: int) -> Function:
    """x -> sum of terms(k) x^k from `first` to `last`, without the cancellation at x = 0."""
    coefficients = [terms(k) for k in range(first, last + 1)]
    return lambda x: mp.polyval(coefficients[::-1], x)


def atanh_series(k: int) -> Any:  # (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2
    return mpf(2) / (2 * k + 3)


def sine(k: int) -> Any:  # (sin(r) - r) / r^3 in r^2
    return (-1) ** (k + 1) / mp.factorial(2 * k + 3)


def cosine(k: int) -> Any:  # (cos(r) - 1 + r^2 / 2) / r^4 in r^2
    return (-1) ** k / mp.factorial(2 * k + 4)


def hyperbolic_sine(k: int) -> Any:  # (sinh(x) - x) / x^3 in x^2
    return 1 / mp.factorial(2 * k + 3)


def exponential(k: int) -> Any:  # (exp(r) - 1 - r) / r^2 in r
    return 1 / mp.factorial(k + 2)


def arc_sine(k: int) -> Any:  # (asin(x) - x) / x^3 in x^2
    n = k + 1
    return mp.binomial(2 * n, n) / (mpf(4) ** n * (2 * n + 1))


def arc_tangent(k: int) -> Any:  # (atan(x) - x) / x^3 in x^2
    return mpf((-1) ** (k + 1)) / (2 * k + 3)


def hyperbolic_tangent(z: Any) -> Any:  # (tanh(x) - x) / x^3 in z = x^2
    if z == 0:
        return mpf(-1) / 3
    x = mp.sqrt(z)
    return (mp.tanh(x) - x) / x**3


def error_function(z: Any) -> Any:  # erf(x) / x - 1 in z = x^2
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1 if z else 2 / mp.sqrt(mp.pi) - 1


def scaled_complement(y: Any) -> Any:  # (1 + 2 x) exp(x^2) erfc(x) in y = (x - 4) / (x + 4)
    if y == 1:
        return 2 / mp.sqrt(mp.pi)
    x = 4 * (1 + y) / (1 - y)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def log_complement(x: Any) -> Any:  # log2(erfc(x)) / x
    return mp.log(mp.erfc(x), 2) / x


def normal_tail(t: Any) -> Any:  # 1 - Phi(t)
    return mp.erfc(t / mp.sqrt(2)) / 2


def log_normal_tail(t: Any) -> Any:  # (log2(1 - Phi(t)) + 1) / t
    return (mp.log(normal_tail(t), 2) + 1) / t


def power_of_two(f: Any) -> Any:  # (2^f - 1) / f
    return mp.expm1(f * mp.log(2)) / f if f else mp.log(2)


HALF_LN2 = "0.3467"
LOG_RANGE = "0.0296"  # ((sqrt(2) - 1) / (sqrt(2) + 1))^2
QUARTER_TURN = "0.6170"  # (pi / 4)^2
# name, function, interval, degree in float32 and float64 (None: not needed), meaning
TABLE: tuple[tuple[str, Function, str, str, int | None, int | None, str], ...] = (
    ("EXP", series(exponential, 0, 40), "-" + HALF_LN2, HALF_LN2, 4, 10,
     "(exp(r) - 1 - r) / r^2 in r, |r| <= log(2)/2"),
    ("EXP2", power_of_two, "-0.5", "0.5", 5, 11, "(2^f - 1) / f in f, |f| <= 1/2"),
    ("LOG", series(atanh_series, 0, 60), "0", LOG_RANGE, 3, 7,
     "(log((1+s)/(1-s)) - 2 s) / s^3 in s^2"),
    ("SIN", series(sine, 0, 30), "0", QUARTER_TURN, 3, 6,
     "(sin(r) - r) / r^3 in r^2, |r| <= pi/4"),
    ("COS", series(cosine, 0, 30), "0", QUARTER_TURN, 3, 6,
     "(cos(r) - 1 + r^2/2) / r^4 in r^2, |r| <= pi/4"),
    ("SINH", series(hyperbolic_sine, 0, 30), "0", "1", None, 7,
     "(sinh(x) - x) / x^3 in x^2, |x| <= 1"),
    ("TANH", hyperbolic_tangent, "0", "0.3025", 5, 11,
     "(tanh(x) - x) / x^3 in x^2, |x| <= 0.55"),
    ("ASIN", series(arc_sine, 0, 400), "0", "0.25", None, 13,
     "(asin(x) - x) / x^3 in x^2, |x| <= 1/2"),
    ("ATAN", series(arc_tangent, 0, 400), "0", "0.25", None, 14,
     "(atan(x) - x) / x^3 in x^2, |x| <= 1/2"),
    ("ERF", error_function, "0", "1", 6, 13,
     "erf(x) / x - 1 in x^2, |x| <= 1"),
    ("ERFC_LOG", log_complement, "1", "4.0", 7, None,
     "log2(erfc(x)) / x in x, 1 <= x <= 4"),
    ("CBRT", lambda m: 1 / mp.cbrt(m), "0.707", "1.4143", None, 4,
     "first guess of m^(-1/3)"),
    ("ERFCX", scaled_complement, "-1", "0.7501", None, 24,
     "(1 + 2 x) exp(x^2) erfc(x) in (x - 4) / (x + 4), 0 <= x <= 28"),
)  # fmt: skip


def print_row(name: str, coefficients: list[Any], dtype: Any, meaning: str) -> None:
    print(f"# {meaning}")
    print(f"{name} = (")
    for c in coefficients:
        # Shortest text that reads back as the same double; float32 values are doubles too.
        print(f"    {float(dtype(float(c))) if dtype is np.float32 else float(c)!r},")
    print(")")


HEAD = '''"""Coefficients of the vector maths, lowest power first; made by `fit.py`, not by hand."""

from __future__ import annotations
'''


def main() -> None:
    mp.dps = 60
    print(HEAD)
    for name, function, low, high, degree32, degree64, meaning in TABLE:
        for suffix, degree, dtype in (("32", degree32, np.float32), ("64", degree64, float)):
            if degree is not None:
                coefficients = interpolate(function, low, high, degree)
                print_row(f"{name}_{suffix}", coefficients, dtype, meaning)
    tail = weighed(log_normal_tail, lambda t: t * normal_tail(t), 0, "5.5", 7)
    meaning = "(log2(1 - Phi(t)) + 1) / t in t, 0 <= t <= 5.5; errors times 1 - Phi(t) are even"
    print_row("NORMAL_TAIL_LOG_32", tail, np.float32, meaning)
    print_constants()


def words_of_two_over_pi(n_words: int) -> list[int]:
    """2/pi in binary, 40 zero bits first, as 64-bit words."""
    with mp.workdps(600):
        bits = int(mp.floor(2 / mp.pi * mpf(2) ** (64 * n_words - 40)))
    return [(bits >> (64 * (n_words - 1 - i))) & (2**64 - 1) for i in range(n_words)]


def parts(value: Any, n_parts: int, dtype: Any) -> list[float]:
    """`value` as an unevaluated sum of floats."""
    result = []
    for _ in range(n_parts):
        result.append(float(dtype(float(value))))
        value -= mpf(result[-1])
    return result


def print_constants() -> None:
    print("# Constants as unevaluated sums, the largest part first.")
    for suffix, dtype in (("32", np.float32), ("64", np.float64)):
        for name, value, n_parts in (
            ("LN2", mp.log(2), 2), ("LOG2_E", 1 / mp.log(2), 2), ("LOG10_E", 1 / mp.log(10), 2),
            ("LOG10_2", mp.log(2) / mp.log(10), 2), ("HALF_PI", mp.pi / 2, 3),
            ("CBRT_2", mp.cbrt(2), 2), ("TWO_OVER_PI", 2 / mp.pi, 1), ("TWO_THIRDS", mpf(2) / 3, 2),
        ):  # fmt: skip
            print(f"{name}_{suffix} = {tuple(parts(value, n_parts, dtype))}")
    print("# 2/pi in binary after 40 zero bits, in words of 64 bits.")
    print("TWO_OVER_PI_BITS = (")
    for word in words_of_two_over_pi(20):
        print(f"    0x{word:016X},")
    print(")")


if __name__ == "__main__":
    sys.exit(main())
