"""The large tier: a mapping for each block, given back to the system with it.

Everything here runs under `ACCOUNT.lock`; Ctrl-C may end it after any call, see `medium.py`.
"""

from __future__ import annotations

from bedplate.memory.mapping import Mapping
from bedplate.memory.pressure import require_mapped


class Large:
    """See the head of this file."""

    def __init__(self) -> None:
        self._live: dict[int, Mapping] = {}

    @property
    def live_bytes(self) -> int:
        return sum([mapping.nbytes for mapping in self._live.values()])

    def take(self, nbytes: int) -> int:
        """The address of fresh pages.

        raises  MemoryError
        """
        while not require_mapped(nbytes):
            pass
        mapping = Mapping(nbytes)
        self._live[mapping.address] = mapping
        return mapping.address

    def give_back(self, address: int) -> None:
        """A mapping is no longer in use."""
        del self._live[address]
