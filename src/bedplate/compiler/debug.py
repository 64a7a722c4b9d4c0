"""What BEDPLATE_DEBUG shows of a run: 1 what ran, 2 its time and bytes."""

from __future__ import annotations

import sys
from typing import Any

from bedplate.compiler.builder import Launch
from bedplate.config import config


def show_run(regions: list[list[Launch]], seconds: list[float]) -> None:
    """Print the launches of a run.

    seconds  of each region, at debug >= 2
    """
    for number, region in enumerate(regions):
        shown = [launch for launch in region if config.debug_filter in launch.name]
        if not shown:
            continue
        if config.debug >= 2 and number < len(seconds):
            nbytes = sum(launch.nbytes for launch in region)
            flops = sum(launch.flops for launch in region)
            took = max(seconds[number], 1e-9)
            rates = f"{nbytes / took / 1e9:.1f} GB/s, {flops / took / 1e9:.1f} GFLOP/s"
            _print(f"region {number}: {took * 1e6:.1f} us, {rates}")
        else:
            _print(f"region {number}:")
        for launch in shown:
            _print(f"  {launch.name} x {launch.items}, {launch.nbytes:.0f} bytes")


def _print(text: Any) -> None:
    print(text, file=sys.stderr)
