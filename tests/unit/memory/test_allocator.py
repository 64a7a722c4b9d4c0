"""Blocks are aligned, come home by themselves, and running out of memory is a clear error."""

import gc
import itertools
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from bedplate import dtypes
from bedplate.config import config
from bedplate.errors import InternalError, OutOfMemoryError
from bedplate.memory import Block, allocate, pressure, release_cache, small, tiers
from bedplate.memory.classes import ALIGNMENT, Classes, class_bytes
from bedplate.memory.mapping import ACCOUNT
from bedplate.memory.tiers import LIBRARY

SIZES_TO_TRY = [0, 1, 64, 65, 4096, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 9 << 20, 101 << 20]


@pytest.mark.parametrize("pooling", [True, False])
@pytest.mark.parametrize("nbytes", SIZES_TO_TRY)
def test_aligned_and_writable(nbytes, pooling):
    with config(pooling=pooling):
        block = allocate(nbytes)
    assert block.address % ALIGNMENT == 0
    assert block.nbytes == nbytes
    array = block.array(np.uint8, (nbytes,))
    array[:] = 7
    assert array.sum() == 7 * nbytes


def test_classes_waste_little_and_are_consistent():
    for nbytes in [*range(1, 5000, 7), 70_000, 3_000_000, 1 << 24]:
        size = class_bytes(nbytes)
        assert nbytes <= size
        assert size <= max(nbytes * 1.126, nbytes + 63)


@pytest.mark.parametrize("bound", [0, 64, 1000, 1 << 20, 9 << 20])
def test_the_table_of_classes_says_what_the_rule_says(bound):
    classes = Classes(bound)
    assert classes.sizes == sorted(set(classes.sizes))
    assert bound <= classes.sizes[-1] <= max(bound * 1.13, bound + 64)
    for nbytes in [*range(min(bound, 70_000)), *range(bound - 5, bound + 1)]:
        if nbytes >= 0:
            assert classes.sizes[classes.of(nbytes)] == class_bytes(nbytes)


@pytest.mark.parametrize("nbytes", [100, 100_000, 3 << 20, 120 << 20])
def test_a_freed_block_is_used_again(nbytes):
    address = allocate(nbytes).address
    assert allocate(nbytes).address == address


def test_live_blocks_never_overlap():
    generator = np.random.default_rng(0)
    live = []
    for nbytes in generator.integers(0, 200_000, 600):
        live.append(allocate(int(nbytes)))
        if len(live) > 100:
            del live[int(generator.integers(len(live)))]
    spans = sorted((b.address, b.address + max(b.nbytes, 1)) for b in live)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


def test_array_keeps_its_block_alive():
    array = allocate(400).array(dtypes.float32, (10, 10))
    array[:] = 3
    others = [allocate(400).array(dtypes.float32, (100,)) for _ in range(50)]
    for other in others:
        other[:] = 5
    assert (array == 3).all()


def test_array_in_bfloat16_and_its_bounds():
    block = allocate(20)
    assert block.array(dtypes.bfloat16, (2, 5)).dtype == dtypes.bfloat16.numpy
    with pytest.raises(InternalError, match=r"\(11,\) bfloat16 does not fit 20 bytes"):
        block.array(dtypes.bfloat16, (11,))


def test_from_numpy_shares_and_keeps_alive():
    array = np.arange(12, dtype=np.float32)
    block = Block.from_numpy(array)
    assert block.address == array.ctypes.data
    del array
    assert block.array(np.float32, (12,))[11] == 11
    with pytest.raises(InternalError, match="C-contiguous"):
        Block.from_numpy(np.zeros((3, 4)).T)


def test_freed_on_another_thread_comes_home():
    blocks = [allocate(1000) for _ in range(40)]
    addresses = {b.address for b in blocks}
    thread = threading.Thread(target=blocks.clear)
    thread.start()
    thread.join()
    again = [allocate(1000) for _ in range(200)]
    assert addresses <= {b.address for b in again}


def test_memory_of_an_ended_thread_is_used_again():
    survivors = []
    addresses = set()

    def work():
        blocks = [allocate(3000) for _ in range(20)]
        addresses.update(b.address for b in blocks)
        survivors.extend(blocks[:10])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    survivors.clear()
    gc.collect()
    again = [allocate(3000) for _ in range(400)]
    assert addresses <= {b.address for b in again}


class Keeper(threading.local):
    """Holds blocks until its thread goes down, and takes one more on the way."""

    def __init__(self):
        self.kept = [Last(), allocate(3000), allocate(200_000)]


class Last:
    def __del__(self):
        allocate(3000)


def test_blocks_that_die_with_their_thread():
    keepers = [Keeper() for _ in range(3)]

    def work():
        for keeper in keepers:
            assert len(keeper.kept) == 3

    for _ in range(20):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    gc.collect()


def test_many_threads_at_once():
    wrong = []

    def work(number):
        for turn in range(300):
            blocks = [allocate(n) for n in (8, 500, 70_000)]
            arrays = [b.array(np.uint8, (b.nbytes,)) for b in blocks]
            for array in arrays:
                array[:] = (number + turn) % 256
            wrong.extend(a for a in arrays if not (a == (number + turn) % 256).all())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def kept_bytes():
    return LIBRARY.medium.free_bytes


def test_kept_memory_is_bounded():
    release_cache()
    assert kept_bytes() == 0
    with config(pool_size=8):
        blocks = [allocate(4 << 20) for _ in range(6)] + [allocate(110 << 20)]
        del blocks
        allocate(2 << 20)
        assert kept_bytes() <= 8 << 20
    with config(pooling=False):
        mapped = ACCOUNT.mapped
        block = allocate(4 << 20)
        assert ACCOUNT.mapped == mapped + (4 << 20)
        del block
        assert ACCOUNT.mapped == mapped


def test_out_of_memory_names_the_largest_holders():
    release_cache()
    held = allocate(30 << 20, site="model.py:77")
    with pytest.raises(OutOfMemoryError, match=r"(?s)no memory for 1\.0 TiB, asked for at x\.py:3"
                       r".*30\.0 MiB   made at model\.py:77"):  # fmt: skip
        allocate(1 << 40, site="x.py:3")
    limit = ACCOUNT.mapped // (1 << 20) + 10
    asked = pytest.raises(MemoryError, match=rf"in use .* of {limit}\.0 MiB")
    with asked, config(memory_limit=limit):
        allocate(32 << 20)
    del held
    assert allocate(1 << 20).nbytes == 1 << 20
    with pytest.raises(OutOfMemoryError, match="allocate: no memory for"):
        allocate(1 << 70)


def test_negative_is_refused():
    with pytest.raises(InternalError, match="must not be negative"):
        allocate(-1)


def test_steady_use_does_not_grow():
    def use():
        for nbytes in SIZES_TO_TRY:
            allocate(nbytes)

    use()
    before = ACCOUNT.mapped, ACCOUNT.free
    for _ in range(100):
        use()
    assert (ACCOUNT.mapped, ACCOUNT.free) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_allocates_and_leaves_its_parents_values_alone():
    block = allocate(3 << 20)
    array = block.array(np.uint8, (3 << 20,))
    array[:] = 1
    child = os.fork()
    if child == 0:
        array[:] = 2
        ok = allocate(3 << 20).nbytes == 3 << 20 and allocate(10).nbytes == 10
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (array == 1).all()


STORM = """
import gc, random, signal, sys, threading, time
from bedplate.memory import allocate, release_cache
from bedplate.memory.mapping import ACCOUNT, Mapping
from bedplate.memory.tiers import LIBRARY

draw = random.Random(1)
def strike(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, strike)
start, hits = time.monotonic(), 0
sys.unraisablehook = lambda _: None  # an interrupt inside a finaliser is dropped by Python
while (passed := time.monotonic() - start) < 1.5 or hits <= 100 and passed < 40:
    try:
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-6, 3e-4))
        for _ in range(200):
            sizes = draw.choices([100, 100_000, 3 << 20, 5 << 20, 101 << 20], k=3)
            blocks = [allocate(size) for size in sizes]
            if draw.random() < 0.05:
                release_cache()
            del blocks
    except KeyboardInterrupt:
        hits += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
done = []
thread = threading.Thread(target=lambda: done.append(allocate(3 << 20)), daemon=True)
thread.start()
thread.join(5)
assert done, "the lock was left taken"
del done
medium, large = LIBRARY.medium, LIBRARY.large
ranges = LIBRARY.small.ranges
assert medium.free_bytes == sum(end - start for start, end in medium._free.items())
assert ACCOUNT.free == medium.free_bytes + ranges.free_bytes
held = [*ranges.segments]
ranges = sorted([*medium._free.items(), *medium._live.items(), *medium._away.items()])
assert all(end <= start for (_, end), (start, _) in zip(ranges, ranges[1:]))
release_cache()
assert not medium._free
gc.collect()
held += [*medium.segments, *(slab for _, _, slab in LIBRARY.small.slabs.values() if slab)]
held += large._live.values()
assert ACCOUNT.mapped == sum(m.nbytes for m in held)
assert hits > 100, hits
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_interrupts_leave_the_allocator_whole():
    run = subprocess.run(
        [sys.executable, "-c", STORM], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]


@pytest.mark.parametrize("nbytes", [300, 3 << 20, 120 << 20])
def test_a_finaliser_may_allocate_anywhere(monkeypatch, nbytes):
    """Also while its thread is in the middle of a change, as the garbage collector may have it."""
    release_cache()
    waiting = [allocate(size) for size in (300, 100_000, 3 << 20, 120 << 20)]
    made = []

    def late(wanted):
        if not made:
            waiting.clear()
            made.extend(allocate(size) for size in (300, 100_000, 3 << 20, 120 << 20))
        pressure.require_room(wanted)

    for module in (tiers, small):
        monkeypatch.setattr(module, "require_room", late)
    blocks = [allocate(nbytes) for _ in range(5000 if nbytes == 300 else 1)]
    assert made
    blocks += made
    spans = sorted((b.address, b.address + b.nbytes) for b in blocks)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    before = tiers.in_use()
    made.clear()
    blocks.clear()
    assert tiers.in_use() <= before - (123 << 20)  # what was mapped apart has gone


def test_a_child_finds_the_accounts_whole():
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            allocate(3 << 20)
            allocate(100_000)

    threads = [threading.Thread(target=churn) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            pid = os.fork()
            if not pid:
                allocate(3 << 20)
                release_cache()
                os._exit(0 if not LIBRARY.medium.free_bytes else 1)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
