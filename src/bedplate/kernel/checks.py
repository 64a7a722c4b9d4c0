"""Check mode (BEDPLATE_CHECK=1): machine code that tests every access to memory first.

A checked kernel takes hidden parameters: a record, and for each pointer parameter the memory
[low, high) that it may reach. An access through a pointer that was made from a parameter or a
local array by adding offsets must stay in that memory; any other access (through an address
loaded from memory, or a pointer held in a `var`) must lie in one of the record's ranges, if it
has any. An access that fails is left out (it reads 0), the first failure is noted in the record,
`while_` loops end, and the caller raises KernelBoundsError naming the kernel and the line.

Called from Python, the memory of NumPy arguments is known exactly. Native code that calls
`Compiled.address` (the plan runner) has no extents to pass: it names its memory with `watch`.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from bedplate.errors import KernelBoundsError
from bedplate.forks import renewed
from bedplate.kernel.context import line_of
from bedplate.kernel.ir import Instruction, Program
from bedplate.kernel.machine import out_of_bounds_text
from bedplate.kernel.types import element

# The record: failure (0 or a site's number + 1), address, low, high, number of ranges, then
# (low, high) of each.
HEAD_WORDS = 5
MAX_RANGES = 65536


class Sites:
    """Every access that checked code can fail at, by number, process-wide."""

    def __init__(self) -> None:
        self.known: list[tuple[str, Instruction, str]] = []
        self.lock = renewed(threading.Lock())

    def add(self, program: Program, instruction: Instruction, name: str) -> int:
        with self.lock:
            self.known.append((program.name, instruction, name))
            return len(self.known) - 1


sites = Sites()


class Record:
    """The memory of a check record."""

    def __init__(self, n_ranges: int) -> None:
        self.words = np.zeros(HEAD_WORDS + 2 * n_ranges, np.int64)

    @property
    def address(self) -> int:
        return self.words.ctypes.data

    def set_ranges(self, ranges: list[tuple[int, int]]) -> None:
        flat = [word for low, n_bytes in ranges for word in (low, low + n_bytes)]
        self.words[HEAD_WORDS : HEAD_WORDS + len(flat)] = flat
        self.words[HEAD_WORDS - 1] = len(ranges)

    def raise_failure(self) -> None:
        """Raise what was noted, once.

        raises KernelBoundsError if an access was out of range
        """
        failure, address, low, high = (int(word) for word in self.words[:4])
        if not failure:
            return
        self.words[0] = 0
        name, instruction, what = sites.known[failure - 1]
        where = f"kernel {name}: {instruction.op} at {line_of(instruction.site)}"
        size = element(instruction.operands[0].type).itemsize
        raise KernelBoundsError(
            out_of_bounds_text(where, instruction, address, size, what, low, high)
        )


# The record of kernels that are called by address, from native code.
shared = Record(MAX_RANGES)
_shared_lock = renewed(threading.RLock())


@contextmanager
def watch(ranges: Iterable[tuple[int, int]]) -> Iterator[None]:
    """Let checked kernels called by address use the memory (address, bytes) of `ranges` only.

    raises KernelBoundsError at the end if one of them read or wrote outside
    """
    with _shared_lock:
        shared.set_ranges(list(ranges)[:MAX_RANGES])
        try:
            yield
        finally:
            shared.words[HEAD_WORDS - 1] = 0
        shared.raise_failure()


def pointer_count(program: Program) -> int:
    """How many pairs of extents the checked twin of a program takes."""
    return sum(parameter.type.is_pointer for parameter in program.parameters)


def hidden_arguments(arrays: list[tuple[bool, Any]], record: Record) -> list[int]:
    """The words after a checked kernel's own: extents of its pointers, then the record.

    arrays  for each parameter: whether it is a pointer, and the argument given
    """
    words: list[int] = []
    ranges: list[tuple[int, int]] = []
    for is_pointer, value in arrays:
        if not is_pointer:
            continue
        if isinstance(value, np.ndarray):
            words += [value.ctypes.data, value.ctypes.data + value.nbytes]
            ranges.append((value.ctypes.data, value.nbytes))
        else:
            words += [0, 0]
    if len(ranges) == len(words) // 2:
        record.set_ranges(ranges)
    return [*words, record.address]


def hidden_types(program: Program) -> list[Any]:
    """The ctypes types of those words."""
    return [ctypes.c_int64] * (2 * pointer_count(program)) + [ctypes.c_void_p]
