"""Any kernel, called on the OpenCL device instead of this processor: the tests of the language run
once more with it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from bedplate.devices.opencl import BACKEND
from bedplate.kernel import (
    bitcast,
    call,
    cast,
    f64,
    i1,
    i64,
    kernel,
    ptr,
    store,
    u8,
    u16,
    word_float,
    word_int,
)
from bedplate.kernel.arguments import Convention, from_bits


@functools.cache
def driver() -> Any:
    return BACKEND.open(0)


class OnDevice:
    """What stands for `Compiled`: a kernel's arguments go to the device as words of a task."""

    def __init__(self, called: Any) -> None:
        self.convention = convention = Convention(called.name, called.ir)

        @kernel
        def task(args: ptr(i64), begin: i64, end: i64, worker: i64):
            values = [argument(args, i, type_) for i, type_ in enumerate(convention.types)]
            result = call(called, *values)
            if convention.result is not None:
                store(args + len(values), word_of(result))

        self.executable = driver().compile(task.ir, "task")

    def __call__(self, *args: Any) -> Any:
        convention = self.convention
        words = [
            np.float64(word).view(np.int64) if type_.is_float and type_.bits > 16
            else np.uint64(word % (1 << 64)).view(np.int64)
            for word, type_ in zip(convention.convert(args), convention.types, strict=True)
        ]  # fmt: skip
        device = driver()
        content = np.array([*words, 0], np.int64)
        address = device.allocate(content.nbytes)
        queue = device.make_queue()
        try:
            device.write(queue, address, content.view(np.uint8))
            device.launch(queue, self.executable, address, 1)
            device.read(queue, content.view(np.uint8), address)
            device.synchronise(device.record(queue))
        finally:
            device.free(address)
        return number(convention.result, content[-1])


def argument(args: Any, index: int, type_: Any) -> Any:
    """Word `index` as a value of a parameter's type."""
    if type_.is_pointer:
        return cast(word_int(args, index), type_)
    if type_.is_narrow_float:
        return bitcast(cast(word_int(args, index), u16), type_)
    if type_.is_float:
        return cast(word_float(args, index), type_)
    return cast(word_int(args, index), type_)


def word_of(value: Any) -> Any:
    """A result as a word."""
    type_ = value.type
    if type_.is_narrow_float:
        return cast(bitcast(value, u16), i64)
    if type_.is_float:
        return bitcast(cast(value, f64), i64)
    if type_ is i1:
        return cast(cast(value, u8), i64)
    return cast(value, i64)


def number(type_: Any, word: Any) -> Any:
    """A word as the Python number that the kernel gives back."""
    if type_ is None:
        return None
    if type_.is_narrow_float:
        return from_bits(type_, int(word) & 0xFFFF)
    if type_.is_float:
        return float(word.view(np.float64))
    if type_.is_pointer or not type_.is_signed:
        return bool(word) if type_ is i1 else int(word.view(np.uint64)) % (1 << type_.bits)
    return bool(word) if type_ is i1 else int(word)
