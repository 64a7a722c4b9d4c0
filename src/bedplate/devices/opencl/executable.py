"""Kernels for an OpenCL device: from a traced program to what can be launched.

The driver's compiler takes 0.1 s for a kernel where reading its result back takes 3 ms, so
binaries are kept in the cache of compiled objects, under the digest of everything they depend on.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from bedplate.devices.opencl import api as cl
from bedplate.devices.opencl.api import ClError
from bedplate.errors import DeviceError
from bedplate.kernel import cache
from bedplate.kernel.device.spirv import make_spirv, spirv_text
from bedplate.kernel.ir import Program

# float32 division and roots rounded as IEEE 754 asks, where the device has it as an option
CORRECT_DIVISION = b"-cl-fp32-correctly-rounded-divide-sqrt"


class Executable:
    """A compiled kernel; it has its arguments set and is launched under its lock."""

    def __init__(self, api: Any, program: int, kernel: int) -> None:
        self.api = api
        self.kernel = kernel
        self.lock = threading.Lock()
        self._program = program
        true = ctypes.c_uint32(1)
        for kind in (cl.KERNEL_INDIRECT_HOST, cl.KERNEL_INDIRECT_DEVICE):
            api("clSetKernelExecInfo", kernel, kind, 4, ctypes.byref(true))

    def __del__(self) -> None:
        self.api("clReleaseKernel", self.kernel)
        self.api("clReleaseProgram", self._program)


class Compiler:
    """Makes executables for one device."""

    def __init__(self, api: Any, context: int, found: Any) -> None:
        self.api = api
        self.context = context
        self.device = found.device
        self.extensions = found.extensions
        self.identity = f"{found.platform_name}|{found.name}|{found.driver_version}"
        config = api.number("clGetDeviceInfo", found.device, cl.DEVICE_SINGLE_FP_CONFIG)
        self.options = CORRECT_DIVISION if config & cl.FP_CORRECT_DIVISION else b""

    def compile(self, program: Program, symbol: str) -> Executable:
        text = spirv_text(program, symbol)
        self._check(program, text)
        key = cache.key_of(f"{self.identity}|{self.options!r}|{text}")
        image = cache.read(key)
        if image is not None:
            try:
                return self._executable(self._from_binary(image), symbol)
            except ClError:  # of a driver that takes it no longer: made again
                pass
        try:
            built = self._build(make_spirv(text))
            cache.write(key, self._binary(built))
            return self._executable(built, symbol)
        except ClError as error:
            raise DeviceError(f"opencl: kernel {program.name} does not compile: {error}") from error

    def _check(self, program: Program, text: str) -> None:
        """raises DeviceError for a type or an instruction that the device does not have"""
        for word, extension, what in (
            (" half", "cl_khr_fp16", "float16"),
            ("atomicrmw", "cl_khr_int64_base_atomics", "atomics of 64 bits"),
        ):
            if word in text and extension not in self.extensions:
                raise DeviceError(f"opencl: kernel {program.name} needs {what} ({extension})")

    def _build(self, spirv: bytes) -> int:
        program = self.api("clCreateProgramWithIL", self.context, spirv, len(spirv))
        return self._built(program)

    def _from_binary(self, image: bytes) -> int:
        device = ctypes.c_void_p(self.device)
        size, status = ctypes.c_size_t(len(image)), ctypes.c_int32(0)
        text = ctypes.c_char_p(image)
        program = self.api(
            "clCreateProgramWithBinary", self.context, 1, ctypes.byref(device), ctypes.byref(size),
            ctypes.byref(text), ctypes.byref(status),
        )  # fmt: skip
        return self._built(program)

    def _built(self, program: int) -> int:
        device = ctypes.c_void_p(self.device)
        try:
            self.api("clBuildProgram", program, 1, ctypes.byref(device), self.options, None, None)
        except ClError:
            self.api("clReleaseProgram", program)
            raise
        return program

    def _binary(self, program: int) -> bytes:
        size = self.api.number("clGetProgramInfo", program, cl.PROGRAM_BINARY_SIZES)
        content = ctypes.create_string_buffer(size)
        pointer = ctypes.c_void_p(ctypes.addressof(content))
        self.api(
            "clGetProgramInfo", program, cl.PROGRAM_BINARIES, ctypes.sizeof(pointer),
            ctypes.byref(pointer), None,
        )  # fmt: skip
        return content.raw

    def _executable(self, program: int, symbol: str) -> Executable:
        try:
            kernel = self.api("clCreateKernel", program, symbol.encode())
        except ClError:
            self.api("clReleaseProgram", program)
            raise
        return Executable(self.api, program, kernel)
