"""The constants of convolution around their values, and what packing takes of a small network.

    python -m benchmarks.convolutions            all constants: about a minute
    python -m benchmarks.convolutions MOST_TAPS  some of them, by parts of their names
    python -m benchmarks.convolutions network    the launches of three residual blocks

Each constant is set to other values while the plans of a few convolutions are made; all are timed
in turns, in one process. No user's run searches: this is how the values were chosen, and how they
are checked on a new machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from unittest import mock

from rich.console import Console
from rich.table import Table

import bedplate as bp
from bedplate import nn
from bedplate.compiler.realise import clear_plans
from bedplate.ops.convolution import depthwise, last, last_pack, last_weights, positions
from benchmarks.tiles import timed


@dataclass(frozen=True, slots=True)
class Layer:
    """One convolution of 8 images; with gradients, or the forward pass alone."""

    channels: int
    size: tuple[int, ...]
    out: int
    window: tuple[int, ...]
    groups: int = 1
    gradients: bool = False
    images: int = 8

    def __str__(self) -> str:
        sizes, window = ("x".join(map(str, each)) for each in (self.size, self.window))
        end = " with gradients" if self.gradients else ""
        return f"{self.channels} to {self.out} of {window} on {sizes}, groups {self.groups}{end}"

    def run(self) -> Callable[[], Any]:
        """A call of its plan, made now."""
        clear_plans()
        x = bp.random.normal((self.images, self.channels, *self.size)).realise()
        w = bp.random.normal((self.out, self.channels // self.groups, *self.window)).realise()
        g = bp.random.normal((self.images, self.out, *self.size)).realise()
        function = getattr(nn.functional, f"conv{len(self.size)}d")
        padding = tuple(size // 2 for size in self.window)

        def step(x: Any, w: Any, g: Any) -> Any:
            y = function(x, w, None, 1, padding, groups=self.groups)
            if not self.gradients:
                return [y]
            y.backward(g)
            return [y.detach(), x.grad, w.grad]

        step = bp.jit(step)

        def call() -> None:
            a, b = (v.detach().requires_grad_(self.gradients) for v in (x, w))
            for value in step(a, b, g):
                value.realise()

        for _ in range(3):
            call()
        return call


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of a module, the values to try (its own among them), and what to time."""

    module: ModuleType
    name: str
    values: tuple[int, ...]
    layers: tuple[Layer, ...]

    def __str__(self) -> str:
        return f"{self.module.__name__.rsplit('.', 1)[1]}.{self.name}"


WIDE = Layer(64, (64, 64), 64, (3, 3))
DEEP = Layer(512, (7, 7), 512, (3, 3))
SMALL = Layer(64, (32, 32), 96, (3, 3))
GROUPED = Layer(64, (64, 64), 64, (3, 3), 8)
ALONE = Layer(64, (64, 64), 64, (3, 3), 64)
FEW = Layer(64, (14, 14), 64, (3, 3), 64, images=1)
CONSTANTS = (
    Constant(positions, "FLAT_COST", (0, 400, 800, 1600, 10**9), tuple(
        Layer(channels * 4, (7, 7), out * 4, (3, 3), 4)
        for channels, out in ((4, 8), (16, 8), (32, 8), (64, 8), (64, 11))
    )),
    Constant(last_weights, "LEAST_TAPS", (0, 4, 100), tuple(
        Layer(512, (8,), 512, (taps,), images=1) for taps in (1, 2, 3, 4, 5, 9)
    )),
    Constant(depthwise, "MOST_TAPS", (0, 121, 200), tuple(
        Layer(64, (64, 64), 64, (size, size), 64, True) for size in (3, 5, 7, 9, 11)
    )),
    Constant(depthwise, "ITEMS_PER_WORKER", (1, 2, 4, 8, 16), (ALONE, FEW)),
    Constant(last, "ITEMS_PER_WORKER", (4, 16, 32, 64), (WIDE, DEEP, SMALL)),
    Constant(last, "WEIGHT_ITEMS_PER_WORKER", (1, 4, 8, 16), tuple(
        Layer(*each, (3, 3), 1, True) for each in ((64, (64, 64), 64), (256, (14, 14), 256))
    )),
    Constant(last_pack, "ITEMS_PER_WORKER", (2, 8, 16, 64), (WIDE, DEEP, SMALL)),
    Constant(last_weights, "ITEMS_PER_WORKER", (2, 8, 32, 128), (
        Layer(512, (2, 2), 512, (3, 3), images=1), Layer(64, (4, 4), 64, (3, 3), images=1),
    )),
    Constant(positions, "ITEMS_PER_WORKER", (2, 8, 32), (
        GROUPED, Layer(64, (14, 14), 64, (3, 3), 8, images=1),
    )),
)  # fmt: skip


def measured(constant: Constant, layer: Layer) -> dict[int, float]:
    """Median microseconds of the layer at each value."""
    runs: dict[str, Callable[[], Any]] = {}
    for value in constant.values:
        with mock.patch.object(constant.module, constant.name, value):
            runs[str(value)] = layer.run()
    return {int(name): each for name, each in timed(runs).items()}


class Block(nn.Module):
    """Two convolutions of 64 channels with batch norm, around which the input goes too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(64, 64, 3, padding=1, bias=False) for _ in range(2))
        self.norm, self.last = nn.BatchNorm2d(64), nn.BatchNorm2d(64)

    def forward(self, x: Any) -> Any:
        y = self.norm(self.first(x)).relu()
        return (self.last(self.second(y)) + x).relu()


def network(console: Console) -> None:
    """Where the time of three blocks on 8 x 64 x 32 x 32 goes, forward and with gradients."""
    blocks = nn.Sequential(*(Block() for _ in range(3)))
    parameters = list(blocks.parameters())
    x, g = (bp.random.normal((8, 64, 32, 32)).realise() for _ in range(2))

    def forward(x: Any, g: Any) -> Any:
        with bp.no_grad():
            return [blocks(x)]

    def both(x: Any, g: Any) -> Any:
        for parameter in parameters:
            parameter.grad = None
        blocks(x).backward(g)
        return [parameter.grad for parameter in parameters]

    for name, step in (("forward", bp.jit(forward)), ("with gradients", bp.jit(both))):
        for _ in range(10):
            [value.realise() for value in step(x, g)]
        with bp.profile() as report:
            for _ in range(20):
                [value.realise() for value in step(x, g)]
        whole = sum(row.seconds for row in report.kernels)
        table = Table(name, "ms", "share")
        for row in report.kernels:
            if row.seconds > whole / 1000:
                table.add_row(
                    row.name, f"{row.seconds / 20 * 1e3:.2f}", f"{row.seconds / whole:.1%}"
                )
        console.print(table)


def main() -> None:
    console, wanted = Console(), sys.argv[1:]
    if "network" in wanted:
        network(console)
        return
    bp.config.set(plan_files=False)  # a plan that was kept has the constants that it was made with
    for constant in CONSTANTS:
        if wanted and not any(part in str(constant) for part in wanted):
            continue
        now = getattr(constant.module, constant.name)
        heads = [f"{value} us{' (now)' * (value == now)}" for value in constant.values]
        table = Table(str(constant), *heads)
        for layer in constant.layers:
            found = measured(constant, layer)
            table.add_row(str(layer), *(f"{found[value]:.1f}" for value in constant.values))
        console.print(table)


if __name__ == "__main__":
    main()
