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

from bedplate.dtypes import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    int32,
    uint32,
    uint64,
)
from bedplate.errors import DTypeError
from bedplate.graph.node import Attributes, Shape
from bedplate.later import deferred
from bedplate.ops.build import Value, as_type
from bedplate.ops.pointwise.arithmetic import add, multiply
from bedplate.ops.pointwise.bits import bitwise_right_shift
from bedplate.ops.pointwise.comparison import equal
from bedplate.ops.pointwise.convert import where
from bedplate.ops.record import Cost, NoGradient, Op, Sample, apply, register
from bedplate.ops.refusal import refuse_inputs
from bedplate.ops.samples import mixed
from bedplate.ops.shape.regions import concat, narrow
from bedplate.ops.shape.views import reshape

ROUNDS = 10
# multipliers and key increments of Philox 4x32: table 2 and section 5.1 of the paper
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
INCREMENTS = (0x9E3779B9, 0xBB67AE85)
WORD = 0xFFFFFFFF
BLOCKS = 16  # that stand side by side: a register of 32-bit words with AVX-512
PART_BIT = 31  # of the counter's second word: no array has so many blocks
# bits of a word that make a float below 1 without rounding up to it
PRECISION = {float32: 24, float16: 11, bfloat16: 8}


def results_of(pair: bool) -> int:
    """Results of one block."""
    return 2 if pair else 4


def philox(counter: list[Any], key: list[Any]) -> list[Any]:
    """The four words of each block, in NumPy's uint64: four words of a counter, two of a key."""
    x0, x1, x2, x3, k0, k1 = (a.astype(np.uint64) for a in np.broadcast_arrays(*counter, *key))
    mask, shift = np.uint64(WORD), np.uint64(32)
    for _ in range(ROUNDS):
        p0, p1 = x0 * np.uint64(MULTIPLIERS[0]), x2 * np.uint64(MULTIPLIERS[1])
        x0, x1, x2, x3 = (p1 >> shift) ^ x1 ^ k0, p1 & mask, (p0 >> shift) ^ x3 ^ k1, p0 & mask
        k0 = (k0 + np.uint64(INCREMENTS[0])) & mask
        k1 = (k1 + np.uint64(INCREMENTS[1])) & mask
    return [x0, x1, x2, x3]


def _bits_infer(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    (state,) = inputs
    if state.shape != (4,) or state.dtype is not uint32:
        refuse_inputs(DTypeError, "random_bits", "a state is (4,) uint32", inputs)
    return (attributes["count"],), uint64 if attributes["pair"] else uint32


def _bits_reference(state: Any, *, count: int, pair: bool, part: int) -> Any:
    """Groups of 16 blocks: word 0 of all, word 1 of all, ...; or pairs of words."""
    group = BLOCKS * results_of(pair)
    block = np.arange(-(-count // group) * BLOCKS, dtype=np.uint64)
    high = (block >> np.uint64(32)) | np.uint64(part << PART_BIT)
    state = state.astype(np.uint64)
    words = philox([block & np.uint64(WORD), high, *state[2:]], list(state[:2]))
    if pair:
        words = [low | top << np.uint64(32) for low, top in (words[:2], words[2:])]
    rows = np.stack([word.reshape(-1, BLOCKS) for word in words], axis=1)
    return rows.reshape(-1)[:count].astype(np.uint64 if pair else np.uint32)


def _bits_sample(count: int, pair: bool, part: int) -> Sample:
    return mixed(
        lambda r: [r.integers(0, WORD + 1, (4,), dtype=np.uint32)],
        f"{count} {pair} {part}",
        count=count,
        pair=pair,
        part=part,
    )


RANDOM_BITS = register(
    Op(
        "random_bits",
        "kernel",
        _bits_infer,
        reference=_bits_reference,
        gradient=NoGradient("its values are random bits"),
        cost=Cost(
            "20 products of words for 4 of them; the results once",
            lambda inputs, output, attributes: (
                2.0 * ROUNDS * output.shape[0] / results_of(attributes["pair"])
            ),
        ),
        lower=deferred("bedplate.ops.random.kernel", "lower"),
        epilogue=True,
        dtypes=(uint32,),
        samples=tuple(
            _bits_sample(count, pair, part)
            for count, pair, part in (
                (1, False, 0),
                (64, False, 0),
                (100, False, 1),
                (20000, False, 0),
                (32, True, 1),
                (45, True, 0),
            )
        ),
        doc="Random bits of a state, each with its place: all words of Philox 4x32-10, single "
        "or as a `pair` in 64 bits; another `part` of the same draw has other bits.",
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


def drawn(state: Value, shape: Shape, pair: bool, part: int = 0) -> Value:
    """The random bits of each place of a shape: uint32, or uint64 for a pair of words.

    part   0 or 1: bits of the same draw that are independent of the other part's
    """
    attributes = {"count": math.prod(shape), "pair": pair, "part": part}
    return reshape(apply(RANDOM_BITS, (state,), attributes), shape)


def words(state: Value, shape: Shape, count: int) -> tuple[Value, ...]:
    """`count` (1 or 2) independent uint32 values of a shape, from one draw."""
    if count == 1:
        return (drawn(state, shape, pair=False),)
    both = drawn(state, shape, pair=True)
    return as_type(both, uint32), as_type(bitwise_right_shift(both, 32), uint32)


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
