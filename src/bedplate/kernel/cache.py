"""The cache of compiled objects on disk."""

from __future__ import annotations

from collections.abc import Callable


def fetch(text: str, make: Callable[[], bytes]) -> bytes:
    return make()
