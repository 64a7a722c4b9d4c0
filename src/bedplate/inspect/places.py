"""Places: for each node the line, the module and the phase of the step that it comes from.

A `Site` is what `Node.site` is anyway, (code, instruction), and carries the path of the module that
was running and the phase: forward, backward or optimiser. The nodes of a gradient have the line and
the module of the operation that it is the gradient of. The lines of `bedplate.olmo` count as lines
of the user: who profiles a model wants to see inside it.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from bedplate.autograd import tape
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
MAX_SEARCHES = 20  # for the module that a called one is a part of; each looks at all objects


class Site(tuple[Any, int]):
    """(code, instruction), with the module path and the phase."""

    module: str
    phase: str
    backward: Site | None  # of the gradient of what was made here

    def __new__(cls, code: Any, instruction: int, module: str, phase: str) -> Site:
        site = super().__new__(cls, (code, instruction))
        site.module = module
        site.phase = phase
        site.backward = None
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


def _is_shown(filename: str) -> bool:
    return not filename.startswith((PACKAGE, "<frozen")) or filename.startswith(MODELS)


Sites = dict[tuple[int, int], Site]  # by (identity of the code, instruction)


class _Here(threading.local):
    """What runs on a thread, and the sites known of that module and phase."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.optimisers: list[str] = []
        self.sites: Sites | None = None  # None: to be looked up


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
        self._shown: dict[str, bool] = {}
        self._contexts: dict[tuple[str, str], Sites] = {}
        self._n_sites = 0
        self._plain = Module.__call__, Optimizer._begin, Optimizer._update

    # ---- what the hooks call

    def site(self, frame: Any) -> Site | None:
        """The site of the innermost line that is the user's, or a model's.

        cost  0.4 us: each operation asks once, and most places were seen before
        """
        shown, walk = self._shown, _WALK
        backward = False
        while frame is not None:
            code = frame.f_code
            if code is walk:
                backward = True
            filename = code.co_filename
            known = shown.get(filename)
            if known is None:
                known = shown[filename] = _is_shown(filename)
            if known:
                here = self._here
                sites = None if backward else here.sites
                if sites is None:
                    sites = self._sites(here, backward)
                key = (id(code), frame.f_lasti)
                return sites.get(key) or self._new_site(sites, code, frame.f_lasti, here, backward)
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
        site = self._backward(origin)
        for gradient in gradients:
            if gradient is not None:
                node = getattr(gradient, "_node", gradient)
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

        def observed_call(self: Module, *inputs: Any, **options: Any) -> Any:
            here = places._here
            name = places._name(self, here.modules)
            return places._inside(here.modules, name, call, (self, *inputs), options)

        def observed_begin(self: Optimizer) -> Any:
            begun = places._stepping(self, begin_step, (self,))
            places._begun()
            return begun

        def observed_update(self: Optimizer, shared: Any) -> None:
            places._stepping(self, update, (self, shared))

        Module.__call__ = observed_call
        Optimizer._begin, Optimizer._update = observed_begin, observed_update
        self.search()

    def restore(self) -> None:
        """Call modules and optimisers as before."""
        Module.__call__, Optimizer._begin, Optimizer._update = self._plain

    def _stepping(self, optimiser: Optimizer, function: Any, arguments: tuple[Any, ...]) -> Any:
        if optimiser not in self.optimisers:
            with self._lock:
                self.optimisers.add(optimiser)
        name = f"{type(optimiser).__name__}.step"
        return self._inside(self._here.optimisers, name, function, arguments, {})

    def _inside(
        self, stack: list[str], name: str, function: Any, arguments: tuple[Any, ...], options: Any
    ) -> Any:
        """Call a function with its name on a stack, and tell how long it took."""
        here = self._here
        before, here.sites = here.sites, None
        stack.append(name)
        span = self.span
        begin = 0 if span is None else time.perf_counter_ns()
        try:
            return function(*arguments, **options)
        finally:
            stack.pop()
            here.sites = before
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
