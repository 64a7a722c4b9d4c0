"""The driver of one NVIDIA GPU: memory, streams, events, launches.

Memory comes from the driver's own pool, in the order of a stream that only allocates. Copies from
the host go through page-locked buffers (staging.py). A kernel is launched as `n_workers` threads,
each of which does its share of the task's items: see kernel/device/ptx.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bedplate.devices.cuda.api import Api, CudaError
from bedplate.devices.cuda.staging import Staging
from bedplate.errors import DeviceError
from bedplate.kernel import cache
from bedplate.kernel.blocks import warps_of
from bedplate.kernel.device.ptx import architecture, make_ptx, ptx_text, target_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bedplate.kernel.ir import Program

    Bytes = NDArray[np.uint8]

WARP = 32  # threads
THREADS = WARP  # of a block: one warp, so that threads with nothing to do cost no others
# Blocks for each multiprocessor: each can have 4 warps run at a time. Scratch memory is there once
# for each thread, so that more would not fit what large products ask for.
BLOCKS_PER_MULTIPROCESSOR = 4


class Stream:
    """An in-order stream."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.handle: Any = None  # for the finaliser, if none is made
        self.handle = api("cuStreamCreate", 1)  # CU_STREAM_NON_BLOCKING

    def __del__(self) -> None:
        self.api.release("cuStreamDestroy", self.handle)


class Event:
    """A point in a stream's work."""

    def __init__(self, api: Api, stream: Stream) -> None:
        self.api = api
        self.handle: Any = None  # for the finaliser, if none is made
        self.handle = api("cuEventCreate", 0)
        self.stream = stream
        api("cuEventRecord", self.handle, stream.handle)

    def __del__(self) -> None:
        self.api.release("cuEventDestroy", self.handle)


class Executable:
    """A loaded module and the function in it.

    warps  of a block that does an item; 0: each thread does items by itself
    """

    def __init__(self, api: Api, module: Any, function: Any, warps: int) -> None:
        self.api, self._module, self.function, self.warps = api, module, function, warps

    def __del__(self) -> None:
        self.api.release("cuModuleUnload", self._module)


class CudaDriver:
    """One device; what each method does stands in devices/backend.py."""

    host_can_address = False

    def __init__(self, api: Api, index: int) -> None:
        self._api = api
        try:
            device = api("cuDeviceGet", index)
            kinds = api.driver.CUdevice_attribute
            numbers = [
                int(api("cuDeviceGetAttribute", kind, device))
                for kind in (
                    kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                    kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                    kinds.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                )
            ]
            self._context = api("cuDevicePrimaryCtxRetain", device)
            self._architecture = architecture(*numbers[:2])
            self._n_blocks = numbers[2] * BLOCKS_PER_MULTIPROCESSOR
            self._enter()
            self._allocating = Stream(api)
            self._staging = Staging(api)
        except CudaError as error:
            raise DeviceError(f"cuda: device {index} does not open: {error}") from error
        self.index = index
        self.target = target_of(self._architecture)
        self.n_workers = self._n_blocks * THREADS

    def __repr__(self) -> str:
        return f"<CudaDriver {self.index}, {self._architecture}>"

    def _enter(self) -> None:
        """The driver's calls go to the context of the calling thread."""
        self._api("cuCtxSetCurrent", self._context)

    def _run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function that calls the driver gives.

        raises  DeviceError
        """
        try:
            self._enter()
            return function(*arguments)
        except CudaError as error:
            raise DeviceError(f"cuda:{self.index}: {error}") from error

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._run(self._api, name, *arguments)

    # Memory

    def allocate(self, nbytes: int) -> int:
        no_room = self._api.driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY
        try:
            self._enter()
            address = int(self._api("cuMemAllocAsync", nbytes, self._allocating.handle))
            self._api("cuStreamSynchronize", self._allocating.handle)
        except CudaError as error:
            if int(error.code) == int(no_room):
                raise MemoryError(f"cuda:{self.index}: no room for {nbytes} bytes") from error
            raise DeviceError(f"cuda:{self.index}: {error}") from error
        return address

    def free(self, address: int) -> None:
        self._call("cuMemFreeAsync", address, self._allocating.handle)

    # Work

    def make_queue(self) -> Stream:
        return self._run(Stream, self._api)

    def write(self, queue: Stream, address: int, source: Bytes) -> None:
        self._run(self._staging.write, queue.handle, address, source.ctypes.data, source.nbytes)

    def read(self, queue: Stream, into: Bytes, address: int) -> None:
        if into.nbytes:
            where = into.ctypes.data
            self._call("cuMemcpyDtoHAsync", where, address, into.nbytes, queue.handle)

    def copy(self, queue: Stream, to: int, source: int, nbytes: int) -> None:
        if nbytes:
            self._call("cuMemcpyDtoDAsync", to, source, nbytes, queue.handle)

    def compile(self, program: Program, symbol: str) -> Executable:
        text = ptx_text(program, symbol, self._architecture)
        key = cache.key_of(text)
        ptx = cache.read(key)
        if ptx is None:
            ptx = make_ptx(text).encode()
            cache.write(key, ptx)
        module = self._call("cuModuleLoadDataEx", ptx + b"\0", 0, [], [])
        function = self._call("cuModuleGetFunction", module, symbol.encode())
        return Executable(self._api, module, function, warps_of(program))

    def launch(self, queue: Stream, executable: Executable, arguments: int, items: int) -> None:
        if items <= 0:
            return
        n_blocks, threads, workers = self._n_blocks, THREADS, self.n_workers
        if executable.warps:
            n_blocks = workers = min(items, n_blocks)
            threads = WARP * executable.warps
        words = ((arguments, items, workers), (ctypes.c_int64,) * 3)
        self._call(
            "cuLaunchKernel", executable.function, n_blocks, 1, 1, threads, 1, 1, 0,
            queue.handle, words, 0,
        )  # fmt: skip

    # Order

    def record(self, queue: Stream) -> Event:
        return self._run(Event, self._api, queue)

    def wait(self, queue: Stream, event: Event) -> None:
        if event.stream is not queue:
            self._call("cuStreamWaitEvent", queue.handle, event.handle, 0)

    def is_reached(self, event: Event) -> bool:
        try:
            self._enter()
        except CudaError:  # after a fault all work is done, badly: `synchronise` says so
            return True
        (status,) = self._api.driver.cuEventQuery(event.handle)
        return int(status) != int(self._api.driver.CUresult.CUDA_ERROR_NOT_READY)

    def synchronise(self, event: Event) -> None:
        self._call("cuEventSynchronize", event.handle)

    def seconds_between(self, start: Event, end: Event) -> float:
        return float(self._call("cuEventElapsedTime", start.handle, end.handle)) * 1e-3
