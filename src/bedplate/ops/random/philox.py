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
from bedplate.kernel.types import with_element
from bedplate.ops.build import Value, as_type, broadcast_shapes
from bedplate.ops.pointwise.arithmetic import add, multiply
from bedplate.ops.pointwise.bits import bitwise_and, bitwise_right_shift
from bedplate.ops.pointwise.comparison import equal
from bedplate.ops.pointwise.convert import where
from bedplate.ops.record import NoGradient, Op, Sample, apply, register
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.samples import mixed
from bedplate.ops.shape.creation import full, index_along
from bedplate.ops.shape.regions import concat, narrow
from bedplate.ops.shape.views import reshape

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
    return broadcast_shapes("philox", inputs), uint64 if attributes["pair"] else uint32


def _philox_reference(*words: Any, word: int, pair: bool) -> Any:
    x0, x1, x2, x3, k0, k1 = (a.astype(np.uint64) for a in np.broadcast_arrays(*words))
    mask, shift = np.uint64(WORD), np.uint64(32)
    for _ in range(ROUNDS):
        p0, p1 = x0 * np.uint64(MULTIPLIERS[0]), x2 * np.uint64(MULTIPLIERS[1])
        x0, x1, x2, x3 = (p1 >> shift) ^ x1 ^ k0, p1 & mask, (p0 >> shift) ^ x3 ^ k1, p0 & mask
        k0 = (k0 + np.uint64(INCREMENTS[0])) & mask
        k1 = (k1 + np.uint64(INCREMENTS[1])) & mask
    result = (x0, x1, x2, x3)
    if pair:
        return np.asarray(result[word] | result[word + 1] << shift)
    return np.asarray(result[word]).astype(np.uint32)


def _philox_emit(dtype: Any, values: Any, attributes: Attributes) -> Any:
    """The words in 64 bits each, so that one product gives both halves; what stands above bit 31
    of a word is never read.

    The rounds stay a loop: unrolled they are 120 instructions wherever a number is drawn.
    """
    wide = with_element(values[0].type, language.u64)
    cells = [language.var(language.cast(value, wide)) for value in values]
    for _ in language.loop(ROUNDS):
        x0, x1, x2, x3, k0, k1 = (cell.get() for cell in cells)
        product0, product1 = (x0 & WORD) * MULTIPLIERS[0], (x2 & WORD) * MULTIPLIERS[1]
        after = ((product1 >> 32) ^ x1 ^ k0, product1, (product0 >> 32) ^ x3 ^ k1, product0)
        for cell, value in zip(
            cells, (*after, k0 + INCREMENTS[0], k1 + INCREMENTS[1]), strict=True
        ):
            cell.set(value)
    word = attributes["word"]
    if not attributes["pair"]:
        return language.cast(cells[word].get(), dtype)
    low, high = (cell.get() for cell in cells[word : word + 2])
    return (low & WORD) | (high << 32)


def _philox_sample(word: int, pair: bool) -> Sample:
    return mixed(
        lambda r: [r.integers(0, WORD + 1, (3, 7), dtype=np.uint32) for _ in range(6)],
        f"word {word} {pair}",
        word=word,
        pair=pair,
    )


PHILOX = register(
    Op(
        "philox",
        "elementwise",
        _philox_infer,
        reference=_philox_reference,
        gradient=NoGradient("its values are random bits"),
        emit=_philox_emit,
        dtypes=(uint32,),
        samples=(
            *(_philox_sample(word, False) for word in range(4)),
            *(_philox_sample(word, True) for word in (0, 2)),
        ),
        doc="Word `word` of Philox 4x32-10 for a counter of four words and a key of two; as a "
        "`pair` with the next word above it, in 64 bits.",
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


def drawn(state: Value, shape: Shape, word: int, pair: bool) -> Value:
    """The random bits of each place of a shape: uint32, or uint64 for a pair of words."""
    size = math.prod(shape)
    key_low, key_high, draw_low, draw_high = (narrow(state, 0, i, 1) for i in range(4))
    if size <= WORD:
        low, high = index_along(state, 0, (size,), uint32), full(state, (1,), 0, uint32)
    else:
        index = index_along(state, 0, (size,), int64)
        low = as_type(bitwise_and(index, WORD), uint32)
        high = as_type(bitwise_right_shift(index, 32), uint32)
    inputs = (low, high, draw_low, draw_high, key_low, key_high)
    return reshape(apply(PHILOX, inputs, {"word": word, "pair": pair}), shape)


def words(state: Value, shape: Shape, count: int) -> tuple[Value, ...]:
    """`count` (1, 2 or 4) independent uint32 values of a shape, from one draw."""
    if count == 1:
        return (drawn(state, shape, 0, pair=False),)
    pairs = [drawn(state, shape, word, pair=True) for word in range(0, count, 2)]
    halves = [
        (as_type(both, uint32), as_type(bitwise_right_shift(both, 32), uint32)) for both in pairs
    ]
    return tuple(word for pair in halves for word in pair)


def unit(bits: tuple[Value, ...], dtype: DType) -> Value:
    """Uniform numbers in [0, 1) from words: their top bits, so that 1 is never reached.

    bits     one word, or two for float64
    """
    if dtype is float64:
        high = as_type(bitwise_right_shift(bits[0], 5), float64)
        low = as_type(bitwise_right_shift(bits[1], 6), float64)
        return multiply(add(multiply(high, 2.0**26), low), 2.0**-53)
    precision = PRECISION[dtype]
    top = as_type(bitwise_right_shift(bits[0], 32 - precision), int32)
    return multiply(as_type(top, dtype), 2.0**-precision)
