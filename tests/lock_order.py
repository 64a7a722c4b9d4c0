"""LockOrder: records in which order a package's locks are taken, and finds opposite orders.

Two threads that take the same two locks in opposite orders can wait for each other for ever, but
hardly ever do in a test. That both orders occur is seen in any run in which each occurs once.
"""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from typing import Any

_lock_type, _rlock_type = threading.Lock, threading.RLock
PAGE = Path(__file__).resolve().parent.parent / "docs/in-depth/threads.md"


def documented() -> list[str]:
    """The files of the table of locks, the outermost first."""
    rows = re.findall(r"^\| `([\w/]+\.py)` \|", PAGE.read_text(), re.MULTILINE)
    return list(rows)


class LockOrder:
    """The locks that modules of `package` make, by the line that makes them.

    edges  (outer, inner): inner was taken while the thread held outer
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self.edges: set[tuple[str, str]] = set()
        self.sites: set[str] = set()
        self._here = threading.local()

    def record(self) -> None:
        """From here on the package's locks are recorded; call it before the package is imported."""
        threading.Lock = lambda: self._made(_lock_type())  # type: ignore[assignment]
        threading.RLock = lambda: self._made(_rlock_type())  # type: ignore[assignment]

    def _made(self, lock: Any) -> Any:
        frame = sys._getframe(2)
        if not frame.f_globals.get("__name__", "").startswith(self.package + "."):
            return lock
        module = frame.f_globals["__name__"].removeprefix(self.package + ".")
        if module.startswith("testing."):  # devices of the tests: a driver's locks are its own
            return lock
        site = f"{module.replace('.', '/')}.py:{frame.f_lineno}"
        self.sites.add(site)
        return _Recorded(self, lock, site)

    def held(self) -> list[str]:
        """The locks that this thread holds, the first taken first."""
        found = getattr(self._here, "held", None)
        if found is None:
            found = self._here.held = []
        return found

    def check(self, order: list[str]) -> None:
        """Raise SystemExit if a lock was taken while one that stands behind it was held.

        order  files, the outermost first
        """
        rank = {file: number for number, file in enumerate(order)}
        wrong = [
            f"  {inner} while holding {outer}"
            for outer, inner in sorted(self.edges)
            if rank[inner.partition(":")[0]] < rank[outer.partition(":")[0]]
            or (outer.partition(":")[0] == inner.partition(":")[0] and (inner, outer) in self.edges)
        ]
        if wrong:
            raise SystemExit(
                "\n".join([f"locks were taken against the order of {PAGE.name}:", *wrong])
            )

    def __str__(self) -> str:
        return f"{len(self.sites)} locks, {len(self.edges)} nestings"


class _Recorded:
    """A lock that tells its `LockOrder` of each time it is taken."""

    def __init__(self, order: LockOrder, lock: Any, site: str) -> None:
        self._order, self._lock, self._site = order, lock, site

    def acquire(self, *args: Any, **named: Any) -> bool:
        held = self._order.held()
        if self._site not in held:  # one that may be taken again by its holder orders nothing
            self._order.edges.update((outer, self._site) for outer in held)
        taken = self._lock.acquire(*args, **named)
        if taken:
            held.append(self._site)
        return taken

    def release(self) -> None:
        self._lock.release()
        held = self._order.held()
        if self._site in held:
            held.reverse()
            held.remove(self._site)
            held.reverse()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: Any) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        self._lock._at_fork_reinit()

    def locked(self) -> bool:
        return self._lock.locked()
