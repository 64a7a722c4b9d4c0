"""The helper that has the driver compile SPIR-V; see kernel/device/apart.py.

A driver's compiler that meets a fault of its own ends the process that it runs in. So it runs in
this one: what it makes goes back as a binary, which the asking process only loads.

A question is the number of the device, the length of the options, the options, the SPIR-V.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import Any

from bedplate.devices.opencl import api as cl
from bedplate.devices.opencl.api import ClError
from bedplate.devices.opencl.runtime import devices
from bedplate.kernel.device import apart

HEAD = struct.Struct("<II")


def question(device: int, options: bytes, spirv: bytes) -> bytes:
    """What is asked: a binary for a device, by its place among the devices."""
    return HEAD.pack(device, len(options)) + options + spirv


def serve(source: Any, target: Any) -> None:
    """Answer questions until there are no more."""
    builders: dict[tuple[int, bytes], Builder] = {}
    while True:
        try:
            _, content = apart.read(source)
        except EOFError:
            return
        device, size = HEAD.unpack_from(content)
        options, spirv = content[HEAD.size : HEAD.size + size], content[HEAD.size + size :]
        try:
            if (device, options) not in builders:
                builders[device, options] = Builder(device, options)
            answer = b"+", builders[device, options].binary(spirv)
        except Exception as error:
            answer = b"-", f"{error}".encode()
        apart.write(target, *answer)


class Builder:
    """The driver's compiler, for one device and set of options."""

    def __init__(self, device: int, options: bytes) -> None:
        found = devices()[device]
        self.api, self._options = found.api, options
        self._device = ctypes.c_void_p(found.device)
        self._context = self.api("clCreateContext", None, 1, ctypes.byref(self._device), None, None)

    def binary(self, spirv: bytes) -> bytes:
        """raises ClError, with what the compiler says"""
        program = self.api("clCreateProgramWithIL", self._context, spirv, len(spirv))
        try:
            build(self.api, program, self._device, self._options)
            size = self.api.number("clGetProgramInfo", program, cl.PROGRAM_BINARY_SIZES)
            content = ctypes.create_string_buffer(size)
            pointer = ctypes.c_void_p(ctypes.addressof(content))
            self.api(
                "clGetProgramInfo", program, cl.PROGRAM_BINARIES, ctypes.sizeof(pointer),
                ctypes.byref(pointer), None,
            )  # fmt: skip
            return content.raw
        finally:
            self.api("clReleaseProgram", program)


def build(api: Any, program: int, device: ctypes.c_void_p, options: bytes) -> None:
    """Make a program ready to run.

    raises ClError, with what the compiler says
    """
    try:
        api("clBuildProgram", program, 1, ctypes.byref(device), options, None, None)
    except ClError as error:
        error.add(api.text("clGetProgramBuildInfo", program, device, cl.PROGRAM_BUILD_LOG))
        raise


def main() -> None:
    """The helper's program."""
    serve(sys.stdin.buffer, sys.stdout.buffer)
