"""A back end for a made-up accelerator, in plain Python: the worked example of the protocol.

The accelerator has memory that nobody else can address, queues that work by themselves, and two
workers that run kernels by interpreting their programs. None of that is fast; all of it is what a
driver of real hardware does, in as few lines as it takes. Try it, in the folder above this one:

    python -m bedplate.testing.backend examples.accelerator:BACKEND --only memory,kernels

and use it as any other device:

    import bedplate as bp
    from examples.accelerator import BACKEND

    bp.devices.register(BACKEND)
    x = bp.tensor([1.0, 2.0], device="accelerator")
    print((x * 2).exp().tolist())

A package offers its back end to everybody who installs it by an entry point instead:

    [project.entry-points."bedplate.backends"]
    accelerator = "my_package.accelerator:BACKEND"

The protocol and its rules are in `bedplate/devices/backend.py`.
"""

from __future__ import annotations

import bisect
import ctypes
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate.devices.backend import ALIGNMENT
from bedplate.errors import DeviceError
from bedplate.kernel.ir import Instruction, Program
from bedplate.kernel.machine import Machine, Pointer, Region
from bedplate.kernel.target import Target, host
from bedplate.kernel.types import Type

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
BASE = 1 << 60  # where the accelerator's addresses begin: no address of the host is as high
GAP = 4096  # between two blocks, so that what runs over one does not reach the next
MEMORY_BYTES = 1 << 30
# a * b + c with one rounding, by bytes of the numbers: the C library has it, as hardware has
MULTIPLY_ADD = {4: ctypes.CDLL(None).fmaf, 8: ctypes.CDLL(None).fma}
for function, kind in zip(MULTIPLY_ADD.values(), (ctypes.c_float, ctypes.c_double), strict=True):
    function.argtypes, function.restype = [kind] * 3, kind


class Backend:
    """The kind of device. It is imported before anybody wants to use it, so it does nothing yet."""

    name = "accelerator"
    description = "a made-up accelerator that interprets kernels"

    def count(self) -> int:
        return 1

    def open(self, index: int) -> Driver:
        return Driver()


class Memory:
    """The accelerator's memory: blocks by address. Only this file knows what is in them.

    A region is a block as the interpreter sees it: a name, an address, bytes.
    """

    def __init__(self, nbytes: int) -> None:
        self.room = nbytes
        self.lock = threading.Lock()
        self.next = BASE
        self.starts: list[int] = []  # addresses of the blocks, in order
        self.blocks: dict[int, Region] = {}

    def allocate(self, nbytes: int) -> int:
        with self.lock:
            if nbytes > self.room:
                raise MemoryError(f"{nbytes} bytes asked for, {self.room} left")
            self.room -= nbytes
            address = self.next
            self.next += -(-(nbytes + GAP) // ALIGNMENT) * ALIGNMENT
            self.blocks[address] = Region(f"block {address:#x}", address, np.empty(nbytes, "u1"))
            self.starts.append(address)  # addresses only grow, so the list stays in order
        return address

    def free(self, address: int) -> None:
        with self.lock:
            self.room += len(self.blocks.pop(address).memory)
            self.starts.remove(address)

    def find(self, address: int) -> Region | None:
        """The block in which an address lies."""
        with self.lock:
            place = bisect.bisect_right(self.starts, address) - 1
            block = self.blocks[self.starts[place]] if place >= 0 else None
        return block if block is not None and address < block.end else None

    def bytes(self, address: int, nbytes: int) -> Bytes:
        """The bytes at an address, to be read or written.

        raises  DeviceError if they are not inside one block
        """
        block = self.find(address)
        if block is None or address + nbytes > block.end:
            raise DeviceError(f"{nbytes} bytes at {address:#x} are not in the device's memory")
        first = address - block.address
        return block.memory[first : first + nbytes]


class Event:
    """A point in a queue's work: set by the thread of the queue when it comes there."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.failure: str | None = None  # of the queue, so far
        self.seconds = 0.0


class Queue:
    """Work in order. Its thread takes jobs until the queue is dropped."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # the thread must not hold the queue, or neither would ever go
        threading.Thread(target=work, args=(self.jobs,), daemon=True).start()
        weakref.finalize(self, self.jobs.put, None).atexit = False

    def start(self, job: Callable[[], object]) -> None:
        self.jobs.put(job)


def work(jobs: queue.SimpleQueue[Any]) -> None:
    """What the thread of a queue does. A failure is kept for all events that come behind it."""
    failure: str | None = None
    while (job := jobs.get()) is not None:
        if isinstance(job, Event):
            job.failure, job.seconds = failure, time.perf_counter()
            job.reached.set()
        elif failure is None:  # behind a failure nothing runs: its inputs may be wrong
            try:
                with np.errstate(all="ignore"):
                    job()
            except Exception as error:
                failure = str(error)
        job = None  # or what it holds would live until the next one comes


class Core(Machine):
    """Runs one program: the interpreter of the kernel language on the accelerator's memory.

    A real driver would translate the program into the instructions of its hardware instead; the
    head of bedplate/kernel/ir.py has the whole language of programs.
    """

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.memory = memory

    def find(self, address: int) -> Region | None:
        # first what the program itself made (its local arrays), then the device's memory
        return super().find(address) or self.memory.find(address)

    def local(self, instruction: Instruction, pointee: Type, count: int) -> Pointer:
        pointer = super().local(instruction, pointee, count)
        if pointer.region is not None:
            pointer.region.written = None  # as in hardware: what nobody wrote holds something
        return pointer

    def instruction(self, instruction: Instruction) -> None:
        """One instruction: a * b + c is the accelerator's own, all others the interpreter's."""
        if instruction.op != "fma":
            super().instruction(instruction)
            return
        a, b, c = [np.asarray(self.value(operand)) for operand in instruction.operands]
        multiply_add = MULTIPLY_ADD[a.dtype.itemsize]
        parts = zip(a.ravel().tolist(), b.ravel().tolist(), c.ravel().tolist(), strict=True)
        result = np.array([multiply_add(*part) for part in parts], a.dtype).reshape(a.shape)
        self.values[instruction.number] = result if a.ndim else result[()]


class Driver:
    """The accelerator. Each method is one of the protocol `bedplate.devices.backend.Driver`."""

    n_workers = 2
    host_can_address = False

    def __init__(self) -> None:
        self.target: Target | None = host()  # the interpreter takes programs as they are
        self.memory = Memory(MEMORY_BYTES)
        self.failures: list[str] = []

    # memory

    def allocate(self, nbytes: int) -> int:
        return self.memory.allocate(nbytes)

    def free(self, address: int) -> None:
        self.memory.free(address)

    # queues: each of these puts a job on the queue and returns at once

    def make_queue(self) -> Queue:
        return Queue()

    def write(self, queue: Queue, address: int, source: Bytes) -> None:
        def job() -> None:
            self.memory.bytes(address, len(source))[:] = source

        queue.start(job)

    def read(self, queue: Queue, into: Bytes, address: int) -> None:
        def job() -> None:
            into[:] = self.memory.bytes(address, len(into))

        queue.start(job)

    def copy(self, queue: Queue, to: int, source: int, nbytes: int) -> None:
        def job() -> None:
            self.memory.bytes(to, nbytes)[:] = self.memory.bytes(source, nbytes)

        queue.start(job)

    # kernels

    def compile(self, program: Program, symbol: str) -> Program:
        return program

    def launch(self, queue: Queue, executable: Program, arguments: int, items: int) -> None:
        failure = self.failures.pop() if self.failures else None

        def job() -> None:
            if failure is not None:
                raise DeviceError(failure)
            half = items // 2
            for worker, (begin, end) in enumerate(((0, half), (half, items))):
                if begin < end:
                    self.run(executable, arguments, begin, end, worker)

        queue.start(job)

    def run(self, program: Program, arguments: int, begin: int, end: int, worker: int) -> None:
        """One call f(arguments, begin, end, worker)."""
        pointer = Pointer(arguments, self.memory.find(arguments))
        Core(self.memory).run(program, [pointer, np.int64(begin), np.int64(end), np.int64(worker)])

    def fail_next_launch(self, reason: str) -> None:
        """Not of the protocol, but the kit uses it if it is there: let the next launch fail."""
        self.failures.append(reason)

    # events

    def record(self, queue: Queue) -> Event:
        event = Event()
        queue.jobs.put(event)
        return event

    def wait(self, queue: Queue, event: Event) -> None:
        queue.start(event.reached.wait)

    def is_reached(self, event: Event) -> bool:
        return event.reached.is_set()

    def synchronise(self, event: Event) -> None:
        event.reached.wait()
        if event.failure is not None:
            raise DeviceError(event.failure)

    def seconds_between(self, start: Event, end: Event) -> float:
        return end.seconds - start.seconds


BACKEND = Backend()
