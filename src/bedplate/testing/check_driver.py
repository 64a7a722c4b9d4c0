"""The checks of a driver by itself: memory, copies, queues and events, failures."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bedplate.devices.backend import ALIGNMENT, Driver
from bedplate.errors import DeviceError
from bedplate.testing.report import Fault, require

SIZES = (1, 3, 64, 65, 4096, 100_003)
LARGE_BYTES = 4 << 20  # a copy that takes long enough to be overtaken
ROUNDS = 12
PATIENCE_SECONDS = 20.0  # for a copy of that size, on a machine that is busy
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


NAMES = (  # of the protocol; a device without kernels has no use for the last two
    "target", "n_workers", "host_can_address", "allocate", "free", "make_queue", "write", "read",
    "copy", "record", "wait", "is_reached", "synchronise", "seconds_between", "compile", "launch",
)  # fmt: skip


def absent(driver: Any) -> list[str]:
    """What the protocol names and a driver has not."""
    names = NAMES[:-2] if getattr(driver, "target", ...) is None else NAMES
    return [name for name in names if not hasattr(driver, name)]


def has_all(driver: Any) -> None:
    names = ", ".join(f"`{name}`" for name in absent(driver))
    require(
        not names,
        f"the driver has no {names}\n  nothing else is checked before it has: see "
        "bedplate.devices.backend.Driver",
    )


class Bench:
    """A driver, and what the checks do with it again and again."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.queue = driver.make_queue()
        self.generator = np.random.default_rng(3)

    def bytes(self, nbytes: int) -> Bytes:
        """Random content."""
        return self.generator.integers(0, 256, nbytes, np.uint8)

    def put(self, content: Any, queue: Any = None) -> int:
        """The address of fresh memory with this content, which is there."""
        flat = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
        address = self.driver.allocate(max(flat.nbytes, 1))
        self.write(address, flat, queue)
        return address

    def write(self, address: int, content: Bytes, queue: Any = None) -> None:
        queue = self.queue if queue is None else queue
        self.driver.write(queue, address, content)
        self.finish(queue)

    def get(self, address: int, nbytes: int, queue: Any = None) -> Bytes:
        queue = self.queue if queue is None else queue
        into = np.full(nbytes, 0xA5, np.uint8)
        self.driver.read(queue, into, address)
        self.finish(queue)
        return into

    def finish(self, queue: Any = None) -> None:
        """Wait for all work of a queue."""
        self.driver.synchronise(self.driver.record(self.queue if queue is None else queue))


def require_same(found: Bytes, wanted: Bytes, what: str) -> None:
    """raises Fault that names the first byte which differs"""
    if found.shape == wanted.shape and (found == wanted).all():
        return
    different = np.flatnonzero(found != wanted)
    first, last = int(different[0]), int(different[-1])
    raise Fault(
        f"{what}\n  {len(different)} of {len(wanted)} bytes differ, the first at {first} and the "
        f"last at {last}\n  byte {first} is {found[first]:#04x}, expected {wanted[first]:#04x}"
    )


# ---- memory


def has_workers(bench: Bench) -> None:
    workers = bench.driver.n_workers
    require(type(workers) is int and workers > 0, f"n_workers is {workers!r}, expected 1 or more")


def is_aligned_and_apart(bench: Bench) -> None:
    blocks = [(bench.driver.allocate(size), size) for size in SIZES * 3]
    for address, size in blocks:
        require(
            type(address) is int and 0 < address < 1 << 63,
            f"allocate({size}) gave {address!r}, expected an int from 1 to 2**63 - 1",
        )
        require(
            address % ALIGNMENT == 0,
            f"allocate({size}) gave {address:#x}, which is no multiple of {ALIGNMENT}",
        )
    blocks.sort()
    for (low, size), (high, _) in itertools.pairwise(blocks):
        require(low + size <= high, f"blocks overlap: {size} bytes at {low:#x}, and {high:#x}")
    for address, _ in blocks:
        bench.driver.free(address)


def keeps_its_content(bench: Bench) -> None:
    contents = [bench.bytes(size) for size in SIZES * 2]
    addresses = [bench.put(content) for content in contents]
    for address, content in zip(addresses, contents, strict=True):
        require_same(
            bench.get(address, len(content)), content, f"a block of {len(content)} bytes changed"
        )
        bench.driver.free(address)


def takes_memory_back(bench: Bench) -> None:
    for _ in range(200):
        address = bench.driver.allocate(1 << 20)
        bench.driver.free(address)


def refuses_what_has_no_room(bench: Bench) -> None:
    try:
        address = bench.driver.allocate(1 << 60)
    except MemoryError:
        pass
    else:
        raise Fault(f"allocate(2**60) gave {address:#x}, expected MemoryError")
    bench.driver.free(bench.put(bench.bytes(100)))


# ---- copies


def copies_there_and_back(bench: Bench) -> None:
    for size in SIZES:
        content = bench.bytes(size)
        address = bench.put(content)
        require_same(
            bench.get(address, size), content, f"{size} bytes written and read are not the same"
        )
        bench.driver.free(address)


def writes_inside_alone(bench: Bench) -> None:
    before, piece = bench.bytes(512), bench.bytes(100)
    for offset in (0, 1, 63, 64, 412):
        address = bench.put(before)
        bench.write(address + offset, piece)
        wanted = before.copy()
        wanted[offset : offset + 100] = piece
        require_same(
            bench.get(address, 512), wanted,
            f"a write of 100 bytes at offset {offset} of a block of 512 left something else there",
        )  # fmt: skip
        bench.driver.free(address)


def reads_inside_alone(bench: Bench) -> None:
    content = bench.bytes(512)
    address = bench.put(content)
    for offset in (0, 1, 63, 64, 412):
        around = np.full(120, 0xA5, np.uint8)
        bench.driver.read(bench.queue, around[10:110], address + offset)
        bench.finish()
        wanted = np.full(120, 0xA5, np.uint8)
        wanted[10:110] = content[offset : offset + 100]
        require_same(
            around, wanted,
            f"a read of 100 bytes at offset {offset}, into the bytes 10 to 109 of an array of 120",
        )  # fmt: skip
    bench.driver.free(address)


def copies_on_the_device(bench: Bench) -> None:
    content, before = bench.bytes(777), bench.bytes(900)
    source, target = bench.put(content), bench.put(before)
    for offset, nbytes in ((0, 777), (1, 64), (13, 100), (123, 777)):
        bench.write(target, before)
        bench.driver.copy(bench.queue, target + offset, source, nbytes)
        bench.finish()
        wanted = before.copy()
        wanted[offset : offset + nbytes] = content[:nbytes]
        require_same(
            bench.get(target, 900), wanted,
            f"a copy of {nbytes} bytes to offset {offset} of a block of 900 left something else",
        )  # fmt: skip
    for address in (source, target):
        bench.driver.free(address)


# ---- queues and events


def works_in_order(bench: Bench) -> None:
    driver, queue = bench.driver, bench.queue
    address, other = driver.allocate(LARGE_BYTES), driver.allocate(LARGE_BYTES)
    for _ in range(ROUNDS):
        first, second = bench.bytes(LARGE_BYTES), bench.bytes(LARGE_BYTES)
        into = np.zeros(LARGE_BYTES, np.uint8)
        driver.write(queue, address, first)
        driver.write(queue, address, second)
        driver.copy(queue, other, address, LARGE_BYTES)
        driver.write(queue, address, first)
        driver.read(queue, into, other)
        bench.finish()
        require_same(into, second, "writes, a copy and a read of one queue were not done in order")
    for each in (address, other):
        driver.free(each)


def _round_trips(bench: Bench) -> Iterator[tuple[Bytes, Bytes, Any]]:
    """(content that was started to be written, where it is read to, an event behind both)."""
    driver, queue = bench.driver, bench.queue
    address = driver.allocate(LARGE_BYTES)
    for _ in range(ROUNDS):
        content, into = bench.bytes(LARGE_BYTES), np.zeros(LARGE_BYTES, np.uint8)
        driver.write(queue, address, content)
        driver.read(queue, into, address)
        yield content, into, driver.record(queue)
    driver.free(address)


def waits_for_what_is_before_an_event(bench: Bench) -> None:
    driver = bench.driver
    for content, into, event in _round_trips(bench):
        driver.synchronise(event)
        found = into.copy()
        bench.finish()
        time.sleep(0.002)
        bench.finish()
        require_same(
            found, content, "synchronise(event) returned before the read in front of it was done"
        )
        require(driver.is_reached(event), "is_reached says no of an event that was waited for")
        driver.synchronise(event)


def tells_rightly_what_is_reached(bench: Bench) -> None:
    driver = bench.driver
    for content, into, event in _round_trips(bench):
        found, deadline = None, time.monotonic() + PATIENCE_SECONDS
        while found is None:
            if driver.is_reached(event):
                found = into.copy()
            require(
                time.monotonic() < deadline,
                f"is_reached says no for {PATIENCE_SECONDS:.0f} s of a copy of 4 MiB",
            )
        driver.synchronise(event)
        require_same(found, content, "is_reached said yes before the read in front was done")


def has_events_on_idle_queues(bench: Bench) -> None:
    queue = bench.driver.make_queue()
    event = bench.driver.record(queue)
    bench.driver.synchronise(event)
    require(bench.driver.is_reached(event), "an event of a queue without work is not reached")


def waits_across_queues(bench: Bench) -> None:
    driver = bench.driver
    first, second = driver.make_queue(), driver.make_queue()
    address = driver.allocate(LARGE_BYTES)
    for _ in range(ROUNDS):
        content, into = bench.bytes(LARGE_BYTES), np.zeros(LARGE_BYTES, np.uint8)
        driver.write(first, address, content)
        driver.wait(second, driver.record(first))
        driver.read(second, into, address)
        bench.finish(second)
        require_same(
            into, content, "work behind wait(queue, event) did not wait for the other queue's event"
        )
    driver.free(address)


def measures_time(bench: Bench) -> None:
    driver, queue = bench.driver, bench.queue
    address, content = driver.allocate(LARGE_BYTES), bench.bytes(LARGE_BYTES)
    bench.finish()
    begin = time.perf_counter()
    start = driver.record(queue)
    driver.write(queue, address, content)
    end = driver.record(queue)
    driver.synchronise(end)
    seconds, around = driver.seconds_between(start, end), time.perf_counter() - begin
    driver.free(address)
    require(
        0 <= seconds <= around + 0.01,
        f"seconds_between is {seconds} for work that the host saw take {around}",
    )


def takes_calls_of_many_threads(bench: Bench) -> None:
    faults: list[BaseException] = []

    def work(seed: int) -> None:
        generator = np.random.default_rng(seed)
        queue = bench.driver.make_queue()
        try:
            for size in SIZES:
                content = generator.integers(0, 256, size, np.uint8)
                address = bench.put(content, queue)
                require_same(
                    bench.get(address, size, queue), content, "with 4 threads a copy went wrong"
                )
                bench.driver.free(address)
        except BaseException as error:
            faults.append(error)

    _in_threads([lambda seed=seed: work(seed) for seed in range(4)])
    if faults:
        raise faults[0]


def _in_threads(calls: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# ---- failures


def tells_what_failed(bench: Bench, executable: Any, words: Any) -> str | None:
    """A launch that fails is told at each wait for an event behind it, and never by another."""
    driver: Any = bench.driver
    if not hasattr(driver, "fail_next_launch"):
        return "not looked at: the driver has no fail_next_launch(reason)"
    queue, other = driver.make_queue(), driver.make_queue()
    address = bench.put(words)
    before = driver.record(queue)
    driver.fail_next_launch("the kit wants it so")
    driver.launch(queue, executable, address, 1)
    event, later = driver.record(queue), driver.record(queue)
    driver.synchronise(before)
    for what, each in (("", event), (" a second time", event), (" of a later event", later)):
        try:
            driver.synchronise(each)
        except DeviceError as error:
            require(
                "the kit wants it so" in str(error),
                f"synchronise says {str(error)!r}, which does not tell why the launch failed",
            )
        else:
            raise Fault(
                f"a launch failed, and synchronise{what} behind it returned as if it had not: "
                "the error is lost"
            )
    bench.finish(other)
    bench.driver.free(address)
    return None


PROTOCOL = {"the driver has what it names": has_all}
MEMORY: dict[str, Callable[[Bench], str | None]] = {
    "the driver has workers": has_workers,
    "blocks are aligned and apart": is_aligned_and_apart,
    "blocks keep their content": keeps_its_content,
    "freed memory comes back": takes_memory_back,
    "no room is a MemoryError": refuses_what_has_no_room,
}
COPIES: dict[str, Callable[[Bench], str | None]] = {
    "bytes there and back": copies_there_and_back,
    "a write touches its bytes alone": writes_inside_alone,
    "a read touches its bytes alone": reads_inside_alone,
    "copies on the device": copies_on_the_device,
}
QUEUES: dict[str, Callable[[Bench], str | None]] = {
    "a queue works in order": works_in_order,
    "synchronise waits": waits_for_what_is_before_an_event,
    "is_reached tells the truth": tells_rightly_what_is_reached,
    "events of idle queues": has_events_on_idle_queues,
    "a queue waits for another's event": waits_across_queues,
    "seconds between events": measures_time,
    "calls of several threads": takes_calls_of_many_threads,
}
