"""A CUDA driver for tests: the functions of `cuda.bindings.driver` that the back end calls, on a
loopback device. Names, enumerations and numbers of arguments are those of the real bindings, which
need no GPU to be imported; what a kernel does, its machine code for this processor does, or, of a
kernel for blocks of threads, the interpreter.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import sys
from typing import Any

import numpy as np
from cuda.bindings import driver as real

from bedplate.devices.cuda.api import Api
from bedplate.devices.cuda.driver import CudaDriver, Executable
from bedplate.errors import DeviceError
from bedplate.kernel.blocks import interpret_block
from bedplate.testing.loopback import LoopbackBackend

CAPABILITY = {"MAJOR": 9, "MINOR": 0, "MULTIPROCESSOR_COUNT": 2}
OK = real.CUresult.CUDA_SUCCESS


def n_arguments(name: str) -> int:
    """How many arguments a function of the real bindings takes, by its documentation."""
    inside = re.match(r"\w+\((.*)\)", getattr(real, name).__doc__).group(1)
    inside = re.sub(r"\[[^\]]*\[[^\]]*\][^\]]*\]|\[[^\]]*\]", "", inside)
    return len(inside.split(",")) if inside else 0


def bytes_at(address: int, nbytes: int) -> Any:
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


class FakeDriver:
    """In the place of the module `cuda.bindings.driver`."""

    CUresult = real.CUresult
    CUdevice_attribute = real.CUdevice_attribute
    CUevent_flags = real.CUevent_flags

    def __init__(self, capacity_bytes: int = 1 << 32) -> None:
        backend = LoopbackBackend("inside", capacity_bytes=capacity_bytes)
        self.device = backend.open(0)
        self.pinned: dict[int, Any] = {}
        self.modules: dict[int, bytes] = {}
        self._numbers = itertools.count(1)
        self._context = 0
        self.faulty = False  # a kernel failed: every call does from here on
        self.live = 0  # streams, events and modules
        self.launched: list[tuple[int, int]] = []  # blocks and threads of each launch

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if not name.startswith("cu"):
            return found

        def call(*arguments: Any) -> Any:
            if sys.is_finalizing():
                return (OK,)
            assert len(arguments) == n_arguments(name), (name, arguments)
            if self.faulty:
                return (real.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,)
            try:
                given = found(*arguments)
            except MemoryError:
                return (real.CUresult.CUDA_ERROR_OUT_OF_MEMORY,)
            except DeviceError:
                return (real.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,)
            return (
                (OK, *given) if isinstance(given, tuple) else (OK, given)[: 1 + (given is not None)]
            )

        return call if name not in ("cuEventQuery", "cuGetErrorName", "cuGetErrorString") else found

    def cuInit(self, flags: int) -> None: ...

    def cuDeviceGetCount(self) -> int:
        return 1

    def cuDeviceGet(self, index: int) -> int:
        if index:
            raise DeviceError("there is one")
        return 7

    def cuDeviceGetAttribute(self, kind: Any, device: int) -> int:
        assert device == 7
        return next(v for k, v in CAPABILITY.items() if kind.name.endswith(k))

    def cuDevicePrimaryCtxRetain(self, device: int) -> int:
        return 11

    def cuCtxSetCurrent(self, context: int) -> None:
        assert context == 11

    def cuGetErrorName(self, status: Any) -> Any:
        return OK, status.name.encode()

    def cuGetErrorString(self, status: Any) -> Any:
        return OK, b"a fault"

    def cuMemAllocAsync(self, nbytes: int, stream: Any) -> int:
        return self.device.allocate(nbytes)

    def cuMemFreeAsync(self, address: int, stream: Any) -> None:
        self.device.free(address)

    def cuMemAllocHost(self, nbytes: int) -> int:
        memory = np.zeros(nbytes, np.uint8)
        self.pinned[memory.ctypes.data] = memory
        return memory.ctypes.data

    def cuMemFreeHost(self, address: int) -> None:
        del self.pinned[address]

    def cuStreamCreate(self, flags: int) -> Any:
        assert flags == int(real.CUstream_flags.CU_STREAM_NON_BLOCKING)
        self.live += 1
        return self.device.make_queue()

    def cuStreamDestroy(self, stream: Any) -> None:
        self.live -= 1

    def cuStreamSynchronize(self, stream: Any) -> None:
        self.device.synchronise(self.device.record(stream))

    def cuMemcpyHtoDAsync(self, to: int, source: int, nbytes: int, stream: Any) -> None:
        assert any(a <= source and source + nbytes <= a + m.nbytes for a, m in self.pinned.items())
        self.device.write(stream, to, bytes_at(source, nbytes))

    def cuMemcpyDtoHAsync(self, to: int, source: int, nbytes: int, stream: Any) -> None:
        self.device.read(stream, bytes_at(to, nbytes), source)

    def cuMemcpyDtoDAsync(self, to: int, source: int, nbytes: int, stream: Any) -> None:
        self.device.copy(stream, to, source, nbytes)

    def cuModuleLoadDataEx(self, image: bytes, count: int, options: Any, values: Any) -> int:
        assert image.endswith(b"\0") and b".target sm_90" in image
        self.live += 1
        number = next(self._numbers)
        self.modules[number] = image
        return number

    def cuModuleGetFunction(self, module: int, name: bytes) -> Any:
        image = self.modules[module]
        assert b".entry " + name + b"(" in image
        threads = re.search(rb"\.reqntid (\d+)", image)
        return {"threads": int(threads[1]) if threads else None}

    def cuModuleUnload(self, module: int) -> None:
        self.live -= 1
        del self.modules[module]

    def cuLaunchKernel(self, function: Any, *rest: Any) -> None:
        grid, block, (shared, stream, words, extra) = rest[:3], rest[3:6], rest[6:]
        assert grid[1:] == block[1:] == (1, 1) and shared == extra == 0
        (arguments, items, workers), types = words
        assert types == (ctypes.c_int64,) * 3
        if function["threads"] is None:
            assert workers == grid[0] * block[0]
        else:
            assert workers == grid[0] <= items and block[0] == function["threads"]
        self.launched.append((grid[0], block[0]))
        self.device.n_workers = min(workers, 3)
        self.device.launch(stream, function["native"], arguments, items)

    def cuEventCreate(self, flags: int) -> Any:
        self.live += 1
        return [None]

    def cuEventDestroy(self, event: Any) -> None:
        self.live -= 1

    def cuEventRecord(self, event: Any, stream: Any) -> None:
        event[0] = self.device.record(stream)

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> None:
        self.device.wait(stream, event[0])

    def cuEventQuery(self, event: Any) -> Any:
        reached = event[0] is None or self.device.is_reached(event[0])
        return (OK if reached else real.CUresult.CUDA_ERROR_NOT_READY,)

    def cuEventSynchronize(self, event: Any) -> None:
        self.device.synchronise(event[0])

    def cuEventElapsedTime(self, start: Any, end: Any) -> float:
        return self.device.seconds_between(start[0], end[0]) * 1e3


class FakeCuda(CudaDriver):
    """The real driver of the back end over the fake; kernels have machine code beside their PTX."""

    def compile(self, program: Any, symbol: str) -> Executable:
        executable = super().compile(program, symbol)
        device = self._api.driver.device
        native = self._interpreted(program) if executable.warps else device.compile(program, symbol)
        executable.function["native"] = native
        return executable

    def _interpreted(self, program: Any) -> tuple[Any, None]:
        mappings = self._api.driver.device._mappings

        def run(arguments: int, begin: int, end: int, worker: int) -> None:
            if begin < end:
                memory = [bytes_at(m.address, m.nbytes) for m in list(mappings.values())]
                interpret_block(program, (arguments, begin, end, worker), memory)

        return run, None


class FakeBackend:
    """The back end `fakecuda`."""

    name = "fakecuda"
    description = "the CUDA back end on a loopback device"

    def __init__(self, capacity_bytes: int = 1 << 32) -> None:
        self.driver = FakeDriver(capacity_bytes)

    def count(self) -> int:
        return 1

    def open(self, index: int) -> FakeCuda:
        return FakeCuda(Api(self.driver), index)


BACKEND = FakeBackend()  # one a process: a name is registered once
