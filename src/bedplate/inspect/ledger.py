"""Ledger: who holds memory, and what was held when most of it was.

Every block that is made and freed while the ledger is open is counted, with the bytes that were
asked for. At a peak the blocks that live are noted; those are then told apart by who holds them: a
parameter, its gradient, the state of an optimiser. What a plan stored is an activation, what it
needs on the way a temporary; in the arena of a plan the two are told apart by who reads them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from bedplate.inspect.places import BACKWARD, FORWARD, OPTIMISER, module_of, phase_of
from bedplate.memory import Block, ForeignBlock
from bedplate.tensor import Tensor

PARAMETER, GRADIENT, ACTIVATION, OPTIMISER_STATE, TEMPORARY, DATA = (
    "parameter", "gradient", "activation", "optimiser state", "temporary", "data",
)  # fmt: skip
KINDS = (PARAMETER, GRADIENT, OPTIMISER_STATE, ACTIVATION, TEMPORARY, DATA)
NEW_PEAK = 1.01  # a peak that is less than so much above the last is not noted anew


@dataclass(slots=True, eq=False)
class Held:
    """A block, as long as it lives and in the notes of a peak.

    plan  whose arena it is
    """

    nbytes: int
    site: Any
    kind: str
    module: str = ""
    plan: Any = None


@dataclass(frozen=True, slots=True)
class Share:
    """Bytes that are one thing: the lines of a table are sums of these."""

    nbytes: int
    kind: str
    module: str
    site: Any


@dataclass(frozen=True, slots=True)
class Temporary:
    """A buffer in the arena of a plan, and the regions that it lives from and to."""

    nbytes: int
    offset: int
    first: int
    last: int
    kind: str
    site: Any


class Ledger:
    """See the head of this file.

    holders  gives the parameters and the optimisers' tensors there are: (tensor, kind, path)
    unnamed  there may be blocks whose holders nobody has looked for
    live     bytes; peak: the most that lived at once, begun: what lived before is not known

    What the allocator calls may run inside a finaliser, on any thread: it counts, and looks at
    nothing else. The holders are looked for outside the lock, since a finaliser may run meanwhile.
    """

    def __init__(self, holders: Callable[[], Iterable[tuple[Tensor, str, str]]]) -> None:
        self._holders = holders
        self._lock = threading.RLock()
        self._blocks: dict[int, Held] = {}
        self._by_address: dict[int, Held] = {}
        self.live = 0
        self.peak = 0
        self._noted = 0
        self.unnamed = False
        self._noted_anew = False
        self._notes: list[Held] = []

    # ---- what the allocator calls

    def made(self, block: Block) -> None:
        if isinstance(block, ForeignBlock):
            return
        held = Held(block.nbytes, block.site, DATA if block.site is not None else TEMPORARY,
                    module_of(block.site))  # fmt: skip
        with self._lock:
            self._blocks[id(block)] = held
            self._by_address[block.address] = held
            self.live += held.nbytes
            self.peak = max(self.peak, self.live)

    def gone(self, block: Block) -> None:
        with self._lock:
            if self.live > self._noted * NEW_PEAK:
                self._note()
            held = self._blocks.pop(id(block), None)
            if held is None:
                return
            if self._by_address.get(block.address) is held:
                del self._by_address[block.address]
            self.live -= held.nbytes

    def adopt(self) -> None:
        """Count what the parameters and the optimisers that are known held before."""
        for tensor, _kind, _path in list(self._holders()):
            block = tensor._node.block
            with self._lock:
                if isinstance(block, Block) and id(block) not in self._blocks:
                    self.made(block)
        self.name_holders()

    # ---- what a run tells

    def ran(self, info: Any, slots: Any) -> None:
        """A plan runs: `slots` are its addresses; its arena and outputs become known."""
        if self._noted_anew:
            self.name_holders()
        with self._lock:
            arena = self._by_address.get(slots[0])
            if arena is not None:
                arena.plan, arena.kind = info, TEMPORARY
            self.unnamed = True  # what it stores has its holders when it has run
            for slot, site in info.outputs if info is not None else ():
                held = self._by_address.get(slots[slot])
                if held is not None and held.kind == TEMPORARY:
                    held.kind, held.site, held.module = ACTIVATION, site, module_of(site)

    def name_holders(self) -> None:
        """Tell parameters, gradients and optimisers' state from the rest."""
        self.unnamed = self._noted_anew = False
        holders = list(self._holders())
        with self._lock:
            for tensor, kind, path in holders:
                self._name(tensor, kind, path)
                gradient = tensor._grad if kind == PARAMETER else None
                if gradient is not None:
                    self._name(gradient, GRADIENT, path)

    def _name(self, tensor: Tensor, kind: str, path: str) -> None:
        block = tensor._node.block
        held = self._by_address.get(block.address) if isinstance(block, Block) else None
        if held is not None:
            held.kind, held.module = kind, path

    # ---- what was held

    def _note(self) -> None:
        self._noted = self.live
        self.unnamed = self._noted_anew = True
        self._notes = list(self._blocks.values())

    def close(self) -> tuple[list[Share], list[Share]]:
        """What was held at the peak, and what is held now."""
        with self._lock:
            if self.live > self._noted:
                self._note()
        self.name_holders()
        with self._lock:
            notes, blocks = self._notes, list(self._blocks.values())
        return _shares(notes), _shares(blocks)


def _shares(blocks: Iterable[Held]) -> list[Share]:
    shares = []
    for held in blocks:
        if held.plan is None:
            shares.append(Share(held.nbytes, held.kind, held.module, held.site))
        else:
            shares += _arena_shares(held)
    return shares


def _arena_shares(held: Held) -> list[Share]:
    """The arena of a plan at the region where most of it lives."""
    shares = held.plan.fullest()
    rest = held.nbytes - sum(share.nbytes for share in shares)
    return [*shares, Share(rest, TEMPORARY, "", None)] if rest > 0 else shares


def fullest(temporaries: list[Temporary]) -> list[Share]:
    """What lives in an arena at the region where most does; of two in one place, one counts."""
    most: tuple[int, list[Temporary]] = (0, [])
    for region in sorted({each.first for each in temporaries}):
        live = {t.offset: t for t in temporaries if t.first <= region <= t.last}.values()
        total = sum(t.nbytes for t in live)
        if total > most[0]:
            most = total, list(live)
    return [Share(t.nbytes, t.kind, module_of(t.site), t.site) for t in most[1]]


def kind_of(site: Any, readers: set[str]) -> str:
    """What a value is that a plan keeps for itself.

    site     of the node
    readers  the phases that read it
    """
    phase = phase_of(site)
    if phase == FORWARD and BACKWARD in readers:
        return ACTIVATION
    if phase == BACKWARD and (OPTIMISER in readers):
        return GRADIENT
    return TEMPORARY
