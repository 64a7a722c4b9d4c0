"""CUDA's driver interface by NVIDIA's own bindings, with its errors as Python's."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any


class CudaError(Exception):
    """A call of the driver that failed.

    code  its CUresult
    """

    def __init__(self, code: Any, text: str) -> None:
        super().__init__(text)
        self.code = code


class Api:
    """Calls functions of a module like `cuda.bindings.driver`.

    >>> class Driver:
    ...     @staticmethod
    ...     def cuDeviceGetCount():
    ...         return 0, 2
    >>> Api(Driver)("cuDeviceGetCount")
    2
    """

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def __call__(self, name: str, *arguments: Any) -> Any:
        """What the function gives behind its status: nothing, a value or a tuple.

        raises  CudaError
        """
        status, *found = getattr(self.driver, name)(*arguments)
        if int(status):
            raise CudaError(status, f"{name}: {self._words(status)}")
        return found[0] if len(found) == 1 else tuple(found) or None

    def release(
        self, name: str, handle: Any, is_finalizing: Callable[[], bool] = sys.is_finalizing
    ) -> None:
        """Give a handle back if there is one; what the driver does not take harms nobody.

        Nothing at the end of the process, which gives back all: the names of this file are gone.
        """
        if handle is not None and not is_finalizing():
            with contextlib.suppress(CudaError):
                self(name, handle)

    def _words(self, status: Any) -> str:
        words = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            failed, text = getattr(self.driver, name)(status)
            words.append(str(status) if int(failed) else text.decode(errors="replace"))
        return ": ".join(words)


@functools.cache
def api() -> Api | None:
    """The driver of this machine, or None where there is none.

    raises  ImportError where the bindings are not installed
    """
    driver = importlib.import_module("cuda.bindings.driver")
    found = Api(driver)
    try:
        found("cuInit", 0)
    except (CudaError, RuntimeError, OSError):  # the bindings raise where the library is absent
        return None
    return found


_FORKED: list[bool] = []  # holds something in a child of a process that had loaded the driver


def was_forked() -> bool:
    """Whether the driver was loaded before this process was forked: it works in neither then."""
    return bool(_FORKED)


def _after_fork() -> None:
    if api.cache_info().currsize and api() is not None:
        _FORKED.append(True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
