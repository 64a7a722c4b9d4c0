"""The driver of OpenCL: memory, order, errors, processes; what its compiler does to nobody."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.devices.opencl.on_device import driver

from bedplate.config import config
from bedplate.devices.opencl import BACKEND, executable
from bedplate.devices.opencl.api import Api, ClError
from bedplate.devices.opencl.build_server import question
from bedplate.devices.opencl.driver import Event, Queue
from bedplate.errors import DeviceError, InternalError, KernelError
from bedplate.kernel import f32, i64, kernel, load, local, loop, ptr, store, word_int, word_pointer
from bedplate.kernel.device.apart import Ended, Helpers, Refused
from bedplate.kernel.device.spirv import make_spirv, spirv_text


@kernel
def add_one(args: ptr(i64), begin: i64, end: i64, worker: i64):
    x = word_pointer(args, 0, i64)
    for i in loop(begin, end):
        store(x + i, load(x + i) + word_int(args, 1))


class Memory:
    """Words on the device, and back."""

    def __init__(self, device: Any, content: Any) -> None:
        self.device = device
        self.content = np.array(content, np.int64)
        self.address = device.allocate(self.content.nbytes)

    def write(self, queue: Any) -> None:
        self.device.write(queue, self.address, self.content.view(np.uint8))

    def read(self, queue: Any) -> list[int]:
        self.device.read(queue, self.content.view(np.uint8), self.address)
        self.device.synchronise(self.device.record(queue))
        return self.content.tolist()


def test_a_queue_keeps_its_order() -> None:
    device = driver()
    queue, run = device.make_queue(), device.compile(add_one.ir, "add_one")
    x = Memory(device, range(1000))
    words = Memory(device, [x.address, 3])
    other = Memory(device, [0] * 1000)
    for each in (x, words, other):
        assert each.address % 64 == 0
        each.write(queue)
    for _ in range(10):
        device.launch(queue, run, words.address, 1000)
    device.launch(queue, run, words.address, 0)
    device.copy(queue, other.address, x.address, 8000)
    assert other.read(queue) == [i + 30 for i in range(1000)]
    for each in (x, words, other):
        device.free(each.address)


def test_fewer_items_than_workers() -> None:
    device = driver()
    queue, run = device.make_queue(), device.compile(add_one.ir, "add_one")
    x, words = Memory(device, [5, 6, 7]), None
    words = Memory(device, [x.address, 1])
    x.write(queue)
    words.write(queue)
    device.launch(queue, run, words.address, 1)
    assert x.read(queue) == [6, 6, 7]


def test_queues_wait_for_events_and_events_tell_time() -> None:
    device = driver()
    first, second = device.make_queue(), device.make_queue()
    run = device.compile(add_one.ir, "add_one")
    x = Memory(device, [0] * 100_000)
    words = Memory(device, [x.address, 1])
    x.write(first)
    words.write(first)
    start = device.record(first)
    for _ in range(20):
        device.launch(first, run, words.address, 100_000)
        end = device.record(first)
        device.wait(second, end)
        device.launch(second, run, words.address, 100_000)
        device.wait(first, device.record(second))
    assert x.read(first) == [40] * 100_000
    assert device.is_reached(start) and device.is_reached(end)
    assert device.seconds_between(start, end) > 0


def test_several_threads_launch_one_executable() -> None:
    device, run = driver(), driver().compile(add_one.ir, "add_one")
    results: list[Any] = []

    def work(number: int) -> None:
        queue = device.make_queue()
        x = Memory(device, [0] * 64)
        words = Memory(device, [x.address, number])
        x.write(queue)
        words.write(queue)
        for _ in range(50):
            device.launch(queue, run, words.address, 64)
        results.append((number, x.read(queue)))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(i, [50 * i] * 64) for i in range(1, 5)]


def test_too_much_memory() -> None:
    with pytest.raises(MemoryError, match="opencl: no room for 35184372088832 bytes"):
        driver().allocate(1 << 45)


def test_the_largest_local_array() -> None:
    count = (1 << 20) // 4

    @kernel
    def run(args: ptr(i64), begin: i64, end: i64, worker: i64):
        place = local(f32, count)
        out = word_pointer(args, 0, f32)
        for i in loop(count):
            store(place + i, load(out) + 1)
        store(out + 1, load(place + (count - 1)))

    device = driver()
    queue, x = device.make_queue(), Memory(device, [np.float32(2).view(np.int32)])
    words = Memory(device, [x.address])
    x.write(queue)
    words.write(queue)
    device.launch(queue, device.compile(run.ir, "run"), words.address, 1)
    x.read(queue)
    assert x.content.view(np.float32)[1] == 3


def test_what_is_no_task_is_refused() -> None:
    @kernel
    def twice(x: ptr(f32)):
        store(x, load(x) * 2)

    with pytest.raises(KernelError, match=r"kernel twice: devices run tasks\n  legal: f\(args"):
        driver().compile(twice.ir, "twice")


def test_binaries_are_kept_and_damaged_ones_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = driver()
    with config(cache_dir=str(tmp_path)):
        device.compile(add_one.ir, "add_one")
        (kept,) = tmp_path.glob("kernels/*")
        text = spirv_text(add_one.ir, "add_one")
        executable.cache.write(device._compiler._key(text), b"no binary of any driver")
        device.compile(add_one.ir, "add_one")
        monkeypatch.setattr(executable, "_built", lambda asked: [1 / 0 for _ in asked])
        device.compile(add_one.ir, "add_one")
        kept.unlink()
        with pytest.raises(ZeroDivisionError):
            device.compile(add_one.ir, "add_one")


def test_several_kernels_are_made_side_by_side(tmp_path: Path) -> None:
    with config(cache_dir=str(tmp_path)):
        made = driver().compile_many([(add_one.ir, f"add_one_{i}") for i in range(5)])
    assert len({each._program for each in made}) == 5
    assert len(list(tmp_path.glob("kernels/*"))) == 5


# The helpers: their faults are errors here, and the next question is answered.


def test_a_compiler_that_ends_its_process_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    helpers = Helpers(*executable._builders._arguments)
    spirv = make_spirv(spirv_text(add_one.ir, "k"))
    assert helpers.ask(question(0, b"", spirv))
    with pytest.raises(Refused, match=r"clCreateProgramWithIL|clBuildProgram"):
        helpers.ask(question(0, b"", b"no SPIR-V"))
    (helper,) = helpers._free
    os.kill(helper.process.pid, signal.SIGSTOP)  # so that the question is asked before it ends
    killer = threading.Timer(0.2, os.kill, (helper.process.pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(Ended, match="the helper ended: signal 9"):
        helpers.ask(question(0, b"", spirv))
    killer.join()
    assert helpers.ask(question(0, b"", spirv))
    helpers.stop()

    def ended(self: Helpers, content: bytes) -> bytes:
        raise Ended("the helper ended: signal 11")

    monkeypatch.setattr(Helpers, "ask", ended)
    with pytest.raises(InternalError, match="LLVM makes no SPIR-V"):
        make_spirv("anything")
    monkeypatch.setattr(executable, "make_spirv", lambda text: spirv)
    with (
        config(cache_dir=""),
        pytest.raises(DeviceError, match=r"kernel add_one does not compile: .* signal 11"),
    ):
        driver().compile(add_one.ir, "add_one")


def test_a_module_that_ends_llvm_is_an_error() -> None:
    count = 'target triple = "spirv64v1.4-unknown-unknown"\ndefine spir_kernel void @f(i64 %n) {'
    with pytest.raises(
        InternalError, match=r"LLVM ended with 1: LLVM ERROR: .*variable_length_array"
    ):
        make_spirv(f"{count}\n  %a = alloca i64, i64 %n\n  store i64 1, ptr %a\n  ret void\n}}\n")
    with pytest.raises(InternalError, match=r"LLVM ended with 1: .*RuntimeError"):
        make_spirv('target triple = "spirv64v1.4-unknown-unknown"\nno text of LLVM')
    assert make_spirv(spirv_text(add_one.ir, "f"))[:4] == b"\x03\x02\x23\x07"


# Processes

_CHILD = """
import os
import bedplate as bp
from bedplate.devices.opencl import BACKEND
from bedplate.errors import DeviceError

assert BACKEND.count() >= 1
if os.fork() == 0:
    try:
        BACKEND.open(0)
    except DeviceError as error:
        print(error, flush=True)
    os._exit(BACKEND.count())
_, status = os.wait()
assert os.waitstatus_to_exitcode(status) == 0
x = bp.Tensor([1.0, 2.0], device="opencl") + 1
print(x.numpy())
"""


def test_a_forked_child_is_told_and_the_parent_goes_on() -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", _CHILD], capture_output=True, text=True, timeout=120
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert re.match(r"opencl: it was loaded before .*forked(.|\n)*\[2\. 3\.\]\n$", run.stdout)


def test_the_backend_says_what_there_is() -> None:
    assert BACKEND.count() >= 1
    with pytest.raises(DeviceError, match="opencl: there is no device 99"):
        BACKEND.open(99)


class BrokenApi:
    """Every function fails, as after a fault."""

    release = Api.release

    def __call__(self, name: str, *arguments: Any) -> Any:
        raise ClError(name, -5)

    number = __call__


def test_nothing_is_given_back_while_the_process_ends() -> None:
    called: list[str] = []

    class Counted(BrokenApi):
        def __call__(self, name: str, *arguments: Any) -> Any:
            called.append(name)

    Counted().release("clReleaseEvent", 1, lambda: True)
    assert called == []
    Counted().release("clReleaseEvent", 1)
    assert called == ["clReleaseEvent"]


def test_a_broken_driver_is_told_by_what_waits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    device = driver()
    api: Any = BrokenApi()
    queue = Queue(api, 1)
    event = Event(api, 2, queue)
    monkeypatch.setattr(device, "_api", api)
    assert device.is_reached(event)
    with pytest.raises(DeviceError, match="clWaitForEvents"):
        device.synchronise(event)
    del queue, event  # a finaliser that raised would be a warning, which is an error here
    gc.collect()
