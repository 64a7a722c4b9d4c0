"""Record what a program allocates and frees: python -m benchmarks.allocation.record [PROGRAM ...]

A trace is two arrays: `events`, block numbers in order of birth for what is made and their
complements (~number) for what is freed, and `nbytes` of each block. What foreign memory a program
looks at is left out. Kept in benchmarks/allocation/traces/, compressed.
"""

from __future__ import annotations

import gc
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

from bedplate.memory import Block, observe_blocks
from benchmarks.allocation.programs import PROGRAMS

TRACES = Path(__file__).parent / "traces"


class Recorder:
    """The events of all threads, in one order."""

    def __init__(self) -> None:
        self.events: list[int] = []
        self.nbytes: list[int] = []
        self._numbers: dict[int, int] = {}
        self._lock = threading.RLock()

    def made(self, block: Block) -> None:
        if block._home is None:
            return
        with self._lock:
            number = self._numbers[id(block)] = len(self.nbytes)
            self.nbytes.append(block.nbytes)
            self._event(number)

    def gone(self, block: tuple[int, Any]) -> None:
        with self._lock:
            number = self._numbers.pop(block[0], None)
            if number is not None:
                self._event(~number)

    def _event(self, event: int) -> None:
        self.events.append(event)


def record(name: str) -> None:
    """Run a program and keep its trace."""
    recorder = Recorder()
    gc.collect()
    restore = observe_blocks(recorder.made, recorder.gone)
    PROGRAMS[name]()
    restore()
    events = np.array(recorder.events, np.int32)
    nbytes = np.array(recorder.nbytes, np.int64)
    TRACES.mkdir(exist_ok=True)
    np.savez_compressed(TRACES / f"{name}.npz", events=events, nbytes=nbytes)
    live = np.cumsum(np.where(events >= 0, nbytes[events], -nbytes[~events]))
    print(
        f"{name:16} {len(nbytes):7,} blocks, {nbytes.sum() / 2**20:9,.1f} MiB in all, "
        f"at most {live.max() / 2**20:7,.1f} MiB at once, largest {nbytes.max() / 2**20:6,.1f} MiB",
        flush=True,
    )


if __name__ == "__main__":
    for program in sys.argv[1:] or PROGRAMS:
        record(program)
