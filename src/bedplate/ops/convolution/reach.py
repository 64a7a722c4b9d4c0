"""Which taps of a window lie inside of an input: nothing outside is read, let alone multiplied.

Of a window of 3 x 3 over 7 x 7 with one line around it, 18 % of the taps lie outside.

    output q meets, with tap i, the element q * stride + first + i * step, if 0 <= that < size
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

Triple = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a sum over a window; see the head of this file.

    taps    their places in the window, in the order of the elements that they meet
    size    elements of the input, out: outputs
    """

    taps: tuple[int, ...]
    first: int
    step: int
    stride: int
    size: int
    out: int

    def met(self, output: int) -> tuple[int, int]:
        """The taps, half-open, that meet an element."""
        at, count = output * self.stride + self.first, len(self.taps)
        low = min(max(-(at // self.step), 0), count)
        high = min(max(-(-(self.size - at) // self.step), 0), count)
        return low, max(high, low)

    def runs(self) -> list[tuple[int, int, int, int]]:
        """(first, count, low, high) of neighbouring outputs that meet the same taps."""
        found: list[tuple[int, int, int, int]] = []
        for output in range(self.out):
            met = self.met(output)
            if found and found[-1][2:] == met:
                found[-1] = (found[-1][0], found[-1][1] + 1, *met)
            else:
                found.append((output, 1, *met))
        return found

    def reached(self, tap: int) -> tuple[int, int]:
        """The outputs, half-open, that meet an element with a tap."""
        offset = self.first + tap * self.step
        low = min(max(-(offset // self.stride), 0), self.out)
        high = min(max(-((offset - self.size) // self.stride), 0), self.out)
        return low, max(high, low)

    def cuts(self, start: int, width: int) -> list[tuple[int, int]]:
        """For each tap, how many of the outputs start ... start + width - 1 meet nothing with it.

        returns (of the first ones, of the last ones) for each
        """
        found = []
        for tap in range(len(self.taps)):
            low, high = (min(max(end - start, 0), width) for end in self.reached(tap))
            found.append((low, width - high) if high > low else (width, 0))
        return found


def axis_of(k: int, stride: int, before: int, dilation: int, size: int, out: int) -> Axis:
    """An axis of a convolution with a window of k."""
    return Axis(tuple(range(k)), -before, dilation, stride, size, out)


def phase_axis(
    phase: int, k: int, stride: int, before: int, dilation: int, size: int, space: int
) -> Axis:
    """An axis of the gradient by the input: of the places phase, phase + stride ... in `space`.

    Place `phase + q stride` got tap j of the outputs `q + (phase + before - j dilation) / stride`.

    size   outputs of the convolution, space: elements of its input
    """
    from_edge = phase + before
    places = [
        ((from_edge - j * dilation) // stride, j)
        for j in reversed(range(k))
        if (from_edge - j * dilation) % stride == 0
    ]
    step = dilation // math.gcd(stride, dilation)
    first = places[0][0] if places else 0
    outputs = -(-(space - phase) // stride)
    return Axis(tuple(j for _, j in places), first, step, 1, size, outputs)


@dataclass(frozen=True, slots=True)
class WindowSum:
    """A sum over a window: what of the input the outputs meet along z, y and x."""

    axes: tuple[Axis, Axis, Axis]

    @property
    def n_taps(self) -> int:
        return math.prod(len(axis.taps) for axis in self.axes)

    @property
    def out(self) -> Triple:
        return tuple(axis.out for axis in self.axes)

    @property
    def sizes(self) -> Triple:
        return tuple(axis.size for axis in self.axes)

    @property
    def stride(self) -> Triple:
        return tuple(axis.stride for axis in self.axes)

    @property
    def is_padded(self) -> bool:
        """Whether an output meets something outside: the first one, or the last one."""
        ends = [(axis, end) for axis in self.axes for end in (0, axis.out - 1)]
        return any(axis.met(end) != (0, len(axis.taps)) for axis, end in ends)

    def taps(self) -> list[Triple]:
        """Their places in the window in the order in which they are summed."""
        along_z, along_y, along_x = (axis.taps for axis in self.axes)
        return [(z, y, x) for z in along_z for y in along_y for x in along_x]

    def places(self) -> list[Triple]:
        """The elements that output 0 meets, some of which may lie outside, in the same order."""
        along_z, along_y, along_x = (
            [axis.first + tap * axis.step for tap in range(len(axis.taps))] for axis in self.axes
        )
        return [(z, y, x) for z in along_z for y in along_y for x in along_x]


@dataclass(frozen=True, slots=True)
class Segment:
    """Some taps side by side along x, whose channels lie in one piece of the input.

    distance   of the first element from the place of the output
    start      of the first weight among those of the line of the window
    length     elements
    cut        how many of a tile's first and last outputs meet nothing there
    """

    distance: int
    start: int
    length: int
    cut: tuple[int, int]


def segments(axis: Axis, start: int, width: int, channels: int, step: int) -> tuple[Segment, ...]:
    """The segments of a line of the window for the outputs from `start` on.

    step   elements from a cell to the next
    """
    found: list[Segment] = []
    for tap, cut in enumerate(axis.cuts(start, width)):
        if sum(cut) >= width:
            continue
        distance, at = (axis.first + tap * axis.step) * step, tap * channels
        last = found[-1] if found else None
        follows = last is not None and (last.cut, last.distance + last.length) == (cut, distance)
        if last is not None and follows and last.start + last.length == at:
            found[-1] = Segment(last.distance, last.start, last.length + channels, cut)
        else:
            found.append(Segment(distance, at, channels, cut))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Tiling:
    """How the outputs of a line are cut into tiles.

    width     outputs of a tile; the last one reaches back over some of the one before
    count     tiles of a line
    first     the segments of its first tiles, until those where no output is cut
    inner     of those
    last      of its last ones
    """

    width: int
    count: int
    first: tuple[Any, ...]
    inner: tuple[Segment, ...]
    last: tuple[Any, ...]

    @property
    def all(self) -> tuple[Any, ...]:
        return (*self.first, self.inner, *self.last)

    @property
    def cuts(self) -> tuple[tuple[int, int], ...]:
        """All that occur, in an order of their own."""
        return tuple(sorted({each.cut for line in self.all for each in line}))


def tiling(axis: Axis, most: int, channels: int, step: int) -> Tiling:
    """Tiles of at most so many outputs, as equal as can be."""
    count = -(-axis.out // most)
    width = -(-axis.out // count)
    count = -(-axis.out // width)

    def of(number: int) -> tuple[Segment, ...]:
        return segments(axis, min(number * width, axis.out - width), width, channels, step)

    first: list[Any] = []
    last: list[Any] = []

    def is_whole(number: int) -> bool:
        start = min(number * width, axis.out - width)
        return not any(map(sum, axis.cuts(start, width)))

    while len(first) < count and not is_whole(len(first)):
        first.append(of(len(first)))
    while len(first) + len(last) < count and not is_whole(count - 1 - len(last)):
        last.append(of(count - 1 - len(last)))
    inner = of(len(first)) if len(first) + len(last) < count else ()
    return Tiling(width, count, tuple(first), inner, tuple(reversed(last)))
