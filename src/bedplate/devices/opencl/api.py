"""The functions of OpenCL that the back end calls, through ctypes.

Numbers and signatures are those of the headers CL/cl.h and CL/cl_ext.h (OpenCL 3.0, and
cl_intel_unified_shared_memory). A call that fails raises ClError; ctypes lets other threads run
while one is in a call.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable
from ctypes import c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

U32, U64, SIZE, HANDLE, TEXT = c_uint32, c_uint64, c_size_t, c_void_p, c_char_p

PLATFORM_NAME = 0x0902
DEVICE_TYPE_ALL, DEVICE_TYPE_CPU = 0xFFFFFFFF, 2
DEVICE_TYPE, DEVICE_MAX_COMPUTE_UNITS, DEVICE_NAME = 0x1000, 0x1002, 0x102B
DEVICE_EXTENSIONS, DRIVER_VERSION = 0x1030, 0x102D
DEVICE_SINGLE_FP_CONFIG, DEVICE_IL_VERSION = 0x101B, 0x105B
FP_DENORM, FP_CORRECT_DIVISION = 1, 128
QUEUE_PROPERTIES, QUEUE_PROFILING_ENABLE = 0x1093, 2
PROGRAM_BUILD_LOG, PROGRAM_BINARY_SIZES, PROGRAM_BINARIES = 0x1183, 0x1165, 0x1166
KERNEL_INDIRECT_HOST, KERNEL_INDIRECT_DEVICE = 0x4200, 0x4201
EVENT_STATUS, PROFILING_END = 0x11D3, 0x1283

_ERRORS = {
    -1: "DEVICE_NOT_FOUND", -2: "DEVICE_NOT_AVAILABLE", -3: "COMPILER_NOT_AVAILABLE",
    -4: "MEM_OBJECT_ALLOCATION_FAILURE", -5: "OUT_OF_RESOURCES", -6: "OUT_OF_HOST_MEMORY",
    -9: "IMAGE_FORMAT_NOT_SUPPORTED", -11: "BUILD_PROGRAM_FAILURE",
    -14: "EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST", -30: "INVALID_VALUE", -33: "INVALID_DEVICE",
    -34: "INVALID_CONTEXT", -36: "INVALID_COMMAND_QUEUE", -42: "INVALID_BINARY",
    -43: "INVALID_BUILD_OPTIONS", -44: "INVALID_PROGRAM", -46: "INVALID_KERNEL_NAME",
    -54: "INVALID_WORK_GROUP_SIZE", -58: "INVALID_EVENT", -59: "INVALID_OPERATION",
    -61: "INVALID_BUFFER_SIZE", -1001: "PLATFORM_NOT_FOUND",
}  # fmt: skip
NO_ROOM = (-4, -5, -6, -61)  # the errors that `allocate` tells as MemoryError


class ClError(Exception):
    """A call of OpenCL that failed.

    code  the number that it gave
    """

    def __init__(self, function: str, code: int) -> None:
        super().__init__(f"{function}: {_ERRORS.get(code, 'error')} ({code})")
        self.code = code

    def add(self, words: str) -> None:
        """Add what else is known, on lines of its own."""
        self.args = ("\n  ".join([str(self), *words.split("\n")[:20]]),)


# name -> (argument types, whether the result is an object and the last argument the code)
_FUNCTIONS: dict[str, tuple[tuple[Any, ...], bool]] = {
    "clGetPlatformIDs": ((U32, HANDLE, HANDLE), False),
    "clGetPlatformInfo": ((HANDLE, U32, SIZE, HANDLE, HANDLE), False),
    "clGetDeviceIDs": ((HANDLE, U64, U32, HANDLE, HANDLE), False),
    "clGetDeviceInfo": ((HANDLE, U32, SIZE, HANDLE, HANDLE), False),
    "clCreateContext": ((HANDLE, U32, HANDLE, HANDLE, HANDLE, HANDLE), True),
    "clCreateCommandQueueWithProperties": ((HANDLE, HANDLE, HANDLE, HANDLE), True),
    "clReleaseCommandQueue": ((HANDLE,), False),
    "clCreateProgramWithIL": ((HANDLE, TEXT, SIZE, HANDLE), True),
    "clCreateProgramWithBinary": (
        (HANDLE, U32, HANDLE, HANDLE, HANDLE, HANDLE, HANDLE), True,
    ),
    "clBuildProgram": ((HANDLE, U32, HANDLE, TEXT, HANDLE, HANDLE), False),
    "clGetProgramInfo": ((HANDLE, U32, SIZE, HANDLE, HANDLE), False),
    "clGetProgramBuildInfo": ((HANDLE, HANDLE, U32, SIZE, HANDLE, HANDLE), False),
    "clReleaseProgram": ((HANDLE,), False),
    "clCreateKernel": ((HANDLE, TEXT, HANDLE), True),
    "clReleaseKernel": ((HANDLE,), False),
    "clSetKernelArg": ((HANDLE, U32, SIZE, HANDLE), False),
    "clSetKernelExecInfo": ((HANDLE, U32, SIZE, HANDLE), False),
    "clEnqueueNDRangeKernel": (
        (HANDLE, HANDLE, U32, HANDLE, HANDLE, HANDLE, U32, HANDLE, HANDLE), False,
    ),
    "clEnqueueMarkerWithWaitList": ((HANDLE, U32, HANDLE, HANDLE), False),
    "clEnqueueBarrierWithWaitList": ((HANDLE, U32, HANDLE, HANDLE), False),
    "clFlush": ((HANDLE,), False),
    "clWaitForEvents": ((U32, HANDLE), False),
    "clGetEventInfo": ((HANDLE, U32, SIZE, HANDLE, HANDLE), False),
    "clGetEventProfilingInfo": ((HANDLE, U32, SIZE, HANDLE, HANDLE), False),
    "clReleaseEvent": ((HANDLE,), False),
}  # fmt: skip
_OF_THE_PLATFORM: dict[str, tuple[tuple[Any, ...], bool]] = {
    "clHostMemAllocINTEL": ((HANDLE, HANDLE, SIZE, U32, HANDLE), True),
    "clDeviceMemAllocINTEL": ((HANDLE, HANDLE, HANDLE, SIZE, U32, HANDLE), True),
    "clMemBlockingFreeINTEL": ((HANDLE, HANDLE), False),
    "clEnqueueMemcpyINTEL": (
        (HANDLE, U32, HANDLE, HANDLE, SIZE, U32, HANDLE, HANDLE), False,
    ),
}  # fmt: skip


class Api:
    """The functions of one loaded libOpenCL: `api("clFlush", queue)`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._functions = {
            name: _typed(getattr(library, name), *signature)
            for name, signature in _FUNCTIONS.items()
        }
        self._makes = {
            name: makes for name, (_, makes) in {**_FUNCTIONS, **_OF_THE_PLATFORM}.items()
        }

    def __call__(self, name: str, *arguments: Any) -> Any:
        """Call a function; one that makes an object gives it, and its code is not passed.

        raises ClError
        """
        if self._makes[name]:
            code = c_int32(0)
            made = self._functions[name](*arguments, ctypes.byref(code))
            if code.value:
                raise ClError(name, code.value)
            return made
        code_given = self._functions[name](*arguments)
        if code_given:
            raise ClError(name, code_given)
        return None

    def release(
        self, name: str, handle: Any, is_finalizing: Callable[[], bool] = sys.is_finalizing
    ) -> None:
        """Give a handle back; a driver that does not take it harms nobody.

        Nothing at the end of the process, which gives back all: the names of this file are gone.
        """
        if not is_finalizing():
            with contextlib.suppress(ClError):
                self(name, handle)

    def of_platform(self, platform: int) -> Api:
        """The same functions, and those of the platform's own for memory.

        raises ClError if it does not have them
        """
        found = Api(self._library)
        find = self._library.clGetExtensionFunctionAddressForPlatform
        find.argtypes, find.restype = [HANDLE, TEXT], HANDLE
        for name, (types, makes) in _OF_THE_PLATFORM.items():
            address = find(platform, name.encode())
            if not address:
                raise ClError(name, -59)
            result = HANDLE if makes else c_int32
            found._functions[name] = ctypes.CFUNCTYPE(result, *types)(address)
        return found

    def info(self, name: str, *of: Any) -> bytes:
        """What a clGet...Info function tells, as bytes."""
        size = SIZE(0)
        self(name, *of, 0, None, ctypes.byref(size))
        content = ctypes.create_string_buffer(max(size.value, 1))
        self(name, *of, size.value, content, None)
        return content.raw[: size.value]

    def text(self, name: str, *of: Any) -> str:
        return self.info(name, *of).rstrip(b"\0").decode(errors="replace")

    def number(self, name: str, *of: Any) -> int:
        return int.from_bytes(self.info(name, *of), "little")


def _typed(function: Any, types: tuple[Any, ...], makes: bool) -> Callable[..., Any]:
    function.argtypes = list(types)
    function.restype = HANDLE if makes else c_int32
    return function
