"""Finds OpenCL: a library of the system, or Intel's runtime for CPUs from PyPI.

The packages intel-opencl-rt, intel-cmplr-lib-rt and tbb put their libraries into the `lib` folder
of the environment, where no loader looks. So the libraries that the runtime needs are loaded here
by their paths first, for it alone (none of their names reaches other libraries), and its own is
named to the ICD loader by the environment variable OCL_ICD_FILENAMES, unless that is set. No file
is written.

The runtime's vectoriser, which would join several of our work items, is switched off by
CL_CONFIG_CPU_VECTORIZER_MODE=1, unless that is set: kernels are vectors already, and compile 18
times as fast (10 kernels of the op tests: 1.77 s each against 0.099 s, runtime 2026.2 on an AMD
EPYC of 2 cores).
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from bedplate.devices.opencl import api as cl
from bedplate.devices.opencl.api import Api, ClError

RUNTIME = "libintelocl.so"
# in the order in which they need each other
NEEDED = ("libintlc.so.5", "libimf.so", "libirng.so", "libsvml.so", "libtbb.so.12")
LOADER = "libOpenCL.so.1"
_lock = threading.RLock()
_loaded_in: list[int] = []  # the process that loaded OpenCL: its threads are not in a forked child


@dataclass(frozen=True)
class Found:
    """A device, and what is known of it before it is opened."""

    api: Api
    platform: int
    device: int
    name: str
    platform_name: str
    driver_version: str
    extensions: frozenset[str]

    @property
    def missing(self) -> list[str]:
        """What it would need to run kernels of ours, in words; empty if it has all."""
        api, device = self.api, self.device
        config = api.number("clGetDeviceInfo", device, cl.DEVICE_SINGLE_FP_CONFIG)
        needs = {
            "programs in SPIR-V": b"SPIR-V" in api.info(
                "clGetDeviceInfo", device, cl.DEVICE_IL_VERSION),
            "pointers that host and device share (cl_intel_unified_shared_memory)":
                "cl_intel_unified_shared_memory" in self.extensions,
            "float64": "cl_khr_fp64" in self.extensions,
            "subnormal numbers in float32": bool(config & cl.FP_DENORM),
        }  # fmt: skip
        return [what for what, has in needs.items() if not has]


@functools.cache
def _library() -> Api | None:
    """The ICD loader: that of the environment if Intel's runtime is there, else the system's."""
    folder = Path(sys.prefix) / "lib"
    try:
        if (folder / RUNTIME).exists() and (folder / LOADER).exists():
            return Api(_load_beside(folder))
        name = ctypes.util.find_library("OpenCL")
        return Api(ctypes.CDLL(name)) if name else None
    except (OSError, AttributeError):  # a library that does not load, or is of another kind
        return None


def _load_beside(folder: Path) -> ctypes.CDLL:
    for name in NEEDED:
        ctypes.CDLL(str(folder / name))
    os.environ.setdefault("OCL_ICD_FILENAMES", str(folder / RUNTIME))
    os.environ.setdefault("CL_CONFIG_CPU_VECTORIZER_MODE", "1")
    return ctypes.CDLL(str(folder / LOADER))


def _handles(api: Api, name: str, *of: object) -> list[int]:
    """The list that clGetPlatformIDs or clGetDeviceIDs gives; empty if there is none."""
    count = ctypes.c_uint32(0)
    try:
        api(name, *of, 0, None, ctypes.byref(count))
        made = (ctypes.c_void_p * count.value)()
        api(name, *of, count.value, made, None)
    except ClError:
        return []
    return [handle for handle in made if handle]


@functools.cache
def _all_devices() -> tuple[Found, ...]:
    api = _library()
    if api is None:
        return ()
    found = []
    for platform in _handles(api, "clGetPlatformIDs"):
        for device in _handles(api, "clGetDeviceIDs", platform, cl.DEVICE_TYPE_ALL):
            try:
                found.append(_describe(api, platform, device))
            except ClError:
                continue
    return tuple(found)


def _describe(api: Api, platform: int, device: int) -> Found:
    def text(what: int) -> str:
        return api.text("clGetDeviceInfo", device, what)

    return Found(
        api, platform, device, text(cl.DEVICE_NAME),
        api.text("clGetPlatformInfo", platform, cl.PLATFORM_NAME), text(cl.DRIVER_VERSION),
        frozenset(text(cl.DEVICE_EXTENSIONS).split()),
    )  # fmt: skip


def all_devices() -> tuple[Found, ...]:
    """Every OpenCL device of this machine; none in a child of a process that had loaded OpenCL."""
    with _lock:
        if not _loaded_in:
            _loaded_in.append(os.getpid())
        return () if was_forked() else _all_devices()


def was_forked() -> bool:
    """Whether OpenCL was loaded before this process was forked from its parent."""
    return bool(_loaded_in) and _loaded_in[0] != os.getpid()


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def devices() -> list[Found]:
    """Those that can run our kernels."""
    found = []
    for each in all_devices():
        try:
            if not each.missing:
                found.append(each)
        except ClError:
            continue
    return found
