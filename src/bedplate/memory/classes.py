"""Size classes: the few sizes that small requests are rounded up to, so that freed memory fits.

64, 128, ... 512         one class every 64 bytes (the alignment, a cache line)
576, 640, ... 1024, ...  eight classes to each doubling: at most 12.5 % is wasted
"""

from __future__ import annotations

ALIGNMENT = 64
PAGE_BYTES = 1 << 12
HUGE_PAGE_BYTES = 1 << 21
MEBIBYTE = 1 << 20
SMALL_BYTES = 1 << 16  # up to here a slab of a mebibyte holds many
STEPS = 8  # classes to each doubling


def round_up(nbytes: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is at least `nbytes`."""
    return -(-nbytes // multiple) * multiple


def class_bytes(nbytes: int) -> int:
    """The size of the class that serves a request of `nbytes` (at least one cache line).

    >>> class_bytes(0), class_bytes(65), class_bytes(1025)
    (64, 128, 1152)
    """
    if nbytes <= STEPS * ALIGNMENT:
        return round_up(max(nbytes, 1), ALIGNMENT)
    step = 1 << ((nbytes - 1).bit_length() - STEPS.bit_length())
    return round_up(nbytes, step)


class Classes:
    """The classes up to a bound.

    sizes    of each class in bytes, rising
    index    the number of the class of a size
    by_line  the number of the class of a request, by its cache lines; up to `TABLE_BYTES`
    """

    TABLE_BYTES = MEBIBYTE

    def __init__(self, bound_bytes: int) -> None:
        self.sizes = [ALIGNMENT]
        while self.sizes[-1] < bound_bytes:
            self.sizes.append(class_bytes(self.sizes[-1] + 1))
        self.index = {size: number for number, size in enumerate(self.sizes)}
        self.by_line = [0]
        for number, size in enumerate(self.sizes):
            if size > self.TABLE_BYTES:
                break
            self.by_line += [number] * (size // ALIGNMENT + 1 - len(self.by_line))

    def of(self, nbytes: int) -> int:
        """The number of the class of a request."""
        if nbytes <= self.TABLE_BYTES:
            return self.by_line[(nbytes + (ALIGNMENT - 1)) >> 6]
        return self.index[class_bytes(nbytes)]
