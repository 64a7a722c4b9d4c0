"""The back end `opencl`: which devices there are, and how one is opened."""

from __future__ import annotations

from bedplate.devices.opencl.driver import OpenClDriver
from bedplate.devices.opencl.runtime import all_devices, devices, was_forked
from bedplate.errors import DeviceError


class OpenClBackend:
    """OpenCL devices that take SPIR-V and share plain addresses; see devices/backend.py."""

    name = "opencl"
    description = "the same kernels as SPIR-V, by an OpenCL driver"

    def count(self) -> int:
        return len(devices())

    def open(self, index: int) -> OpenClDriver:
        if was_forked():
            raise DeviceError(
                "opencl: it was loaded before this process was forked, and its threads are not "
                "in the child\n  start processes by spawn, or use OpenCL in one process only"
            )
        found = devices()
        if index < len(found):
            return OpenClDriver(found[index], index)
        others = [f"{each.name} lacks {', '.join(each.missing)}" for each in all_devices()
                  if each.missing]  # fmt: skip
        raise DeviceError("\n  ".join([f"opencl: there is no device {index}", *others]))


BACKEND = OpenClBackend()
