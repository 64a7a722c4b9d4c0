"""Kernels for an OpenCL device: from a traced program to what can be launched.

The driver's compiler takes 0.1 s for a kernel where loading what it made takes 3 ms, so binaries
are kept in the cache of compiled objects, under the digest of everything they depend on. It works
in helpers (build_server.py), several side by side where several kernels are asked for.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bedplate.config import config
from bedplate.devices.opencl import api as cl
from bedplate.devices.opencl.api import ClError
from bedplate.devices.opencl.build_server import build, question
from bedplate.devices.opencl.runtime import Found
from bedplate.errors import DeviceError
from bedplate.kernel import cache
from bedplate.kernel.device.apart import Ended, Helpers, Refused
from bedplate.kernel.device.spirv import make_spirv, spirv_text
from bedplate.kernel.ir import Program

# float32 division and roots rounded as IEEE 754 asks, where the device has it as an option
CORRECT_DIVISION = "-cl-fp32-correctly-rounded-divide-sqrt"
MAX_HELPERS = 8  # each takes about 150 MB


class Executable:
    """A compiled kernel.

    Arguments are kept in OpenCL's kernel object until it is enqueued, so each launch that is under
    way has one of its own: taken from those that are free, or made.
    """

    def __init__(self, api: Any, program: int, symbol: str, n_workers: int) -> None:
        self._api = api
        self._program = program
        self._symbol = symbol.encode()
        self._n_workers = ctypes.c_int64(n_workers)
        self._all: list[int] = []
        self._free = [self._made()]

    def take(self) -> int:
        """A kernel object that nobody else uses, until it is given back."""
        try:
            return self._free.pop()
        except IndexError:
            return self._made()

    def give_back(self, kernel: int) -> None:
        self._free.append(kernel)

    def _made(self) -> int:
        api = self._api
        kernel = api("clCreateKernel", self._program, self._symbol)
        self._all.append(kernel)
        true = ctypes.c_uint32(1)
        for kind in (cl.KERNEL_INDIRECT_HOST, cl.KERNEL_INDIRECT_DEVICE):
            api("clSetKernelExecInfo", kernel, kind, 4, ctypes.byref(true))
        api("clSetKernelArg", kernel, 2, 8, ctypes.byref(self._n_workers))
        return kernel

    def __del__(self) -> None:
        for kernel in self._all:
            self._api.release("clReleaseKernel", kernel)
        self._api.release("clReleaseProgram", self._program)


class Compiler:
    """Makes executables for one device; `place` is its place among the devices."""

    def __init__(self, api: Any, context: int, found: Found, place: int, n_workers: int) -> None:
        self.api = api
        self.n_workers = n_workers
        self.context = context
        self.device = ctypes.c_void_p(found.device)
        self.extensions = found.extensions
        self.place = place
        self.identity = f"{found.platform_name}|{found.name}|{found.driver_version}"
        numbers = api.number("clGetDeviceInfo", found.device, cl.DEVICE_SINGLE_FP_CONFIG)
        self._always = CORRECT_DIVISION if numbers & cl.FP_CORRECT_DIVISION else ""

    @property
    def options(self) -> bytes:
        """Of the driver's compiler, as the calling thread has them."""
        return f"{self._always} {config.opencl_options}".strip().encode()

    def compile_many(self, programs: Sequence[tuple[Program, str]]) -> list[Executable]:
        """An executable for each (program, symbol), those in no cache made side by side."""
        texts = [self._text(program, symbol) for program, symbol in programs]
        images = [cache.read(self._key(text)) for text in texts]
        names = [program.name for program, _ in programs]
        self._make_missing(names, texts, images)
        return [
            self._executable(name, symbol, text, image or b"")
            for name, (_, symbol), text, image in zip(names, programs, texts, images, strict=True)
        ]

    def _make_missing(
        self, names: Sequence[str], texts: Sequence[str], images: list[bytes | None]
    ) -> None:
        missing = [place for place, image in enumerate(images) if image is None]
        asked = [(names[place], self.place, self.options, texts[place]) for place in missing]
        for place, image in zip(missing, _built(asked), strict=True):
            images[place] = image
            cache.write(self._key(texts[place]), image)

    def _text(self, program: Program, symbol: str) -> str:
        """raises DeviceError for a type or an instruction that the device does not have"""
        text = spirv_text(program, symbol)
        for word, extension, what in (
            (" half", "cl_khr_fp16", "float16"),
            ("atomicrmw", "cl_khr_int64_base_atomics", "atomics of 64 bits"),
        ):
            if word in text and extension not in self.extensions:
                raise DeviceError(f"opencl: kernel {program.name} needs {what} ({extension})")
        return text

    def _key(self, text: str) -> str:
        return cache.key_of(f"{self.identity}|{self.options!r}|{text}")

    def _executable(self, name: str, symbol: str, text: str, image: bytes) -> Executable:
        try:
            return self._loaded(symbol, image)
        except ClError:  # of a driver that takes what was kept no longer
            again: list[bytes | None] = [None]
            self._make_missing([name], [text], again)
            try:
                return self._loaded(symbol, again[0] or b"")
            except ClError as error:
                raise DeviceError(f"opencl: kernel {name} does not load: {error}") from error

    def _loaded(self, symbol: str, image: bytes) -> Executable:
        size, status = ctypes.c_size_t(len(image)), ctypes.c_int32(0)
        content = ctypes.c_char_p(image)
        program = self.api(
            "clCreateProgramWithBinary", self.context, 1, ctypes.byref(self.device),
            ctypes.byref(size), ctypes.byref(content), ctypes.byref(status),
        )  # fmt: skip
        try:
            build(self.api, program, self.device, self.options)
            return Executable(self.api, program, symbol, self.n_workers)
        except BaseException:
            self.api("clReleaseProgram", program)
            raise


Asked = tuple[str, int, bytes, str]  # kernel, place of the device, options, LLVM text


def _built(asked: Sequence[Asked]) -> list[bytes]:
    """The binaries of several kernels, several helpers at work."""
    if len(asked) < 2:
        return [_build_apart(each) for each in asked]
    with ThreadPoolExecutor(min(_n_helpers(), len(asked))) as pool:
        return list(pool.map(_build_apart, asked))


def _build_apart(asked: Asked) -> bytes:
    name, place, options, text = asked
    try:
        return _builders.ask(question(place, options, make_spirv(text)))
    except (Ended, Refused) as error:
        raise DeviceError(f"opencl: kernel {name} does not compile: {error}") from error


# the package may be known to this process alone, by its sys.path
_SERVE = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from bedplate.devices.opencl.build_server import main; main()"
)
_builders = Helpers("-c", _SERVE, str(Path(__file__).resolve().parents[3]))


def _n_helpers() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return min(cores, MAX_HELPERS)
