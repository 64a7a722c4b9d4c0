"""Size classes: the few sizes that requests are rounded up to, so that freed memory fits again.

    64, 128, ... 512         one class every 64 bytes (the alignment, a cache line)
    576, 640, ... 1024, ...  eight classes to each doubling: at most 12.5 % is wasted

Three tiers, by who keeps what is freed:

| tier   | bytes            | carved from        | free list     |
|--------|------------------|--------------------|---------------|
| small  | up to 64 KiB     | slabs of 1 MiB     | one a thread  |
| medium | up to 1 MiB      | slabs of 8 MiB     | shared        |
| large  | more             | a mapping for each | shared, bounded |
"""

from __future__ import annotations

ALIGNMENT = 64
SMALL_BYTES = 1 << 16
MEDIUM_BYTES = 1 << 20
HUGE_PAGE_BYTES = 1 << 21
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
    rounded = round_up(nbytes, step)
    return rounded if rounded < HUGE_PAGE_BYTES else round_up(rounded, HUGE_PAGE_BYTES)


def _all_classes(limit: int) -> list[int]:
    sizes = [ALIGNMENT]
    while sizes[-1] < limit:
        sizes.append(class_bytes(sizes[-1] + 1))
    return sizes


# the classes of the small and medium tiers, and how many of them are small
SIZES = _all_classes(MEDIUM_BYTES)
N_SMALL = SIZES.index(SMALL_BYTES) + 1
INDEX = {size: index for index, size in enumerate(SIZES)}
# the small class of a request, by its number of cache lines
SMALL_CLASS = [INDEX[class_bytes(n * ALIGNMENT)] for n in range(SMALL_BYTES // ALIGNMENT + 1)]
