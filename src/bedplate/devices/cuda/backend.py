"""The back end `cuda`: which devices there are, and how one is opened."""

from __future__ import annotations

from bedplate.devices.cuda.api import CudaError, api, was_forked
from bedplate.devices.cuda.driver import CudaDriver
from bedplate.errors import DeviceError


class CudaBackend:
    """NVIDIA's GPUs; see devices/backend.py."""

    name = "cuda"
    description = "the same kernels as PTX, by NVIDIA's driver"

    def count(self) -> int:
        try:
            found = api()
            return 0 if found is None else int(found("cuDeviceGetCount"))
        except (ImportError, CudaError):
            return 0

    def open(self, index: int) -> CudaDriver:
        if was_forked():
            raise DeviceError(
                "cuda: the driver was loaded before this process was forked, and it does not work "
                "in the child\n  start processes by spawn, or use CUDA in one process only"
            )
        found = api()
        if found is None:
            raise DeviceError("cuda: NVIDIA's driver is not installed on this machine")
        return CudaDriver(found, index)


BACKEND = CudaBackend()
