"""The kit passes the example accelerator, and says what is wrong with broken copies of it."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from examples import accelerator
from examples.accelerator import Backend, Core, Driver, Event, Memory, Queue

from bedplate.devices import Device, register
from bedplate.devices.registry import _registry
from bedplate.errors import DeviceError
from bedplate.testing import check_driver, check_tensors
from bedplate.testing.backend import check_backend, main

DRIVER_SECTIONS = ("memory", "copies", "queues and events", "kernels", "failures")
_numbers = itertools.count()


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """A function that gives the kit's report of a driver, under a name of its own."""
    names = []
    monkeypatch.setattr(check_driver, "PATIENCE_SECONDS", 2.0)

    def check(driver: type[Driver], *sections: str) -> Any:
        backend: Any = Backend()
        backend.name = f"broken_{next(_numbers)}"
        backend.open = lambda index: driver()
        register(backend)
        names.append(backend.name)
        return check_backend(backend.name, sections)

    yield check
    for name in names:
        _registry.found.pop(name, None)


def said(report: Any) -> str:
    return "\n".join(str(outcome.fault) for outcome in report.failures)


def test_the_example_keeps_the_protocol(checked: Any) -> None:
    report = checked(Driver, *DRIVER_SECTIONS, "errors")
    report.raise_failures()
    assert str(report).endswith(f"{len(report.outcomes)} checks, keeps the protocol")


# ---- memory


class Unaligned(Driver):
    def allocate(self, nbytes: int) -> int:
        return super().allocate(nbytes + 8) + 8


class OneBlock(Driver):
    """Every block of a size is the same."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, int] = {}

    def allocate(self, nbytes: int) -> int:
        if nbytes not in self.known:
            self.known[nbytes] = super().allocate(nbytes)
        return self.known[nbytes]

    def free(self, address: int) -> None:
        pass


class Leaking(Driver):
    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory(64 << 20)

    def free(self, address: int) -> None:
        pass


class Endless(Driver):
    def allocate(self, nbytes: int) -> int:
        return super().allocate(min(nbytes, 1 << 22))


# ---- copies


class ShortWrites(Driver):
    def write(self, queue: Queue, address: int, source: Any) -> None:
        super().write(queue, address, source[:-1])


class LongWrites(Driver):
    def write(self, queue: Queue, address: int, source: Any) -> None:
        def job() -> None:
            block = self.memory.find(address)
            first = address - block.address  # type: ignore[union-attr]
            block.memory[first : first + len(source)] = source  # type: ignore[union-attr]
            block.memory[first + len(source) : first + len(source) + 1] = 0  # type: ignore

        queue.start(job)


class CopiesOffByOne(Driver):
    def copy(self, queue: Queue, to: int, source: int, nbytes: int) -> None:
        super().copy(queue, to + 1, source, nbytes - 1)


class ReadsFromTheStart(Driver):
    """Reads do not know addresses in the middle of a block."""

    def read(self, queue: Queue, into: Any, address: int) -> None:
        block = self.memory.find(address)
        super().read(queue, into, block.address)  # type: ignore[union-attr]


# ---- queues and events


class Slow(Driver):
    """Writes take their time, so that what does not wait for them is seen."""

    def write(self, queue: Queue, address: int, source: Any) -> None:
        queue.start(lambda: time.sleep(0.01))
        super().write(queue, address, source)


class EventsThatDoNotWait(Slow):
    def synchronise(self, event: Event) -> None:
        if event.failure is not None:
            raise DeviceError(event.failure)


class EventsAlwaysReached(Slow):
    def is_reached(self, event: Event) -> bool:
        return True


class EventsNeverReached(Driver):
    def is_reached(self, event: Event) -> bool:
        return False


class QueuesThatDoNotWait(Slow):
    def wait(self, queue: Queue, event: Event) -> None:
        pass


class WritesByThemselves(Driver):
    """Large writes overtake, and are overtaken."""

    def write(self, queue: Queue, address: int, source: Any) -> None:
        if len(source) < 1 << 20:
            super().write(queue, address, source)
            return

        def late() -> None:
            with contextlib.suppress(DeviceError):  # the memory may have gone by then
                self.memory.bytes(address, len(source))[:] = source

        threading.Timer(0.005, late).start()


class ClockInMilliseconds(Driver):
    def seconds_between(self, start: Event, end: Event) -> float:
        return super().seconds_between(start, end) * 1000


class LostErrors(Driver):
    def synchronise(self, event: Event) -> None:
        event.reached.wait()


class ErrorsToldOnce(Driver):
    def synchronise(self, event: Event) -> None:
        event.reached.wait()
        failure, event.failure = event.failure, None
        if failure is not None:
            raise DeviceError(failure)


# ---- kernels


class LastItemMissing(Driver):
    def launch(self, queue: Queue, executable: Any, arguments: int, items: int) -> None:
        super().launch(queue, executable, arguments, max(items - 1, min(items, 1)))


class ItemsTwice(Driver):
    def run(self, program: Any, arguments: int, begin: int, end: int, worker: int) -> None:
        super().run(program, arguments, begin, end, worker)
        if begin == 0 and end > 2:
            super().run(program, arguments, end - 1, end, worker)


class WorkersBeyond(Driver):
    def run(self, program: Any, arguments: int, begin: int, end: int, worker: int) -> None:
        super().run(program, arguments, begin, end, worker + 1)


class OtherWords(Driver):
    """The last word of a launch does not come through."""

    def run(self, program: Any, arguments: int, begin: int, end: int, worker: int) -> None:
        if program.name == "all_words":
            self.memory.bytes(arguments + 24, 8).view(np.int64)[:] = 0
        super().run(program, arguments, begin, end, worker)


BROKEN: list[tuple[type[Driver], str, str]] = [
    (Unaligned, "memory", "which is no multiple of 64"),
    (OneBlock, "memory", "blocks overlap: 1 bytes at 0x"),
    (Leaking, "memory", "bytes asked for, "),
    (Endless, "memory", r"allocate\(2\*\*60\) gave 0x.*expected MemoryError"),
    (ShortWrites, "copies", r"1 bytes written and read are not the same\n.*the first at 0"),
    (
        LongWrites,
        "copies",
        r"a write of 100 bytes at offset 0 .* left something else there\n.*at 100",
    ),
    (CopiesOffByOne, "copies", r"a copy of 777 bytes to offset 0 .*\n.*the first at 0"),
    (ReadsFromTheStart, "copies", "a read of 100 bytes at offset 1"),
    (EventsThatDoNotWait, "queues and events", r"synchronise\(event\) returned before the read"),
    (EventsAlwaysReached, "queues and events", "is_reached said yes before the read in front"),
    (EventsNeverReached, "queues and events", "is_reached says no of an event that was waited for"),
    (QueuesThatDoNotWait, "queues and events", r"wait\(queue, event\) did not wait for the other"),
    (WritesByThemselves, "queues and events", "of one queue were not done in order"),
    (ClockInMilliseconds, "queues and events", "seconds_between is .* that the host saw take"),
    (LostErrors, "failures", "the error is lost"),
    (ErrorsToldOnce, "failures", "synchronise a second time behind it returned as if it had not"),
    (LastItemMissing, "kernels", "a launch of 2 items ran item 1 0 times, expected 1"),
    (ItemsTwice, "kernels", "a launch of 7 items ran item 2 2 times, expected 1"),
    (WorkersBeyond, "kernels", r"a worker is [12] to 2, expected 0 to 1 \(n_workers is 2\)"),
    (OtherWords, "kernels", r"the\s+words of a launch are addresses, integers and the bits"),
]


@pytest.mark.parametrize(
    ("driver", "section", "text"), BROKEN, ids=lambda x: getattr(x, "__name__", "")
)
def test_the_kit_says_what_is_wrong(
    checked: Any, driver: type[Driver], section: str, text: str
) -> None:
    report = checked(driver, section)
    with pytest.raises(AssertionError, match=text):
        report.raise_failures()
    assert "breaks it in" in str(report)


class WrongSquareRoot(Driver):
    """The square root is right but for its last bits of a few values."""

    class Core(Core):
        def instruction(self, instruction: Any) -> None:
            super().instruction(instruction)
            if instruction.op == "sqrt":
                self.values[instruction.number] = self.values[instruction.number] * np.float32(1.01)

    def run(self, program: Any, arguments: int, begin: int, end: int, worker: int) -> None:
        pointer = accelerator.Pointer(arguments, self.memory.find(arguments))
        numbers = [np.int64(begin), np.int64(end), np.int64(worker)]
        self.Core(self.memory).run(program, [pointer, *numbers])


def test_a_wrong_operation_is_named_with_its_value(checked: Any, monkeypatch: Any) -> None:
    known = check_tensors.cases
    monkeypatch.setattr(
        check_tensors, "cases",
        lambda every: (case for case in known(every) if case.op.name in ("sqrt", "exp", "add")),
    )  # fmt: skip
    report = checked(WrongSquareRoot, "operations")
    (failure,) = report.failures
    assert failure.check.name == "sqrt"
    assert "sqrt-0: the value differs in" in failure.fault
    assert "expected" in failure.fault
    assert "inputs" in failure.fault


class ErrorRecordLost(Driver):
    """What kernels write to the error record does not come back."""

    def read(self, queue: Queue, into: Any, address: int) -> None:
        if len(into) != 64:
            super().read(queue, into, address)


def test_a_lost_error_record_is_told(checked: Any) -> None:
    report = checked(ErrorRecordLost, "errors")
    assert "index 9 of 5 elements: reading the value raised nothing" in said(report)


def test_a_driver_that_lacks_a_method_is_told(checked: Any) -> None:
    class Lacking(Driver):
        @property
        def copy(self) -> Any:  # type: ignore[override]
            raise AttributeError("copy")

    report = checked(Lacking, "memory", "operations")
    assert "the driver has no `copy`" in said(report)
    assert len(report.outcomes) == 1, "nothing else is checked"


def test_all_that_is_missing_is_listed(checked: Any) -> None:
    class Beginning:
        target, n_workers, host_can_address = None, 1, False

        def make_queue(self) -> object:  # without one a device cannot be opened
            return object()

    beginning: Any = Beginning
    absent = ["allocate", "free", "write", "read", "copy", "record", "wait", "is_reached",
              "synchronise", "seconds_between"]  # fmt: skip
    text = ", ".join(f"`{name}`" for name in absent)
    assert f"the driver has no {text}\n" in said(checked(beginning))


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples.accelerator:BACKEND", "--only", "memory, copies"]) == 0
    shown = capsys.readouterr().out
    assert "  ok      copies: bytes there and back\n" in shown
    assert "accelerator: 9 checks, keeps the protocol\n" in shown
    assert main(["accelerator", "--only", "memory", "--quiet"]) == 0
    assert "ok " not in capsys.readouterr().out
    for arguments, text in (
        (["nowhere"], "'nowhere' is unknown"),
        (["cpu"], "there is no driver"),
        (["accelerator", "--only", "nothing"], "no section 'nothing'; there are memory"),
        (["absent.module:BACKEND"], "absent"),
    ):
        assert main(arguments) == 2
        assert text in capsys.readouterr().err


def test_it_is_short_and_used_from_anywhere() -> None:
    with open(accelerator.__file__, encoding="utf-8") as file:
        assert len(file.readlines()) < 400
    assert Device("accelerator").runtime is not None
