"""The large tier: a mapping for each block, given back whole, at once or when room is needed.

Everything here runs under `ACCOUNT.lock`; Ctrl-C may end it after any call, see `medium.py`.
"""

from __future__ import annotations

from bedplate.memory.mapping import ACCOUNT, Account, Mapping

# A kept mapping serves requests that need at least so much of it.
LEAST_USE = 0.8


class Large:
    """See the head of this file.

    keeps       whether a mapping that is freed is kept for the next request of about its size
    kept        by address, the oldest first
    free_bytes  of those
    """

    def __init__(self, keeps: bool) -> None:
        self.keeps = keeps
        self.kept: dict[int, Mapping] = {}
        self.free_bytes = 0
        self._live: dict[int, Mapping] = {}

    # the default keeps the name alive while the interpreter shuts down
    def __del__(self, account: Account = ACCOUNT) -> None:
        with account.lock:
            account.free -= self.free_bytes

    @property
    def live_bytes(self) -> int:
        return sum([mapping.nbytes for mapping in self._live.values()])

    def take(self, nbytes: int) -> int | None:
        """The address of a kept mapping, now in use; None if none is of about that size."""
        best = None
        for mapping in self.kept.values():
            found = mapping.nbytes
            if LEAST_USE * found <= nbytes <= found and (best is None or found < best.nbytes):
                best = mapping
        return None if best is None else self.add(self.drop(best.address))

    def add(self, mapping: Mapping) -> int:
        """A mapping is in use."""
        self._live[mapping.address] = mapping
        return mapping.address

    def drop(self, address: int) -> Mapping:
        """A mapping is kept no longer."""
        mapping = self.kept[address]
        del self.kept[address]
        self.free_bytes -= mapping.nbytes
        ACCOUNT.free -= mapping.nbytes
        return mapping

    def give_back(self, address: int) -> None:
        """A mapping is no longer in use."""
        mapping = self._live.pop(address)
        if self.keeps:
            self.kept[address] = mapping
            self.free_bytes += mapping.nbytes
            ACCOUNT.free += mapping.nbytes
