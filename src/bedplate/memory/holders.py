"""What an out-of-memory error says: what was asked for and where, and who holds the most."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

from bedplate.memory.text import line_of, readable

N_SHOWN = 5


def out_of_memory(
    nbytes: int, in_use_bytes: int, limit_bytes: int, tiers: Iterable[Any], site: Any
) -> str:
    """The text of the error.

    nbytes  that were asked for
    tiers   whose holders are looked at
    site    where it was asked for, or None
    """
    asked = "" if site is None else f", asked for at {line_of(site)}"
    found = f"  in use {readable(in_use_bytes)} of {readable(limit_bytes)}"
    blocks = [made() for each in tiers for made in list(each.holders.values())]
    blocks = sorted([b for b in blocks if b is not None], key=lambda block: -block.nbytes)
    if blocks:
        found += "; the largest holders are"
    lines = [f"allocate: no memory for {readable(nbytes)}{asked}", found]
    lines += [f"  {readable(b.nbytes):>10}   {_described(b)}" for b in blocks[:N_SHOWN]]
    return "\n".join([*lines, "  use smaller tensors, drop what is no longer needed, or raise "
                      "the limit (bp.memory.limit)"])  # fmt: skip


def _described(block: Any) -> str:
    """Shape, dtype and line of the value that is in a block, as far as they are known."""
    site, value = block.site, ""
    for holder in gc.get_referrers(block):
        if getattr(holder, "block", None) is block and isinstance(holder.shape, tuple):
            value = f"{holder.shape} {holder.dtype}   "
            site = getattr(holder, "site", None) or site
            break
    return f"{value}made at {line_of(site)}"
