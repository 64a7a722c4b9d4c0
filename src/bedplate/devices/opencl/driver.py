"""The driver of one OpenCL device: memory, queues, events, launches.

Memory is that of cl_intel_unified_shared_memory: blocks have plain addresses, which kernels are
given as words. On a device that is the CPU they are host memory, which both sides address; on
others they are the device's own.

A kernel is launched as `n_workers` work items, one for each compute unit, and each does its share
of the task's items: see kernel/device/spirv.py.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int64, c_size_t, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any

from bedplate.devices.opencl import api as cl
from bedplate.devices.opencl.api import NO_ROOM, ClError
from bedplate.devices.opencl.executable import Compiler, Executable
from bedplate.devices.opencl.runtime import Found
from bedplate.errors import DeviceError
from bedplate.kernel.device.spirv import SPIRV

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from bedplate.kernel.ir import Program

    Bytes = NDArray[np.uint8]

ALIGNMENT = 64


class Queue:
    """An in-order queue."""

    def __init__(self, api: Any, handle: int) -> None:
        self.api = api
        self.handle = handle

    def __del__(self) -> None:
        self.api.release("clReleaseCommandQueue", self.handle)


class Event:
    """A point in a queue's work; the queue lives as long as it."""

    def __init__(self, api: Any, handle: int, queue: Queue) -> None:
        self.api = api
        self.handle = handle
        self.queue = queue

    def __del__(self) -> None:
        self.api.release("clReleaseEvent", self.handle)


class OpenClDriver:
    """One device; what each method does stands in devices/backend.py."""

    def __init__(self, found: Found, place: int) -> None:
        self.target = SPIRV
        self._found = found
        try:
            self._api = found.api.of_platform(found.platform)
            device = c_void_p(found.device)
            self._context = self._api("clCreateContext", None, 1, byref(device), None, None)
            units = self._number(cl.DEVICE_MAX_COMPUTE_UNITS)
            kind = self._number(cl.DEVICE_TYPE)
        except ClError as error:
            raise DeviceError(f"opencl: {found.name} does not open: {error}") from error
        self.n_workers = units
        self.host_can_address = bool(kind & cl.DEVICE_TYPE_CPU)
        self._compiler = Compiler(self._api, self._context, found, place, units)
        self._global, self._local = c_size_t(units), c_size_t(1)

    def __repr__(self) -> str:
        return f"<OpenClDriver {self._found.name}, {self._found.driver_version}>"

    def _number(self, what: int) -> int:
        return self._api.number("clGetDeviceInfo", self._found.device, what)

    def _call(self, name: str, *arguments: Any) -> Any:
        try:
            return self._api(name, *arguments)
        except ClError as error:
            raise DeviceError(f"opencl: {self._found.name}: {error}") from error

    # Memory

    def allocate(self, nbytes: int) -> int:
        kind = "clHostMemAllocINTEL" if self.host_can_address else "clDeviceMemAllocINTEL"
        where = () if self.host_can_address else (self._found.device,)
        try:
            address = self._api(kind, self._context, *where, None, nbytes, ALIGNMENT)
        except ClError as error:
            if error.code not in NO_ROOM:
                raise DeviceError(f"opencl: {self._found.name}: {error}") from error
            raise MemoryError(f"opencl: no room for {nbytes} bytes: {error}") from error
        return address

    def free(self, address: int) -> None:
        self._call("clMemBlockingFreeINTEL", self._context, address)

    # Work

    def make_queue(self) -> Queue:
        properties = (c_uint64 * 3)(cl.QUEUE_PROPERTIES, cl.QUEUE_PROFILING_ENABLE, 0)
        handle = self._call(
            "clCreateCommandQueueWithProperties", self._context, self._found.device, properties
        )
        return Queue(self._api, handle)

    def write(self, queue: Queue, address: int, source: Bytes) -> None:
        self.copy(queue, address, source.ctypes.data, source.nbytes)

    def read(self, queue: Queue, into: Bytes, address: int) -> None:
        self.copy(queue, into.ctypes.data, address, into.nbytes)

    def copy(self, queue: Queue, to: int, source: int, nbytes: int) -> None:
        if nbytes:
            self._call("clEnqueueMemcpyINTEL", queue.handle, 0, to, source, nbytes, 0, None, None)

    def compile(self, program: Program, symbol: str) -> Executable:
        return self.compile_many([(program, symbol)])[0]

    def compile_many(self, programs: Sequence[tuple[Program, str]]) -> list[Executable]:
        """As `compile`, for several at once: (program, symbol)."""
        return self._compiler.compile_many(programs)

    def launch(self, queue: Queue, executable: Executable, arguments: int, items: int) -> None:
        if items <= 0:
            return
        kernel = executable.take()
        try:
            for place, word in enumerate((arguments, items)):
                self._call("clSetKernelArg", kernel, place, 8, byref(c_int64(word)))
            self._call(
                "clEnqueueNDRangeKernel", queue.handle, kernel, 1, None, byref(self._global),
                byref(self._local), 0, None, None,
            )  # fmt: skip
        finally:
            executable.give_back(kernel)

    # Order

    def record(self, queue: Queue) -> Event:
        handle = c_void_p()
        self._call("clEnqueueMarkerWithWaitList", queue.handle, 0, None, byref(handle))
        self._call("clFlush", queue.handle)
        return Event(self._api, handle.value or 0, queue)

    def wait(self, queue: Queue, event: Event) -> None:
        if event.queue is not queue:
            handle = c_void_p(event.handle)
            self._call("clEnqueueBarrierWithWaitList", queue.handle, 1, byref(handle), None)

    def is_reached(self, event: Event) -> bool:
        try:
            status = self._api.number("clGetEventInfo", event.handle, cl.EVENT_STATUS)
        except ClError:  # of a driver that broke: `synchronise` says so
            return True
        return ctypes.c_int32(status).value <= 0

    def synchronise(self, event: Event) -> None:
        handle = c_void_p(event.handle)
        self._call("clWaitForEvents", 1, byref(handle))

    def seconds_between(self, start: Event, end: Event) -> float:
        times = [
            self._api.number("clGetEventProfilingInfo", each.handle, cl.PROFILING_END)
            for each in (start, end)
        ]
        return (times[1] - times[0]) * 1e-9
