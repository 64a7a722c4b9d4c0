"""Staging: page-locked memory of the host that copies to the device start from.

From ordinary memory the driver copies while the caller waits; from page-locked memory the device
fetches by itself, beside its other work. A buffer is used again once the copy from it is done.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bedplate.devices.cuda.api import Api

SMALLEST = 1 << 16  # bytes
LARGEST = 1 << 26  # what is larger is copied in pieces of this


class Buffer:
    """Page-locked memory; `event` is behind the last copy from it."""

    def __init__(self, api: Api, nbytes: int) -> None:
        self._api, self.nbytes = api, nbytes
        self.address: Any = None  # for the finaliser, if it or the event is not made
        self.event: Any = None
        self.address = int(api("cuMemAllocHost", nbytes))
        self.event = api("cuEventCreate", api.driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)

    def __del__(self) -> None:
        self._api.release("cuEventDestroy", self.event)
        self._api.release("cuMemFreeHost", self.address)


class Staging:
    """Buffers by size, those in use in the order in which their copies were started."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._free: dict[int, list[Buffer]] = {}
        self._used: deque[Buffer] = deque()

    def write(self, stream: Any, address: int, source: int, nbytes: int) -> None:
        """Start a copy of host memory to the device; the memory may change afterwards."""
        for start in range(0, nbytes, LARGEST):
            size = min(LARGEST, nbytes - start)
            buffer = self._take(size)
            ctypes.memmove(buffer.address, source + start, size)
            self._api("cuMemcpyHtoDAsync", address + start, buffer.address, size, stream)
            self._api("cuEventRecord", buffer.event, stream)
            with self._lock:
                self._used.append(buffer)

    def _take(self, nbytes: int) -> Buffer:
        size = max(1 << (nbytes - 1).bit_length(), SMALLEST)
        with self._lock:
            self._collect()
            free = self._free.get(size)
            if free:
                return free.pop()
        return Buffer(self._api, size)

    def _collect(self) -> None:
        """Free the buffers whose copies are done, from the oldest on."""
        success = int(self._api.driver.CUresult.CUDA_SUCCESS)
        while self._used:
            (status,) = self._api.driver.cuEventQuery(self._used[0].event)
            if int(status) != success:
                return
            buffer = self._used.popleft()
            self._free.setdefault(buffer.nbytes, []).append(buffer)
