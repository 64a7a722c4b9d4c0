"""What a convolution is to its kernels: three axes of space, weights and outputs by strides."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import Any

from bedplate.ops.convolution.reach import Triple, WindowSum, axis_of, phase_axis
from bedplate.ops.convolution.windows import lifted


@dataclass(frozen=True, slots=True)
class Shape3:
    """A convolution in three dimensions."""

    space: Triple
    window: Triple
    out: Triple
    stride: Triple
    before: Triple
    dilation: Triple
    groups: int


def shape_of(space: Any, window: Any, out: Any, attributes: Any) -> Shape3:
    """The geometry of a convolution from its sizes and attributes."""
    before = tuple(low for low, _ in attributes["padding"])
    return Shape3(
        lifted(space, 1), lifted(window, 1), lifted(out, 1), lifted(attributes["stride"], 1),
        lifted(before, 0), lifted(attributes["dilation"], 1), attributes["groups"],
    )  # fmt: skip


def sum_of(shape: Shape3) -> WindowSum:
    """What the outputs of a convolution meet of its input."""
    axes = zip(
        shape.window, shape.stride, shape.before, shape.dilation, shape.space, shape.out,
        strict=True,
    )  # fmt: skip
    z, y, x = (axis_of(*axis) for axis in axes)
    return WindowSum((z, y, x))


def phase_sums(shape: Shape3) -> list[tuple[Triple, WindowSum]]:
    """(phase of the strides, what its places of the input meet of the gradient of the output)."""
    found = []
    for phase in itertools.product(*(range(step) for step in shape.stride)):
        axes = zip(
            phase, shape.window, shape.stride, shape.before, shape.dilation, shape.out,
            shape.space, strict=True,
        )  # fmt: skip
        z, y, x = (phase_axis(*axis) for axis in axes)
        found.append((phase, WindowSum((z, y, x))))
    return [(phase, of) for phase, of in found if min(of.out) > 0]


@dataclass(frozen=True, slots=True)
class Weights:
    """How weights are read: rows are output channels of a group, channels its input channels."""

    view: Any
    rows: int
    channels: int
    group_stride: int
    row_stride: int
    channel_stride: int

    def source(self, tap: Triple) -> int:
        """The distance of a tap from the first."""
        steps = lifted(self.view.strides[2:], 0)
        return sum(k * step for k, step in zip(tap, steps, strict=True))


@dataclass(frozen=True, slots=True)
class Target:
    """Where outputs go: counts and distances along z, y, x from `start` on in each channel."""

    view: Any
    start: int
    sizes: Triple
    steps: Triple

    @property
    def first(self) -> Any:
        """The view from the first output on."""
        return dataclasses.replace(self.view, offset=self.view.offset + self.start)
