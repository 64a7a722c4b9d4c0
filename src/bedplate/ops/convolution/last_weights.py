"""How weights come to lie as vectors of output channels.

    packed[g, block, t, c, o] = w[g, block, o, c, t], with zeros behind the last output channel

Bound by memory: each element is read once and written once.
"""

from __future__ import annotations

import functools
from typing import Any

from bedplate.devices.cpu.workers import n_workers
from bedplate.kernel import (
    Kernel,
    Type,
    Value,
    cast,
    element,
    from_dtype,
    gather,
    host,
    i64,
    iota,
    kernel,
    load,
    loop,
    minimum,
    prefetch,
    ptr,
    select,
    splat,
    store,
    tail_mask,
    when,
    zeros,
)
from bedplate.ops.convolution.reach import Triple
from bedplate.ops.convolution.tile import Reader, Words
from bedplate.ops.matmul.pack import transpose

# Both constants were measured by `python -m benchmarks.convolutions last_weights`, on two cores of
# a Zen 4.
# So many that all workers end at about the same time. With 2, 8, 32, 128 a convolution that is
# mostly packing, 512 of 3 x 3 on 2 x 2, takes 1.03, 1.05, 0.74, 0.67 ms; 64 on 4 x 4 0.032 to
# 0.038.
ITEMS_PER_WORKER = 32
# Behind them, of weights that are gathered: the distance of each tap; of those that are
# transposed: the place of each tap in the order of the sums.
WORDS = Words("source to n_blocks out_channels channels taps stride_group stride_row stride_c part")
# Rows of taps are transposed where there are so many that it beats gathering them: a convolution of
# 512 x 512 x taps on 8 places takes 0.48 ms transposed and 0.32 gathered for 2 taps, 0.30 and 0.30
# for 3, 0.51 and 0.64 for 2 x 2, 0.37 and 0.60 for 5, 0.59 and 1.19 for 9.
LEAST_TAPS = 4
# so much is done in the 100 ns that memory takes to answer: a channel takes about 12
PREFETCH_CHANNELS = 8


def pack_weights(
    builder: Any, weights: Any, taps: list[Triple], accumulate: Type, columns: int, groups: int
) -> Any:
    """Enter the packing of the weights, taps in this order; gives the packed ones."""
    n_blocks, n_taps = -(-weights.rows // columns), len(taps)
    blocks = groups * n_blocks
    nbytes = blocks * weights.channels * n_taps * columns * accumulate.itemsize
    packed = builder.temp(max(nbytes, 1))
    sources = [weights.source(tap) for tap in taps]
    beside = n_taps >= LEAST_TAPS and sorted(sources) == list(range(n_taps))
    parts = min(-(-ITEMS_PER_WORKER * n_workers() // blocks), weights.channels)
    part = -(-weights.channels // parts)
    words = WORDS.values(
        source=weights.view, to=packed, n_blocks=n_blocks, out_channels=weights.rows,
        channels=weights.channels, taps=n_taps, stride_group=weights.group_stride,
        stride_row=weights.row_stride, stride_c=weights.channel_stride, part=part,
    )  # fmt: skip
    more = [sources.index(t) for t in range(n_taps)] if beside else sources
    builder.launch(
        last_weight_kernel(from_dtype(weights.view.dtype), accumulate, columns, beside),
        words + more,
        blocks * -(-weights.channels // part), reads=[weights.view.buffer], writes=[packed],
        nbytes=2.0 * nbytes, name="convolution_last_weights",
    )  # fmt: skip
    return packed


@functools.cache
def last_weight_kernel(source_type: Type, accumulate: Type, columns: int, beside: bool) -> Kernel:
    """Packs weights; an item is `part` channels of a block.

    beside   the taps of a channel lie side by side
    """
    lanes = host().lanes(accumulate)

    @kernel
    def convolution_last_weights(args: ptr(i64), begin: i64, end: i64, worker: i64):
        word = WORDS.of(args)
        channels, part = word.channels, word.part
        parts = (channels + (part - 1)) // part
        for item in loop(begin, end):
            first_channel, block = item % parts * part, item // parts % word.n_blocks
            group = item // (parts * word.n_blocks)
            source = word.pointer("source", source_type)
            source = source + (group * word.stride_group + block * columns * word.stride_row)
            left = word.out_channels - block * columns
            to = word.pointer("to", accumulate) + item // parts * word.taps * channels * columns
            ends = first_channel, minimum(first_channel + part, channels)
            for first in range(0, columns, lanes):
                if beside:
                    _transpose_rows(word, source, to + first, left - first, ends, columns, first)
                else:
                    _gather_rows(word, source, to + first, left - first, ends, columns, first)

    return convolution_last_weights


def _gather_rows(
    word: Reader, source: Value, to: Value, left: Value, ends: tuple[Value, Value], columns: int,
    first: int,
) -> None:  # fmt: skip
    """A vector of output channels from `first` on, tap by tap."""
    accumulate = element(to.type)
    lanes = host().lanes(accumulate)
    places = iota(i64, lanes) * splat(word.stride_row, lanes)
    mask = tail_mask(left, lanes)
    for channel in loop(*ends):
        at = source + (word.stride_row * first + channel * word.stride_c)
        for t in loop(word.taps):
            value = gather(at + word.more(t), places, mask=mask)
            store(to + (t * word.channels + channel) * columns, cast(value, accumulate))


def _transpose_rows(
    word: Reader, source: Value, to: Value, left: Value, ends: tuple[Value, Value], columns: int,
    first: int,
) -> None:  # fmt: skip
    """The same as squares of output channels by taps."""
    accumulate = element(to.type)
    lanes, taps = host().lanes(accumulate), word.taps
    lines = [source + minimum(left + (first - 1), first + n) * word.stride_row
             for n in range(lanes)]  # fmt: skip
    keep = tail_mask(left, lanes)
    for channel in loop(*ends):
        at = channel * word.stride_c
        # 16 rows far apart, which no hardware prefetcher follows: 0.43 ms instead of 0.63 for
        # 512 x 512 of 3 x 3
        for line in lines:
            prefetch(line + (at + word.stride_c * PREFETCH_CHANNELS))
        for t in loop(0, taps, lanes):
            mask = tail_mask(taps - t, lanes)
            square = [cast(load(line + (at + t), lanes, mask=mask), accumulate) for line in lines]
            for n, tap in enumerate(transpose(square)):
                with when(t + n < taps):
                    value = select(keep, tap, zeros(accumulate, lanes))
                    rank = word.more(t + n)
                    store(to + (rank * word.channels + channel) * columns, value)
