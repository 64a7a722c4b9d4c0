"""`limit`: how much memory this process may have."""

from __future__ import annotations

from typing import Any

from bedplate.config import config
from bedplate.errors import SettingError
from bedplate.memory.classes import MEBIBYTE
from bedplate.memory.text import parse_bytes
from bedplate.memory.tiers import release_all


class limit:
    """Let this process have so much memory and no more; as a context, until it ends.

    size    "4GiB", "512 MiB" or a number of bytes, rounded up to whole MiB; None: what the machine
            or its control group has
    raises  SettingError if it is no size, or nothing

    It holds at once, for all threads and all tiers, memory managers included: what is in use and
    what is kept for reuse. What is kept goes back to the system first; then `OutOfMemoryError` is
    raised where the request was made, and everything stays usable. Memory that NumPy owns (arrays
    that are shared with a tensor, what the device `reference` computes) does not count.

    It sets `config.memory_limit`; a `with config(memory_limit=...)` of one thread goes before it.

    >>> import bedplate as bp
    >>> with bp.memory.limit("64 MiB"):
    ...     bp.zeros(1 << 28).realise()
    Traceback (most recent call last):
    ...
    bedplate.errors.OutOfMemoryError: allocate: no memory for 1.0 GiB...
    """

    def __init__(self, size: str | int | None) -> None:
        nbytes = 0 if size is None else parse_bytes(size)
        if size is not None and nbytes == 0:
            raise SettingError("memory: a limit of 0 leaves nothing\n  give None for no limit")
        self._before = config.memory_limit
        config.set(memory_limit=-(-nbytes // MEBIBYTE))
        release_all()

    def __enter__(self) -> limit:
        return self

    def __exit__(self, *error: Any) -> None:
        config.set(memory_limit=self._before)
