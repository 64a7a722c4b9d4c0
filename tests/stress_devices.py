"""Threads that compute, move and fail on one device at once, the interpreter switching every
micro-second: every value right, every error where it belongs, memory given back.

    PYTHONPATH=src python tests/stress_devices.py --seconds 60
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import threading
import time
from typing import Any

import numpy as np

import bedplate as bp
from bedplate.testing import LoopbackBackend

SIZE = 3000


def program(device: bp.Device, shared: Any, chance: random.Random) -> str | None:
    """One random program; gives what is wrong, or None."""
    x, y = shared, np.arange(float(SIZE))
    for step in range(chance.randrange(1, 12)):
        choice = chance.random()
        if choice < 0.4:
            x, y = x * 0.5 + step, y * 0.5 + step
        elif choice < 0.55:
            x = x.to("cpu").to(device)
        elif choice < 0.7:
            x.realise()
        elif choice < 0.8:
            with bp.Stream(device):
                x, y = (x + 1).realise(), y + 1
        elif choice < 0.9:
            x, y = x + bp.tensor(np.full(SIZE, float(step)), device=device), y + step
        else:
            bad = bp.take(x, bp.tensor([SIZE], device=device), axis=0)
            try:
                bad.numpy()
            except IndexError:
                continue
            return "a wrong index raised nothing"
    return None if (x.numpy() == y).all() else "a value is wrong"


def stress(n_threads: int, seconds: float) -> tuple[int, list[str]]:
    """How many programs ran, and what was wrong with some."""
    bp.devices.register(LoopbackBackend("stressed", capacity_bytes=1 << 28))
    device = bp.Device("stressed")
    runtime: Any = device.runtime
    shared = bp.tensor(np.arange(float(SIZE)), device=device)
    end, faults, counts = time.monotonic() + seconds, [], [0] * n_threads

    def work(number: int) -> None:
        chance = random.Random(number)
        try:
            while time.monotonic() < end and not faults:
                if (fault := program(device, shared, chance)) is not None:
                    faults.append(fault)
                counts[number] += 1
        except BaseException as error:
            faults.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runtime.settle_all()
    gc.collect()
    runtime.pool._drain()
    if runtime.pool.live_bytes > 2 * shared.nbytes:
        faults.append(f"{runtime.pool.live_bytes} bytes are still in use")
    return sum(counts), faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=6)
    options = parser.parse_args()
    sys.setswitchinterval(1e-6)
    count, faults = stress(options.threads, options.seconds)
    sys.stdout.write("\n".join([*faults, f"{count} programs, {len(faults)} faults\n"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
