"""Measure the vector maths: units in the last place against mpmath, and time.

    python -m bedplate.kernel.maths.sweep [--samples 2000] [--only exp,log] [--exhaustive]

prints a table op x dtype x greatest error x nanoseconds an element. Samples are stratified: all
binades, the interval where the work is, and neighbours of the points where the method changes.
`--exhaustive` takes every float32 there is (some seconds an op) and compares with the float64
function of the same name, whose own error is far below a float32 unit. Needs mpmath.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpmath import mp as _mp
from mpmath import mpf

from bedplate.kernel import (
    Kernel,
    Type,
    bitcast,
    cast,
    constant,
    f32,
    f64,
    host,
    i64,
    iota,
    kernel,
    load,
    loop,
    maths,
    ptr,
    reduce_max,
    select,
    store,
    u32,
    u64,
    var,
    zeros,
)

mp: Any = _mp  # mpmath adds its functions at run time, which type checkers cannot see
Array = Any
Generator = np.random.Generator
NUMPY: dict[Type, Any] = {f32: np.float32, f64: np.float64}
INFINITY = float("inf")


@dataclass(frozen=True)
class Subject:
    """What to try: the exact function and the arguments.

    uniform   intervals sampled evenly; `scaled` ones are given for float32 and float64
    near      points whose neighbours are tried
    domain    arguments outside are dropped
    """

    exact: Callable[..., Any]
    uniform: tuple[tuple[float, float], ...] = ((-2.0, 2.0),)
    scaled: tuple[tuple[float, float], tuple[float, float]] | None = None
    near: tuple[float, ...] = (1.0,)
    domain: tuple[float, float] = (-INFINITY, INFINITY)


def _cbrt(x: Any) -> Any:
    return mp.sign(x) * mp.cbrt(abs(x))


POSITIVE = (0.0, INFINITY)
# Where the result is 0, 1 or infinite beyond; mpmath cannot be asked for exp(1e300).
TAME = (-3000.0, 3000.0)
QUARTERS = tuple(k * np.pi / 4 for k in range(1, 9))
SUBJECTS: dict[str, Subject] = {
    "exp": Subject(mp.exp, scaled=((-105.0, 89.0), (-746.0, 710.0)), domain=TAME),
    "exp2": Subject(
        lambda x: mpf(2) ** x, scaled=((-150.0, 128.0), (-1075.0, 1024.0)), domain=TAME
    ),
    "exp2_flushed": Subject(
        lambda x: mpf(2) ** x, ((-1.0, 0.0),), ((-125.5, 0.0), (-1021.5, 0.0)), domain=(-125.5, 0.0)
    ),
    "expm1": Subject(
        mp.expm1, ((-2.0, 2.0), (0.3, 0.5)), ((-20.0, 89.0), (-40.0, 710.0)), domain=TAME
    ),
    "log": Subject(mp.log, ((0.5, 2.0),), near=(1.0, 0.70710678, 1.41421356), domain=POSITIVE),
    "log2": Subject(
        lambda x: mp.log(x) / mp.log(2), ((0.5, 2.0),), near=(1.0, 0.70710678, 1.41421356),
        domain=POSITIVE,
    ),
    "log10": Subject(
        lambda x: mp.log(x) / mp.log(10), ((0.5, 2.0),), near=(1.0, 0.70710678, 1.41421356),
        domain=POSITIVE,
    ),
    "log1p": Subject(mp.log1p, ((-1.0, 1.0), (0.0, 5.0)), domain=(-1.0, INFINITY)),
    "sin": Subject(mp.sin, ((-4.0, 4.0), (-1e5, 1e5)), near=QUARTERS),
    "cos": Subject(mp.cos, ((-4.0, 4.0), (-1e5, 1e5)), near=QUARTERS),
    "tan": Subject(mp.tan, ((-4.0, 4.0), (-1e5, 1e5)), near=QUARTERS),
    "tanh": Subject(mp.tanh, ((-1.0, 1.0), (-10.0, 10.0)), near=(0.55,), domain=TAME),
    "sigmoid": Subject(
        lambda x: 1 / (1 + mp.exp(-x)), ((-2.0, 2.0), (-20.0, 20.0)),
        ((-104.0, 20.0), (-745.0, 40.0)), domain=TAME,
    ),
    "erf": Subject(mp.erf, ((-1.1, 1.1), (-6.0, 6.0)), domain=TAME),
    "erfc": Subject(
        mp.erfc, ((-1.1, 1.1), (-6.0, 27.0)), ((0.0, 10.0), (0.0, 27.0)), (0.5, 1.0), domain=TAME,
    ),
    "pow": Subject(mp.power),
    "sqrt": Subject(mp.sqrt, ((0.25, 4.0),), domain=POSITIVE),
    "rsqrt": Subject(lambda x: 1 / mp.sqrt(x), ((0.25, 4.0),), domain=POSITIVE),
    "cbrt": Subject(_cbrt, ((-8.0, 8.0),)),
    "sinh": Subject(mp.sinh, scaled=((-90.0, 90.0), (-711.0, 711.0)), domain=TAME),
    "cosh": Subject(mp.cosh, scaled=((-90.0, 90.0), (-711.0, 711.0)), domain=TAME),
    "asin": Subject(mp.asin, ((-1.0, 1.0),), near=(0.5,), domain=(-1.0, 1.0)),
    "acos": Subject(mp.acos, ((-1.0, 1.0),), near=(0.5,), domain=(-1.0, 1.0)),
    "atan": Subject(mp.atan, ((-3.0, 3.0),), near=(0.5, 1.0, 2.0)),
    "atan2": Subject(mp.atan2),
    "asinh": Subject(mp.asinh),
    "acosh": Subject(mp.acosh, ((1.0, 2.0), (1.0, 100.0)), domain=(1.0, INFINITY)),
    "atanh": Subject(mp.atanh, ((-1.0, 1.0),), near=(0.5,), domain=(-1.0, 1.0)),
}  # fmt: skip
TWO_ARGUMENTS = ("pow", "atan2")


def binades(count: int, dtype: Any, generator: Generator) -> Array:
    """Random bits: every exponent, both signs, the denormals; finite."""
    width = np.dtype(dtype).itemsize
    values = np.frombuffer(generator.bytes(count * width), dtype)
    return values[np.isfinite(values)]


def neighbours(count: int, points: tuple[float, ...], dtype: Any, generator: Generator) -> Array:
    """Numbers within 200 units in the last place of the points."""
    centres = np.resize(np.asarray(points, dtype), count)
    integer = np.dtype(f"i{centres.itemsize}")
    moves = generator.integers(-200, 201, count).astype(integer)
    return (centres.view(integer) + moves).view(dtype)


def arguments(name: str, type_: Type, count: int, seed: int = 0) -> list[Array]:
    """Some `count` arguments of each kind for a function, as one array per parameter."""
    generator = np.random.default_rng(seed)
    dtype = NUMPY[type_]
    if name in TWO_ARGUMENTS:
        return _two_arguments(name, dtype, count, generator)
    subject = SUBJECTS[name]
    intervals = list(subject.uniform)
    if subject.scaled is not None:
        intervals.append(subject.scaled[0 if type_ is f32 else 1])
    parts = [generator.uniform(low, high, count).astype(dtype) for low, high in intervals]
    parts.append(neighbours(count // 2, subject.near, dtype, generator))
    parts.append(np.exp(generator.uniform(-60.0, 0.0, count // 2)).astype(dtype))
    parts.append(binades(count, dtype, generator))
    x = np.concatenate(parts)
    low, high = subject.domain
    return [x[(x > low) & (x < high)]]


def _two_arguments(name: str, dtype: Any, count: int, generator: Generator) -> list[Array]:
    x = binades(count, dtype, generator)
    y = binades(count, dtype, generator)
    size = min(x.size, y.size)
    x = np.concatenate([x[:size], generator.uniform(-2.0, 2.0, count).astype(dtype)])
    if name == "atan2":
        return [x, np.concatenate([y[:size], generator.uniform(-2.0, 2.0, count).astype(dtype)])]
    x = abs(x)
    # Exponents that bring the result anywhere between the smallest and the largest number.
    limit = 88.0 if dtype is np.float32 else 709.0
    scale = limit / (abs(np.log(x.astype(np.float64))) + 1e-30)
    y = generator.uniform(-1.05, 1.05, x.size) * np.minimum(scale, 1e30)
    return [x, y.astype(dtype)]


@functools.cache
def array_kernel(name: str, type_: Type, lanes: int | None) -> Kernel:
    """A kernel that applies a function to arrays, `lanes` at a time (None: scalars)."""
    function = getattr(maths, name)
    step = lanes or 1

    @kernel
    def unary(x: ptr(type_), out: ptr(type_), count: i64, repeats: i64):
        for _ in loop(repeats):
            for i in loop(0, count, step):
                store(out + i, function(load(x + i, lanes)))

    @kernel
    def binary(x: ptr(type_), y: ptr(type_), out: ptr(type_), count: i64, repeats: i64):
        for _ in loop(repeats):
            for i in loop(0, count, step):
                store(out + i, function(load(x + i, lanes), load(y + i, lanes)))

    return binary if name in TWO_ARGUMENTS else unary


def compute(name: str, type_: Type, inputs: list[Array], lanes: int | None = 0) -> Array:
    """The function of arrays, on this machine; lanes 0: as wide as the machine."""
    lanes = host().lanes(type_) if lanes == 0 else lanes
    count = -(-inputs[0].size // (lanes or 1)) * (lanes or 1)
    padded = [np.resize(x, count) if x.size else np.ones(count, x.dtype) for x in inputs]
    out = np.empty(count, NUMPY[type_])
    array_kernel(name, type_, lanes)(*padded, out, count, 1)
    return out[: inputs[0].size]


def units(value: float, exact: Any, dtype: Any) -> float:
    """|value - exact| in units in the last place of the exact value; infinity for a wrong kind."""
    information = np.finfo(dtype)
    if not np.isfinite(value):
        beyond = abs(exact) >= mpf(float(information.max))
        return 0.0 if np.isinf(value) and beyond and (value > 0) == (exact > 0) else INFINITY
    if exact == 0:
        return 0.0 if value == 0 else INFINITY
    exponent = max(int(mp.frexp(exact)[1]) - 1, int(information.minexp))
    return float(abs(mpf(float(value)) - exact) / mpf(2) ** (exponent - int(information.nmant)))


def errors(name: str, inputs: list[Array], results: Array) -> Iterator[float]:
    """The error of every result in units in the last place."""
    exact = SUBJECTS[name].exact
    for *point, value in zip(*inputs, results, strict=True):
        numbers = [mpf(float(number)) for number in point]
        size = max(abs(int(mp.frexp(number)[1])) for number in numbers)
        # Digits enough for the cancellation in huge angles and beside 1.
        with mp.workprec(160 + (2 * size if name in NEED_DIGITS else 0)):
            yield units(value, exact(*numbers), results.dtype)


NEED_DIGITS = ("sin", "cos", "tan", "asinh", "acosh", "atanh", "expm1", "log1p")


def largest_error(name: str, type_: Type, count: int, seed: int = 0) -> tuple[float, list[float]]:
    """The greatest error over the samples, and the arguments where it stands."""
    inputs = arguments(name, type_, count, seed)
    found = list(errors(name, inputs, compute(name, type_, inputs)))
    worst = int(np.argmax(found))
    return found[worst], [float(x[worst]) for x in inputs]


def nanoseconds(name: str, type_: Type) -> float:
    """Time an element: 4096 ordinary arguments in the first cache, the best of 7 runs."""
    lanes = host().lanes(type_)
    count, repeats = 4096, 20
    low, high = (1.1, 4.0) if name == "acosh" else (0.05, 0.95)
    x = np.linspace(low, high, count).astype(NUMPY[type_])
    inputs = [x, x] if name in TWO_ARGUMENTS else [x]
    compiled = array_kernel(name, type_, lanes).compile()
    out = np.empty_like(x)
    best = INFINITY
    for _ in range(7):
        start = time.perf_counter()
        compiled(*inputs, out, count, repeats)
        best = min(best, time.perf_counter() - start)
    return best / (count * repeats) * 1e9


@functools.cache
def exhaustive_kernel(name: str) -> Kernel:
    """The greatest float32 error over bit patterns begin to end against the float64 function."""
    function = getattr(maths, name)
    lanes = host().lanes(f32)

    @kernel
    def sweep_all(begin: i64, end: i64, worst: ptr(f64)):
        largest = var(zeros(f64, lanes))
        for i in loop(begin, end, lanes):
            x = bitcast(iota(u32, lanes) + cast(i, u32), f32)
            wide = function(cast(x, f64))
            error = _error_in_units(cast(function(x), f64), wide)
            largest.set(select(error > largest.get(), error, largest.get()))
        store(worst, reduce_max(largest.get()))

    return sweep_all


def _error_in_units(value: Any, wide: Any) -> Any:
    """The error in float32 units; infinite where one is NaN or infinite and the other is not."""
    exponent = (bitcast(wide, u64) >> 52) & 0x7FF
    smallest = constant(exponent.type, 1023 - 126)
    exponent = select(exponent < smallest, smallest, exponent)
    unit = bitcast((exponent - 23) << 52, f64)
    beyond = (abs(wide) >= 2.0**128 * (1.0 - 2.0**-25)) & (value * wide == INFINITY)
    both_nan = (value != value) & (wide != wide)
    error = select(beyond | both_nan, constant(value.type, 0.0), abs(value - wide) / unit)
    return select(error == error, error, INFINITY)


def exhaustive_error(name: str, stride: int = 1) -> float:
    """The greatest error of a one-argument float32 function over all 2^32 arguments.

    stride  take one block of 2^20 arguments in so many
    """
    worst = np.zeros(1)
    largest = 0.0
    for block in range(0, 2**12, stride):
        exhaustive_kernel(name)(block << 20, (block + 1) << 20, worst)
        largest = max(largest, float(worst[0]))
    return largest


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2000, help="arguments of each kind")
    parser.add_argument("--only", default=",".join(sorted(maths.__all__)), help="ops, by comma")
    parser.add_argument("--exhaustive", action="store_true", help="every float32 argument")
    options = parser.parse_args(argv)
    print("| op | dtype | max ulp | at | ns an element |")
    print("|---|---|---|---|---|")
    for name in options.only.split(","):
        for type_ in (f32, f64):
            if options.exhaustive and type_ is f32 and name not in TWO_ARGUMENTS:
                error, where = exhaustive_error(name), "all float32"
            else:
                error, point = largest_error(name, type_, options.samples)
                where = ", ".join(f"{number:.9g}" for number in point)
            speed = nanoseconds(name, type_)
            print(f"| {name} | {type_} | {error:.2f} | {where} | {speed:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
