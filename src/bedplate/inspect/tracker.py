"""Tracker: counts memory while somebody wants it counted; one for all who do.

It marks nodes with module and phase (places.py), keeps the ledger (ledger.py), and learns of each
plan what its arena holds. While nobody tracks nothing of this is there: hooks are None, and the
maker and the finaliser of blocks are their own.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from bedplate.compiler.plan import Plan
from bedplate.compiler.realise import clear_plans
from bedplate.devices.block import DeviceBlock
from bedplate.inspect.census import Census, take
from bedplate.inspect.ledger import (
    ACTIVATION,
    DATA,
    GRADIENT,
    OPTIMISER_STATE,
    PARAMETER,
    TEMPORARY,
    Ledger,
    Named,
)
from bedplate.inspect.places import Places
from bedplate.inspect.plan_info import PlanInfo, info_of
from bedplate.memory import observe_blocks
from bedplate.observer import hooks

# The holders are listed anew after so many times that they were asked for, and when a module or an
# optimiser is new, one of them is gone, or somebody wants a report.
REFRESH = 256
UNKNOWN = (-1, -1)  # in place of numbers of modules and optimisers


class Tracker:
    """See the head of this file; `tracking` gives the one that runs."""

    def __init__(self) -> None:
        self.places = Places(lambda: self.ledger.name_if_made())
        self.ledger = Ledger(self.holders, self.info)
        self._infos: weakref.WeakKeyDictionary[Any, PlanInfo] = weakref.WeakKeyDictionary()
        self._known: list[tuple[weakref.ref[Any], str, str]] = []
        self._asked = 0
        self._n_places = UNKNOWN

    def start(self) -> None:
        """Watch; if that fails half-way, what was done is undone."""
        clear_plans()  # those that are made from here on are known in full
        with ExitStack() as undo:
            undo.callback(self.places.restore)
            self.places.install()
            undo.callback(
                observe_blocks(self.ledger.made, self.ledger.gone, self.ledger.made_together)
            )
            undo.callback(_observe_device_blocks(self.ledger))
            self._adopt()
            undo.callback(hooks.clear)
            self.listen()
            self._undo = undo.pop_all()

    def listen(self) -> None:
        """Set the hooks that it needs, and no others."""
        hooks.clear()
        hooks.site, hooks.gradient = self.places.site, self.places.gradient
        hooks.planned = self.note_plan

    def stop(self) -> None:
        """Everything runs as before."""
        self._undo.close()

    # ---- what the hooks call

    def note_plan(self, plan: Plan, regions: Any, buffers: Any) -> None:
        self.planned(plan, regions, buffers)

    def planned(self, plan: Plan, regions: Any, buffers: Any) -> PlanInfo:
        """Note what is known of a plan."""
        info = self._infos[plan.arena_site] = info_of(plan, regions, buffers)
        return info

    def info(self, site: Any) -> PlanInfo | None:
        """What is known of the plan whose arena has this for a site."""
        return self._infos.get(site)

    # ---- who holds what

    def holders(self) -> Named:
        """(block, kind, module path) of parameters, buffers, gradients and optimisers' state."""
        n_places = len(self.places.roots), len(self.places.optimisers)
        self._asked += 1
        if self._asked % REFRESH == 0 or n_places != self._n_places:
            self._n_places = n_places
            self._known = [(weakref.ref(t), kind, path) for t, kind, path in self._listed()]
        named: Named = []
        for reference, kind, path in self._known:
            tensor = reference()
            if tensor is None:
                self._n_places = UNKNOWN
                continue
            block = tensor._node.block
            if block is not None:
                named.append((id(block), kind, path))
            gradient = tensor._grad
            if gradient is not None and gradient._node.block is not None:
                named.append((id(gradient._node.block), GRADIENT, path))
        return named

    def _listed(self) -> Iterator[tuple[Any, str, str]]:
        paths: dict[int, str] = {}
        roots, optimisers = self.places.known()
        for root, kind in roots:
            for name, tensor in [*root.named_parameters(), *root.named_buffers()]:
                path = f"{kind}.{name}".rpartition(".")[0]
                paths[id(tensor)] = path
                yield tensor, PARAMETER, path
        for optimiser in optimisers:
            tensors = [p for group in optimiser.param_groups for p in group["params"]]
            for parameter, state in zip(tensors, list(optimiser.state), strict=False):
                path = paths.get(id(parameter), "")
                if not path:
                    yield parameter, PARAMETER, path
                for tensor in list(state.values()):
                    yield tensor, OPTIMISER_STATE, path

    def _adopt(self) -> None:
        """Count what lived before."""
        census = take()
        self.ledger.adopt(
            (block, census.site(block), kind_of_block(census, block), census.device(block))
            for block in census.blocks.values()
        )

    def settle(self) -> Census:
        """The blocks that live; the ledger gets the lines that it does not know."""
        self._n_places = UNKNOWN
        census = take()
        self.ledger.settle({key: node.site for key, node in census.nodes.items()})
        return census


def kind_of_block(census: Census, block: Any) -> str:
    """What a block is as far as it can be told from itself."""
    node = census.nodes.get(id(block))
    if node is None:
        return DATA if block.site is not None else TEMPORARY
    return DATA if node.op.kind == "leaf" and block.site is not None else ACTIVATION


def _observe_device_blocks(ledger: Ledger) -> Callable[[], None]:
    """As `observe_blocks`, for memory of devices."""
    plain_init, plain_del = DeviceBlock.__init__, DeviceBlock.__del__

    def observed_init(self: DeviceBlock, *arguments: Any, **named: Any) -> None:
        plain_init(self, *arguments, **named)
        ledger.made_on_device(self)

    def observed_del(self: DeviceBlock) -> None:
        if hasattr(self, "site"):  # there was memory for it
            ledger.gone((id(self), self.site))
        plain_del(self)

    def restore() -> None:
        DeviceBlock.__init__, DeviceBlock.__del__ = plain_init, plain_del

    DeviceBlock.__init__, DeviceBlock.__del__ = observed_init, observed_del  # type: ignore[method-assign]
    return restore


_lock = threading.RLock()
_users = 0
_tracker: Tracker | None = None


@contextmanager
def tracking() -> Iterator[Tracker]:
    """The tracker, which runs while anybody has it."""
    global _users, _tracker
    with _lock:
        if _tracker is None:
            tracker = Tracker()
            tracker.start()
            _tracker = tracker
        tracker = _tracker
        _users += 1
    try:
        yield tracker
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _tracker = None
                tracker.stop()


def running() -> Tracker | None:
    """The tracker, if somebody has it."""
    return _tracker
