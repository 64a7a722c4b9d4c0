"""The domain of a kernel: the axes along which all its accesses move by one stride each.

Accesses enumerate the same elements with different pairs of (size, stride). `aligned` finds
the common refinement, cuts every access to it, and then joins neighbouring axes that every
access walks through without a jump, so that a contiguous chain of [B, T, D] is one long loop.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from bedplate.compiler.access import Dims

Strides = list[int]


def cuts_of(dims: Dims) -> set[int]:
    """The numbers of elements after which a new pair begins, counted from the innermost."""
    cuts, below = set(), 1
    for size, _ in reversed(dims):
        below *= size
        cuts.add(below)
    return cuts


def compatible(cuts: Iterable[int]) -> bool:
    """Whether axes exist that end at each of the cuts: each must divide the next."""
    ordered = sorted(cuts)
    if 0 in ordered:
        return True  # nothing is there to be walked
    return all(b % a == 0 for a, b in itertools.pairwise(ordered))


def steps_of(shape: Sequence[int], total: int) -> set[int]:
    """Where the axes of a shape cut a domain of `total` elements, which may have more columns."""
    below = max(total // max(math.prod(shape), 1), 1)
    steps = {1, total, below}
    for length in reversed(shape):
        below *= length
        steps.add(below)
    return steps


def inside(cuts: Iterable[int], cols: int) -> set[int]:
    """The cuts that part the columns of one row."""
    return {cut for cut in cuts if 1 < cut < cols}


def aligned(accesses: Sequence[Dims], total: int) -> tuple[list[int], list[Strides]] | None:
    """The sizes of the common axes, outermost first, and for each access its strides along them.

    returns  None if the accesses have no common axes
    """
    cuts = {total}
    for dims in accesses:
        cuts |= cuts_of(dims)
    if not compatible(cuts):
        return None
    sizes, below = [], 1
    for cut in sorted(cuts):
        sizes.insert(0, cut // below)
        below = cut
    strides = [_refined(dims, sizes) for dims in accesses]
    return _collapsed([s for s in sizes], strides)


def _refined(dims: Dims, sizes: list[int]) -> Strides:
    """The strides of an access along axes that are finer than its own."""
    result: Strides = []
    pairs = list(dims)
    left, stride = pairs.pop() if pairs else (1, 0)
    for size in reversed(sizes):
        if left == 1 and pairs:
            left, stride = pairs.pop()
        result.insert(0, stride)
        left //= size
        stride *= size
    return result


def _collapsed(sizes: list[int], strides: list[Strides]) -> tuple[list[int], list[Strides]]:
    keep = [i for i, size in enumerate(sizes) if size != 1]
    axes: list[int] = []
    out: list[Strides] = [[] for _ in strides]
    for i in keep:
        joined = bool(axes) and all(
            o[-1] == s[i] * sizes[i] for o, s in zip(out, strides, strict=True)
        )
        if joined:
            axes[-1] *= sizes[i]
        else:
            axes.append(sizes[i])
        for o, s in zip(out, strides, strict=True):
            if joined:
                o[-1] = s[i]
            else:
                o.append(s[i])
    return axes, out
