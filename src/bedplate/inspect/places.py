"""Places: for each node the line, the module and the phase of the step that it comes from.

A `Site` is what `Node.site` is anyway, (code, instruction), and carries the path of the module that
was running and the phase: forward, backward or optimiser. The nodes of a gradient have the line and
the module of the operation that it is the gradient of. The lines of `bedplate.olmo` count as lines
of the user: who profiles a model wants to see inside it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from bedplate.autograd import tape
from bedplate.graph.node import Node
from bedplate.graph.pending import PACKAGE
from bedplate.inspect.census import instances
from bedplate.memory import line_of
from bedplate.nn import Module
from bedplate.optim.optimizer import Optimizer

FORWARD, BACKWARD, OPTIMISER = "forward", "backward", "optimiser"
MODELS = PACKAGE + "olmo" + os.sep
NO_MODULE = "(no module)"  # what tables show for an empty path
MAX_SITES = 50_000  # that are kept: a program that makes code as it runs has no end of them
_WALK = tape.walk.__code__
_OWN = (lambda: None).__code__.co_filename
# what a file's lines are: ours, the user's or a model's, the tape's, this file's, not looked at yet
INSIDE, SHOWN, TAPE, OWN, UNKNOWN = range(5)
MAX_SEARCHES = 20  # for the module that a called one is a part of; each looks at all objects


class Site(tuple[Any, int]):
    """(code, instruction), with the module path and the phase.

    backward  the site of the gradient of what was made here
    inside    (identity of the code, instruction) of operations that this line has called, by way of
              nobody's code but ours: they are made again and again, as an optimiser's are
    """

    module: str
    phase: str
    backward: Site | None
    inside: set[tuple[int, int]]

    def __new__(cls, code: Any, instruction: int, module: str, phase: str) -> Site:
        site = super().__new__(cls, (code, instruction))
        site.module = module
        site.phase = phase
        site.backward = None
        site.inside = set()
        return site


def module_of(site: Any) -> str:
    """The module path of a site, "" if there is none."""
    return getattr(site, "module", "")


def phase_of(site: Any) -> str:
    return getattr(site, "phase", FORWARD)


def shown_line(site: Any) -> str:
    """`file:line` with the file as seen from the working folder, or from the package."""
    line = line_of(site)
    for prefix, short in ((os.getcwd() + os.sep, ""), (PACKAGE, "bedplate" + os.sep)):
        if line.startswith(prefix):
            return short + line[len(prefix) :]
    return line


def _step_of(optimiser: Optimizer) -> str:
    return f"{type(optimiser).__name__}.step"


def _verdict(filename: str) -> int:
    if filename in (_WALK.co_filename, _OWN):
        return TAPE if filename == _WALK.co_filename else OWN
    inside = filename.startswith((PACKAGE, "<frozen")) and not filename.startswith(MODELS)
    return INSIDE if inside else SHOWN


Sites = dict[tuple[int, int], Site]  # by (identity of the code, instruction)


class _Here(threading.local):
    """What runs on a thread, and the sites known of that module and phase.

    base  the site of all that the innermost of this file's frames calls, or None
    """

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.optimisers: list[str] = []
        self.sites: Sites | None = None  # None: to be looked up
        self.base: Site | None = None


Span = Callable[[str, int, int], None]


class Places:
    """Marks sites while it is installed.

    stepping  called when an optimiser is about to bind its parameters to new values
    span      told the name, begin and end of each module call and update, if somebody wants it
    """

    def __init__(self, stepping: Callable[[], None]) -> None:
        self._here = _Here()
        self._begun = stepping
        self.span: Span | None = None
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self.roots: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self.optimisers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._searches = 0
        self._lock = threading.RLock()
        self._shown: dict[str, int] = {}
        self._contexts: dict[tuple[str, str], Sites] = {}
        self._n_sites = 0
        self._plain = Module.__call__, Optimizer._begin, Optimizer._update

    # ---- what the hooks call

    def site(self, frame: Any) -> Site | None:
        """The site of the innermost line that is the user's, or a model's.

        cost  0.3 us: each operation asks once, and most places were seen before
        """
        here = self._here
        base = here.base
        inner = None if base is None else (id(frame.f_code), frame.f_lasti)
        if base is not None and inner in base.inside:
            return base
        verdict_of = self._shown.get
        backward = False
        while frame is not None:
            code = frame.f_code
            verdict = verdict_of(code.co_filename, UNKNOWN)
            if verdict:
                if verdict == SHOWN:
                    sites = None if backward else here.sites
                    if sites is None:
                        sites = self._sites(here, backward)
                    place = frame.f_lasti
                    found = sites.get((id(code), place))
                    return found or self._new_site(sites, code, place, here, backward)
                if verdict == UNKNOWN:
                    self._shown[code.co_filename] = _verdict(code.co_filename)
                    continue
                if verdict == OWN and inner is not None and base is not None and not backward:
                    base.inside.add(inner)
                    return base
                backward = backward or code is _WALK
            frame = frame.f_back
        return None

    def _context(self, here: _Here, backward: bool) -> tuple[str, str]:
        inside = here.optimisers or here.modules
        phase = BACKWARD if backward else OPTIMISER if here.optimisers else FORWARD
        return inside[-1] if inside else "", phase

    def _sites(self, here: _Here, backward: bool) -> Sites:
        """The sites known of the module and phase that a thread is in."""
        sites = self._contexts.setdefault(self._context(here, backward), {})
        if not backward:
            here.sites = sites
        return sites

    def _new_site(
        self, sites: Sites, code: Any, instruction: int, here: _Here, backward: bool
    ) -> Site:
        """A site that was not met before; it keeps the code, whose identity stays its own."""
        site = Site(code, instruction, *self._context(here, backward))
        self._n_sites += 1
        if self._n_sites <= MAX_SITES:
            sites[id(code), instruction] = site
        return site

    def gradient(self, entry: Any, gradients: Iterable[Any]) -> None:
        """Mark the nodes that are the gradients of a tape's entry."""
        origin = entry.site
        if origin is None:
            return
        site = (type(origin) is Site and origin.backward) or self._backward(origin)
        for node in gradients:
            if type(node) is not Node:
                if node is None:
                    continue
                node = getattr(node, "_node", node)
            if node.site is None:
                node.site = site

    def gradient_in_full(self, entry: Any, gradients: Iterable[Any]) -> None:
        """As `gradient`, and all nodes that these are computed from."""
        origin = entry.site
        if origin is not None:
            tape.mark_gradients(gradients, self._backward(origin))

    def _backward(self, origin: Any) -> Site:
        """The site of the gradient of what was made at another."""
        if not isinstance(origin, Site):
            return Site(origin[0], origin[1], "", BACKWARD)
        if origin.backward is None:
            origin.backward = Site(origin[0], origin[1], origin.module, BACKWARD)
        return origin.backward

    # ---- modules and optimisers, which stand above the floors that have hooks

    def install(self) -> None:
        """Know which module runs: the calls of modules and the work of optimisers are wrapped."""
        call, begin_step, update = self._plain
        places = self

        names = self._names

        # one frame each: every operation that they call walks over it
        def observed_call(self: Module, *inputs: Any, **options: Any) -> Any:
            here = places._here
            stack = here.modules
            name = names.get(self) or places._name(self, stack)
            before, base, begin = places._enter(here, stack, name)
            try:
                return call(self, *inputs, **options)
            finally:
                stack.pop()
                here.sites, here.base = before, base
                if begin:
                    places._tell(name, begin)

        def observed_begin(self: Optimizer) -> Any:
            if self not in places.optimisers:
                with places._lock:
                    places.optimisers.add(self)
            here = places._here
            name = _step_of(self)
            before, base, begin = places._enter(here, here.optimisers, name, sys._getframe(1))
            try:
                return begin_step(self)
            finally:
                here.optimisers.pop()
                here.sites, here.base = before, base
                places._begun()
                if begin:
                    places._tell(name, begin)

        def observed_update(self: Optimizer, shared: Any) -> None:
            here = places._here
            name = _step_of(self)
            before, base, begin = places._enter(here, here.optimisers, name, sys._getframe(1))
            try:
                update(self, shared)
            finally:
                here.optimisers.pop()
                here.sites, here.base = before, base
                if begin:
                    places._tell(name, begin)

        Module.__call__ = observed_call
        Optimizer._begin, Optimizer._update = observed_begin, observed_update
        self.search()

    def restore(self) -> None:
        """Call modules and optimisers as before."""
        Module.__call__, Optimizer._begin, Optimizer._update = self._plain

    def _enter(
        self, here: _Here, stack: list[str], name: str, frame: Any = None
    ) -> tuple[Any, Any, int]:
        """Work begins that has a name; gives what `here` had before, and when if somebody asks.

        frame  its caller's, if all that it does is of one line of the user's
        """
        before, base = here.sites, here.base
        here.sites = here.base = None
        stack.append(name)
        if frame is not None:
            here.base = self.site(frame)
        return before, base, 0 if self.span is None else time.perf_counter_ns()

    def _tell(self, name: str, begin: int) -> None:
        span = self.span
        if span is not None:
            span(name, begin, time.perf_counter_ns())

    def _name(self, module: Module, stack: list[str]) -> str:
        name = self._names.get(module)
        if name is None and not stack and self._searches < MAX_SEARCHES:
            self.search()
            name = self._names.get(module)
        if name is None:
            kind = type(module).__name__
            name = f"{stack[-1]}.{kind}" if stack else kind
            if not stack:
                self._add_root(module)
        return name

    def search(self) -> None:
        """Find all modules and optimisers that there are, and name their parts by their paths."""
        self._searches += 1
        found = instances((Module, Optimizer))
        modules = [x for x in found if isinstance(x, Module)]
        with self._lock:
            self.optimisers.update(x for x in found if isinstance(x, Optimizer))
        parts = {id(child) for module in modules for _, child in module.named_children()}
        for module in modules:
            if id(module) not in parts and module not in self.roots:
                self._add_root(module)

    def _add_root(self, module: Module) -> None:
        kind = type(module).__name__
        with self._lock:
            self.roots[module] = kind
            for path, part in list(module.named_modules()):
                self._names.setdefault(part, f"{kind}.{path}".rstrip("."))

    def known(self) -> tuple[list[tuple[Module, str]], list[Optimizer]]:
        """The modules that are part of no other, with their names, and the optimisers."""
        with self._lock:
            return list(self.roots.items()), list(self.optimisers)
