"""Owners: objects that own memory or work, which are never copied."""

from __future__ import annotations

from typing import Any


class Owner:
    """An owner of memory or of work on a device: copying and pickling it are refused in words."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        kind = type(self).__name__
        raise TypeError(
            f"{kind}: it cannot be copied or pickled: it owns memory or work of this process\n"
            "  copy the values instead, or make another"
        )
