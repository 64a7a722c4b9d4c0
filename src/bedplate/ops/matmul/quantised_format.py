"""How quantised weights lie in memory, and how a matrix becomes that: whole numbers with scales.

    w[n, k] = scale[n, k // 32] * q[n, k],      q from -128 to 127, or from -8 to 7

    packed   (blocks, words, 64, 4)  uint8: 4 bytes, the lowest first, are a word of one output
    scales   (blocks, groups, 64)    uint16: the upper half of a float32 (a bfloat16)

A block is 64 outputs, a group 32 values of k; what is missing to whole ones is zeros. A word holds
32 / bits values q + 2**(bits - 1) of one output in the order of k, the first in the lowest bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

BITS = (8, 4)
BLOCK = 64  # outputs: 256 bytes of words side by side, so that a block is one stream of memory
GROUP = 32  # values along k that share a scale, as in GGML's q8_0 and q4_0
TINIEST = np.float32(2.0**-126)


def packed_shapes(columns: int, depth: int, bits: int) -> tuple[Shape, Shape]:
    """The shapes of packed weights and of their scales, for `columns` outputs."""
    blocks, groups = -(-columns // BLOCK), -(-depth // GROUP)
    return (blocks, groups * bits, BLOCK, 4), (blocks, groups, BLOCK)


def places_of_bytes(bits: int) -> list[int]:
    """Which k of a group meets which byte, when words are taken apart.

    A word of 8 bits is 4 bytes; one of 4 bits becomes its lower halves of bytes, then its upper.
    """
    each = 32 // bits
    firsts = range(0, GROUP, each)
    return [
        first + k
        for first in firsts
        for half in range(8 // bits)
        for k in range(half, each, 8 // bits)
    ]


def quantised(weight: Array, bits: int) -> tuple[Array, Array]:
    """Round a matrix to whole numbers of 8 or 4 bits, with a scale for every 32 along its rows.

    The scale is such that the number furthest from 0 becomes 127 (8 bits) or -8 (4 bits).

    weight   (N, K) finite floats
    returns  (packed, scales), see the head of this file
    """
    n_rows, depth = weight.shape
    shapes = packed_shapes(n_rows, depth, bits)
    packed, scales = np.zeros(shapes[0], np.uint8), np.zeros(shapes[1], np.uint16)
    blocks, groups, _ = scales.shape
    for block in range(blocks):  # one at a time: it stays in the second cache
        rows = np.zeros((BLOCK, groups * GROUP), np.float32)
        given = weight[block * BLOCK : (block + 1) * BLOCK]
        rows[: len(given), :depth] = given
        grouped = rows.reshape(BLOCK, groups, GROUP)
        scale = _rounded_scales(grouped, bits)  # (64, groups)
        scales[block] = (scale.view(np.uint32) >> 16).astype(np.uint16).T
        step = np.where(np.abs(scale) < TINIEST, TINIEST, scale)[:, :, None]
        half = 2 ** (bits - 1)
        values = np.clip(np.rint(grouped / step), -half, half - 1) + half
        values = values.astype(np.uint8).reshape(BLOCK, -1, 8 // bits)
        shifts = np.arange(8 // bits, dtype=np.uint8) * bits
        joined = np.bitwise_or.reduce(values << shifts, axis=2)  # (64, bytes of a row)
        packed[block] = joined.reshape(BLOCK, groups * bits, 4).transpose(1, 0, 2)
    return packed, scales


def _rounded_scales(grouped: Array, bits: int) -> Array:
    """(64, groups, 32) -> (64, groups) float32 of 8 significant bits, rounded to nearest."""
    if bits == 8:
        scale = np.abs(grouped).max(axis=2) / np.float32(127)
    else:
        low, high = grouped.min(axis=2), grouped.max(axis=2)
        scale = np.where(-low >= high, low, high) / np.float32(-8)
    raw = scale.astype(np.float32).view(np.uint32)
    return ((raw + 0x7FFF + (raw >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def unpacked(packed: Array, scales: Array, columns: int, depth: int) -> Array:
    """The weights (N, K) in float32."""
    blocks, words, _, _ = packed.shape
    groups = scales.shape[1]
    bits = words // max(groups, 1) or BITS[0]
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    values = (packed[..., None] >> shifts) & (2**bits - 1)  # (blocks, words, 64, 4, 8 / bits)
    q = values.transpose(0, 2, 1, 3, 4).reshape(blocks, BLOCK, groups, GROUP)
    scale = (scales.astype(np.uint32) << 16).view(np.float32).transpose(0, 2, 1)
    w = (q.astype(np.float32) - 2 ** (bits - 1)) * scale[..., None]
    return w.reshape(blocks * BLOCK, groups * GROUP)[:columns, :depth]
