"""Random numbers from a counter: Philox 4x32-10, so that a value depends on the seed, on how
many draws came before, and on its place, and on nothing else.

A state is a uint32 value of shape (4,): the key (seed) and the number of draws, low words first.
Each draw uses the state as it is; `advanced` gives that of the next.

source  Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate import kernel as language
from bedplate.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint32,
    uint64,
)
from bedplate.errors import DTypeError
from bedplate.graph.node import Attributes, Shape
from bedplate.ops.arithmetic import add, multiply, remainder, subtract
from bedplate.ops.bits import bitwise_and, bitwise_or, left_shift, right_shift
from bedplate.ops.build import Value, as_type, broadcast_shapes, number
from bedplate.ops.comparison import equal, greater_equal, less
from bedplate.ops.convert import where
from bedplate.ops.creation import full, index_along
from bedplate.ops.exponential import log, sqrt
from bedplate.ops.record import NoGradient, Op, apply, register
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.regions import concat, narrow
from bedplate.ops.samples import mixed
from bedplate.ops.trigonometry import cos
from bedplate.ops.views import reshape

ROUNDS = 10
# multipliers and key increments of Philox 4x32: table 2 and section 5.1 of the paper
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
INCREMENTS = (0x9E3779B9, 0xBB67AE85)
WORD = 0xFFFFFFFF
# bits of a word that make a float below 1 without rounding up to it
PRECISION = {float32: 24, float16: 11, bfloat16: 8}


def _philox_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    if any(value.dtype is not uint32 for value in inputs):
        refuse_inputs(DTypeError, "philox", "all inputs must be uint32", inputs)
    return broadcast_shapes("philox", inputs), uint32


def _philox_reference(*words: Any, word: int) -> Any:
    x0, x1, x2, x3, k0, k1 = (a.astype(np.uint64) for a in np.broadcast_arrays(*words))
    mask, shift = np.uint64(WORD), np.uint64(32)
    for _ in range(ROUNDS):
        p0, p1 = x0 * np.uint64(MULTIPLIERS[0]), x2 * np.uint64(MULTIPLIERS[1])
        x0, x1, x2, x3 = (p1 >> shift) ^ x1 ^ k0, p1 & mask, (p0 >> shift) ^ x3 ^ k1, p0 & mask
        k0 = (k0 + np.uint64(INCREMENTS[0])) & mask
        k1 = (k1 + np.uint64(INCREMENTS[1])) & mask
    return np.asarray((x0, x1, x2, x3)[word]).astype(np.uint32)


def _philox_emit(dtype: Any, values: Any, attributes: Attributes) -> Any:
    x0, x1, x2, x3, k0, k1 = values
    for _ in range(ROUNDS):
        low0, high0 = x0 * MULTIPLIERS[0], language.mul_high(x0, MULTIPLIERS[0])
        low1, high1 = x2 * MULTIPLIERS[1], language.mul_high(x2, MULTIPLIERS[1])
        x0, x1, x2, x3 = high1 ^ x1 ^ k0, low1, high0 ^ x3 ^ k1, low0
        k0, k1 = k0 + INCREMENTS[0], k1 + INCREMENTS[1]
    return (x0, x1, x2, x3)[attributes["word"]]


PHILOX = register(
    Op(
        "philox",
        "elementwise",
        _philox_infer,
        reference=_philox_reference,
        gradient=NoGradient("its values are random bits"),
        emit=_philox_emit,
        dtypes=(uint32,),
        samples=tuple(
            mixed(
                lambda r: [r.integers(0, WORD + 1, (3, 7), dtype=np.uint32) for _ in range(6)],
                f"word {word}",
                word=word,
            )
            for word in range(4)
        ),
        doc="Word `word` of Philox 4x32-10 for a counter of four words and a key of two.",
    )
)


def seed_words(seed: int) -> tuple[int, int, int, int]:
    """The state of a seed, before any draw."""
    return seed & WORD, (seed >> 32) & WORD, 0, 0


def advanced(state: Value) -> Value:
    """The state after one more draw."""
    low, high = add(narrow(state, 0, 2, 1), 1), narrow(state, 0, 3, 1)
    high = where(equal(low, 0), add(high, 1), high)
    return concat([narrow(state, 0, 0, 2), low, high])


def words(state: Value, shape: Shape, count: int) -> tuple[Value, ...]:
    """`count` (at most 4) independent uint32 values of a shape, from one draw."""
    size = math.prod(shape)
    key_low, key_high, draw_low, draw_high = (narrow(state, 0, i, 1) for i in range(4))
    if size <= WORD:
        low, high = index_along(state, 0, (size,), uint32), full(state, (1,), 0, uint32)
    else:
        index = index_along(state, 0, (size,), int64)
        low = as_type(bitwise_and(index, WORD), uint32)
        high = as_type(right_shift(index, 32), uint32)
    inputs = (low, high, draw_low, draw_high, key_low, key_high)
    return tuple(reshape(apply(PHILOX, inputs, {"word": i}), shape) for i in range(count))


def unit(bits: tuple[Value, ...], dtype: DType) -> Value:
    """Uniform numbers in [0, 1) from words: their top bits, so that 1 is never reached.

    bits     one word, or two for float64
    """
    if dtype is float64:
        high = as_type(right_shift(bits[0], 5), float64)
        low = as_type(right_shift(bits[1], 6), float64)
        return multiply(add(multiply(high, 2.0**26), low), 2.0**-53)
    precision = PRECISION[dtype]
    top = as_type(right_shift(bits[0], 32 - precision), int32)
    return multiply(as_type(top, dtype), 2.0**-precision)


def as_random_dtype(op: str, dtype: Any) -> DType:
    """A float dtype in which numbers can be drawn.

    raises   DTypeError for others
    """
    found = as_dtype(dtype)
    if not found.is_float:
        raise DTypeError(f"{op}: numbers can be drawn as floats only, not as {found}")
    return found


def uniform(
    state: Value, shape: Shape, low: float = 0.0, high: float = 1.0, dtype: Any = float32
) -> Value:
    """Uniform numbers in [low, high).

    state    (4,) uint32, see the head of this file
    dtype    a float; float32 has 24 random bits, float64 53, float16 11, bfloat16 8
    """
    dtype = as_random_dtype("uniform", dtype)
    numbers = unit(words(state, shape, 2 if dtype is float64 else 1), dtype)
    if (low, high) == (0.0, 1.0):
        return numbers
    return add(multiply(numbers, high - low), low)


def normal(
    state: Value, shape: Shape, mean: float = 0.0, std: float = 1.0, dtype: Any = float32
) -> Value:
    """Normal numbers, by the transform of Box and Muller.

    state    (4,) uint32, see the head of this file
    dtype    a float; float16 and bfloat16 are drawn in float32 and narrowed; the largest
             float32 is 5.8 standard deviations away, the largest float64 8.6
    """
    target = as_random_dtype("normal", dtype)
    dtype = float64 if target is float64 else float32
    bits = words(state, shape, 4 if dtype is float64 else 2)
    half = len(bits) // 2
    radius = sqrt(multiply(log(subtract(1, unit(bits[:half], dtype))), -2))
    numbers = multiply(radius, cos(multiply(unit(bits[half:], dtype), 2 * math.pi)))
    return as_type(add(multiply(numbers, std), mean), target)


def bernoulli(state: Value, shape: Shape, probability: float) -> Value:
    """True with the given probability."""
    if not 0 <= probability <= 1:
        raise ValueError(f"bernoulli: a probability lies in [0, 1], got {probability}")
    threshold = round(probability * 2**32)
    (word,) = words(state, shape, 1)
    if threshold > WORD:
        return greater_equal(word, 0)
    return less(word, threshold)


def randint(state: Value, shape: Shape, low: int, high: int, dtype: Any = int64) -> Value:
    """Uniform integers in [low, high); the bias is below (high - low) / 2^64."""
    if high <= low:
        raise ValueError(f"randint: no integer in [{low}, {high})")
    first, second = words(state, shape, 2)
    wide = bitwise_or(left_shift(as_type(first, uint64), 32), as_type(second, uint64))
    place = as_type(remainder(wide, number(wide, high - low)), int64)
    return as_type(add(place, low), as_dtype(dtype))


def dropout(state: Value, x: Value, probability: float = 0.5) -> Value:
    """Set elements to 0 with a probability and scale the others, so that the mean stays.

    y = x / (1 - probability) or 0

    source   Srivastava et al. 2014, JMLR 15
    """
    if not 0 <= probability <= 1:
        raise ValueError(f"dropout: a probability lies in [0, 1], got {probability}")
    if probability == 0:
        return x._alias()
    kept = bernoulli(state, x.shape, 1 - probability)
    scale = 1 / (1 - probability) if probability < 1 else 0.0
    return where(kept, multiply(x, scale), number(x, 0))
