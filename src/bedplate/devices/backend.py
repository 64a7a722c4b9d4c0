"""The protocol of a back end: what a kind of device must offer so that everything runs on it.

A package outside Bedplate offers one by an entry point of the group `bedplate.backends`, whose
name is the device's name and which gives an object that is a `Backend`:

    [project.entry-points."bedplate.backends"]
    toy = "toy_package:BACKEND"

Then `bp.tensor(..., device="toy")` runs there. `python -m bedplate.testing.backend toy` says what
of this protocol it keeps; `docs/in-depth/writing-a-back-end.md` walks through one.

Rules that hold for every driver:

- Calls may come from any thread, several at once. A call that `starts` something returns at once;
  the work happens later, in the order in which it was started on its queue. Queues do not wait
  for each other but for what `wait` says.
- Addresses are plain integers of the device's own address space; nothing but the driver looks at
  what is there, unless `host_can_address` says that the host may. Address arithmetic is plain:
  `address + n` is the byte n of a block, and may be handed to `write`, `read`, `copy` and kernels.
- Work that fails never ends the process and is never lost: `synchronise` of any event behind it on
  its queue raises DeviceError that says what failed, each time. Work behind it need not run. Queues
  that wait for such an event go on: what they read is known to be wrong above the driver.
- Values given to `write` and `read` (NumPy arrays of bytes, contiguous) stay alive and untouched
  until an event behind the work is reached: the caller sees to that.
- `free` is called only for memory that no unfinished work uses: the caller sees to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bedplate.kernel.ir import Program
    from bedplate.kernel.target import Target

    Bytes = NDArray[np.uint8]

ENTRY_POINTS = "bedplate.backends"  # the group in which back ends are found
ALIGNMENT = 64  # bytes: of every address that `allocate` gives


class Backend(Protocol):
    """One kind of device.

    name         the first part of a device's name, as in "toy:1"
    description  one line for people
    """

    name: str
    description: str

    def count(self) -> int:
        """How many such devices there are; 0 where the driver is absent. Never raises, is quick."""
        ...

    def open(self, index: int) -> Driver:
        """The driver of device `index`; called once a device and process, when it is first used.

        raises  DeviceError that says what is wrong and what to do
        """
        ...


class Driver(Protocol):
    """One device.

    It may have two more methods: `compile_many`, which takes a list of (program, symbol) and gives
    what `compile` would for each, and `fail_next_launch(reason)`, by which the conformance kit
    makes a launch fail.

    target            kernels are traced and lowered for it; None: the device runs no kernels, and
                      its operations are computed by their NumPy references on copies in the host
    n_workers         kernels index scratch memory by a worker, 0 <= worker < n_workers
    host_can_address  the host may read and write at addresses itself, once it has waited
    """

    target: Target | None
    n_workers: int
    host_can_address: bool

    def allocate(self, nbytes: int) -> int:
        """The address of `nbytes` > 0 bytes of memory; its content is undefined.

        returns a multiple of 64, from 64 to 2**63 - 1

        raises  MemoryError where there is no room
        """
        ...

    def free(self, address: int) -> None:
        """Take back what `allocate` gave."""
        ...

    def make_queue(self) -> Any:
        """A new queue: what is started on it runs in the order in which it was started."""
        ...

    def write(self, queue: Any, address: int, source: Bytes) -> None:
        """Start a copy from the host to the device."""
        ...

    def read(self, queue: Any, into: Bytes, address: int) -> None:
        """Start a copy from the device to the host."""
        ...

    def copy(self, queue: Any, to: int, source: int, nbytes: int) -> None:
        """Start a copy on the device; the two pieces do not overlap."""
        ...

    def compile(self, program: Program, symbol: str) -> Any:
        """What `launch` runs, made of a traced kernel; called once a kernel, which is kept.

        program  of a task kernel f(args: ptr(i64), begin: i64, end: i64, worker: i64), traced
                 for `target`; args[i] are 64-bit words: addresses, integers, bits of an f64
        symbol   a name for it, in letters, digits and `_`
        raises   DeviceError or KernelError that names what the device cannot do
        """
        ...

    def launch(self, queue: Any, executable: Any, arguments: int, items: int) -> None:
        """Start a kernel: f(arguments, begin, end, worker) for parts of 0 <= item < items.

        arguments  the device address of its words
        The driver cuts 0..items into parts as it likes and may run them side by side, each with a
        worker that no other part has at that time. Bits never depend on how it is cut.
        """
        ...

    def record(self, queue: Any) -> Any:
        """An event behind all work of the queue so far."""
        ...

    def wait(self, queue: Any, event: Any) -> None:
        """Let later work of the queue start after an event, perhaps of another queue."""
        ...

    def is_reached(self, event: Any) -> bool:
        """Whether the work before an event is done, well or badly; does not wait or raise."""
        ...

    def synchronise(self, event: Any) -> None:
        """Return when the work before an event is done.

        raises  DeviceError if some of that work failed, each time that it is called
        """
        ...

    def seconds_between(self, start: Any, end: Any) -> float:
        """The time from one reached event to another, by the device's clock."""
        ...
