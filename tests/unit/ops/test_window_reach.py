"""Which taps of a window lie inside: against the definition, element by element."""

from __future__ import annotations

import itertools

import pytest

from bedplate.ops.convolution.reach import Axis, axis_of, phase_axis, tiling

# window, stride, before, dilation, size, outputs
SHAPES = [
    (3, 1, 1, 1, 7, 7), (3, 2, 1, 1, 8, 4), (7, 2, 3, 1, 33, 17), (5, 1, 4, 2, 5, 9),
    (1, 3, 0, 1, 9, 3), (2, 3, 2, 3, 40, 14), (4, 1, 6, 1, 3, 12), (3, 1, 0, 1, 30, 28),
]  # fmt: skip


def axes() -> list[Axis]:
    found = [axis_of(*shape) for shape in SHAPES]
    for k, stride, before, dilation, size, out in SHAPES:
        for phase in range(stride):
            found.append(phase_axis(phase, k, stride, before, dilation, out, size))
    return found


def is_inside(axis: Axis, output: int, tap: int) -> bool:
    return 0 <= output * axis.stride + axis.first + tap * axis.step < axis.size


@pytest.mark.parametrize("axis", axes(), ids=str)
def test_taps_and_outputs_that_meet(axis: Axis) -> None:
    taps, outputs = range(len(axis.taps)), range(axis.out)
    for output in outputs:
        assert [t for t in taps if is_inside(axis, output, t)] == list(range(*axis.met(output)))
    for tap in taps:
        assert [q for q in outputs if is_inside(axis, q, tap)] == list(range(*axis.reached(tap)))
    runs = [(first + n, low, high) for first, count, low, high in axis.runs() for n in range(count)]
    assert runs == [(output, *axis.met(output)) for output in outputs]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_phases_are_the_convolution_turned_round(shape: tuple[int, ...]) -> None:
    k, stride, before, dilation, size, out = shape
    forward = axis_of(*shape)
    met = {
        (output * stride + tap * dilation - before, tap, output)
        for output, tap in itertools.product(range(out), range(k))
        if is_inside(forward, output, tap)
    }
    turned = set()
    for phase in range(stride):
        axis = phase_axis(phase, k, stride, before, dilation, out, size)
        for output in range(axis.out):
            for tap in range(*axis.met(output)):
                place = output + axis.first + tap * axis.step
                turned.add((phase + output * stride, axis.taps[tap], place))
    assert turned == met


@pytest.mark.parametrize("step", [4, 6])
@pytest.mark.parametrize("axis", axes(), ids=str)
def test_segments_of_tiles_are_what_their_outputs_meet(axis: Axis, step: int) -> None:
    """Each output of each tile: the elements of its segments, of which 4 channels are a cell."""
    cut = tiling(axis, 5, 4, step)
    kinds = [*cut.first, *[cut.inner] * (cut.count - len(cut.first) - len(cut.last)), *cut.last]
    assert len(kinds) == cut.count and cut.width <= 5
    for number, kind in enumerate(kinds):
        start = min(number * cut.width, axis.out - cut.width)
        for r in range(cut.width):
            found = [
                (segment.distance + n, segment.start + n)
                for segment in kind
                if segment.cut[0] <= r < cut.width - segment.cut[1]
                for n in range(segment.length)
            ]
            wanted = [
                ((axis.first + tap * axis.step) * step + c, tap * 4 + c)
                for tap in range(*axis.met(start + r))
                for c in range(4)
            ]
            assert found == wanted
