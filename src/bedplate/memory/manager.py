"""MemoryManager: arrays in managed memory, beside tensors and without them."""

from __future__ import annotations

import math
import operator
import sys
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from bedplate.config import config
from bedplate.dtypes import DType, as_dtype, float32
from bedplate.errors import DTypeError, MemoryUseError, SettingError, ShapeError
from bedplate.memory.allocator import taken_from
from bedplate.memory.block import Block
from bedplate.memory.classes import MEBIBYTE
from bedplate.memory.mapping import ACCOUNT
from bedplate.memory.text import line_of, parse_bytes, readable
from bedplate.memory.tiers import Tiers
from bedplate.owners import Owner

SMALL, MEDIUM, LARGE = "small", "medium", "large"
# of NumPy's arrays; elements of 16 bytes at most
MOST_AXES, MOST_ELEMENTS = 64, 1 << 59


@dataclass(frozen=True, slots=True)
class BufferLeak:
    """A large buffer that was dropped, and should have been freed.

    shape    of the array
    nbytes   of it, also `bytes`
    tier     "large"
    line     where it was asked for, `file:line`
    """

    shape: tuple[int, ...]
    nbytes: int
    tier: str
    line: str

    @property
    def bytes(self) -> int:
        return self.nbytes

    def __str__(self) -> str:
        return f"{self.shape}, {readable(self.nbytes)}, {self.tier}, made at {self.line}"


@dataclass(frozen=True, slots=True)
class TierReport:
    """Bytes of one tier: in use (rounded up to what is set apart), and kept for reuse."""

    in_use_bytes: int
    kept_bytes: int


@dataclass(frozen=True, slots=True)
class ManagerReport:
    """What a manager has, by tier, and what leaked; as text a table."""

    tiers: dict[str, TierReport]
    leaks: list[BufferLeak]

    def __str__(self) -> str:
        lines = [f"{'tier':<8}{'in use':>12}{'kept':>12}"]
        for name, tier in self.tiers.items():
            in_use, kept = readable(tier.in_use_bytes), readable(tier.kept_bytes)
            lines.append(f"{name:<8}{in_use:>12}{kept:>12}")
        return "\n".join(lines + [f"leaked: {leak}" for leak in self.leaks])


class Buffer(Owner):
    """An array in a manager's memory. A context: `with manager.allocate(100) as buffer:` frees it.

    shape, dtype  of the array
    nbytes        of it
    tier          "small", "medium" or "large"
    """

    __slots__ = ("__weakref__", "_held", "_manager", "_site", "dtype", "nbytes", "shape", "tier")

    def __init__(
        self, manager: MemoryManager, block: Block, shape: tuple[int, ...], dtype: DType, tier: str
    ) -> None:
        self._held = [block]  # until it is freed
        self._manager = manager
        self._site = block.site
        self.shape, self.dtype, self.nbytes, self.tier = shape, dtype, block.nbytes, tier

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """A NumPy view of the buffer that may be written; its content is undefined at first.

        It keeps the memory: what `free` gives back is not used again while a view lives.

        raises  MemoryUseError after `free`
        """
        try:
            block = self._held[0]
        except IndexError:
            raise MemoryUseError(f"array: {self._named()} was freed before") from None
        return block.array(self.dtype, self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """What `numpy.asarray(buffer)` gives: `array`, without a copy unless the dtype differs.

        raises  ValueError if a copy is needed and refused; MemoryUseError after `free`
        """
        view = self.array
        if dtype is not None and view.dtype != dtype:
            if copy is False:
                raise ValueError(f"array: {self._named()} is no {dtype} without a copy")
            return view.astype(dtype)
        return view.copy() if copy else view

    @property
    def is_freed(self) -> bool:
        return not self._held

    def free(self) -> None:
        """Give the memory back; while a view of it lives, it goes with the last one.

        raises  MemoryUseError if it was freed before
        """
        try:
            self._held.pop()
        except IndexError:
            raise MemoryUseError(
                f"free: {self._named()} was freed before\n  free each buffer once, or not at all"
            ) from None

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._held:
            self.free()

    def __del__(self) -> None:
        # a tuple of plain values: what is found out about the line is found out when it is shown
        if self.tier == LARGE and self._held:
            self._manager._leaked.append((self.shape, self.nbytes, self._site))

    def _named(self) -> str:
        return f"the buffer {self.shape} {self.dtype}, made at {line_of(self._site)},"

    def __repr__(self) -> str:
        freed = ", freed" if self.is_freed else ""
        return f"<Buffer {self.shape} {self.dtype}, {readable(self.nbytes)}, {self.tier}{freed}>"


class MemoryManager(Owner):
    """Memory in three tiers, apart from the library's own; see `bedplate.memory.tiers`.

    small_bound   bytes, or a text such as "2 MiB", up to which a buffer is small: kept by its
                  thread for reuse; None: config.small_bound
    medium_bound  up to which it is medium: it goes back with its last reference, and is cut and
                  joined for requests of other sizes; above, it is large: `free` gives it back to
                  the system at once, and one that is dropped instead is given back and listed as a
                  leak; None: config.medium_bound
    raises        SettingError for what is no size, or if small_bound is above medium_bound

    It may be used from any thread, and a buffer freed on any. What it has counts within
    `bp.memory.limit`.

    >>> import bedplate as bp
    >>> manager = bp.MemoryManager()
    >>> buffer = manager.allocate((2, 3), bp.float64)
    >>> buffer.array[:] = 1
    >>> buffer.tier, buffer.array.sum().item()
    ('small', 6.0)
    >>> buffer.free()
    >>> manager.leaks()
    []
    """

    def __init__(
        self, small_bound: str | int | None = None, medium_bound: str | int | None = None
    ) -> None:
        small = config.small_bound * MEBIBYTE if small_bound is None else parse_bytes(small_bound)
        medium = config.medium_bound * MEBIBYTE
        medium = max(medium, small) if medium_bound is None else parse_bytes(medium_bound)
        if small > medium:
            raise SettingError(
                f"MemoryManager: small_bound ({readable(small)}) is above medium_bound "
                f"({readable(medium)})\n  give bounds that rise"
            )
        self._tiers = Tiers(small, medium)
        self._leaked: deque[tuple[tuple[int, ...], int, Any]] = deque()

    def allocate(self, shape: Any, dtype: Any = float32) -> Buffer:
        """A buffer for an array, aligned to 64 bytes, with undefined content.

        shape   a whole number, or several; none may be negative
        dtype   of Bedplate or NumPy, or its name
        raises  ShapeError, DTypeError; OutOfMemoryError, which lists the largest holders
        """
        sizes = _shape(shape)
        try:
            found = as_dtype(dtype)
        except (TypeError, ValueError) as error:
            raise DTypeError(f"allocate: {error}") from None
        nbytes = found.itemsize * math.prod(sizes)
        frame = sys._getframe(1)
        block = taken_from(self._tiers, nbytes, (frame.f_code, frame.f_lasti))
        return Buffer(self, block, sizes, found, self._tier(nbytes))

    def free(self, buffer: Buffer) -> None:
        """As `buffer.free()`.

        raises  MemoryUseError if it was freed before, or another manager made it; TypeError for
                what is no buffer
        """
        if not isinstance(buffer, Buffer):
            raise TypeError(f"free: expected a Buffer, got {type(buffer).__name__}")
        if buffer._manager is not self:
            raise MemoryUseError(
                f"free: {buffer!r} was made by another manager\n  give it to that, or call its free"
            )
        buffer.free()

    def leaks(self) -> list[BufferLeak]:
        """The large buffers that were dropped without `free`, the oldest first."""
        return [BufferLeak(shape, n, LARGE, line_of(site)) for shape, n, site in list(self._leaked)]

    def report(self) -> ManagerReport:
        """What is in use and what is kept for reuse, by tier, and what leaked."""
        tiers = self._tiers
        tiers.collect()
        with ACCOUNT.lock:
            small, medium, large = tiers.small, tiers.medium, tiers.large
            found = {
                SMALL: TierReport(small.live_bytes, small.free_bytes + small.ranges.free_bytes),
                MEDIUM: TierReport(medium.live_bytes, medium.free_bytes),
                LARGE: TierReport(large.live_bytes, 0),
            }
        return ManagerReport(found, self.leaks())

    def release(self) -> int:
        """Give all that is kept for reuse back to the system; buffers in use stay as they are.

        returns  the bytes that went back
        """
        return self._tiers.release()

    def __repr__(self) -> str:
        tiers = self.report().tiers.values()
        in_use = readable(sum(tier.in_use_bytes for tier in tiers))
        kept = readable(sum(tier.kept_bytes for tier in tiers))
        return f"<MemoryManager: {in_use} in use, {kept} kept, {len(self._leaked)} leaked>"

    def _tier(self, nbytes: int) -> str:
        if nbytes <= self._tiers.small_bytes:
            return SMALL
        return MEDIUM if nbytes <= self._tiers.medium_bytes else LARGE


def _shape(shape: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(shape) if isinstance(shape, list | tuple) else (shape,)
        sizes = tuple([operator.index(size) for size in sizes])
    except TypeError:
        raise ShapeError(f"allocate: shape {shape!r} is not made of whole numbers") from None
    if any(size < 0 for size in sizes):
        raise ShapeError(f"allocate: shape {shape!r} has a negative size")
    if len(sizes) > MOST_AXES or (0 in sizes and math.prod(filter(None, sizes)) >= MOST_ELEMENTS):
        raise ShapeError(
            f"allocate: NumPy has no array of shape {shape!r}: it takes {MOST_AXES} axes, and "
            f"sizes whose product, zeros left out, is below {MOST_ELEMENTS}"
        )
    return sizes
