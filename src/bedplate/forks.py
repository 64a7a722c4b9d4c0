"""Locks that a child of fork finds free, whoever held them in the parent at that moment."""

from __future__ import annotations

import os
import weakref
from typing import TypeVar

L = TypeVar("L")
_locks: weakref.WeakSet[object] = weakref.WeakSet()


def renewed(lock: L) -> L:
    """The lock itself: the threads that may hold it are not there in a child of fork.

    lock  of `threading`; what it guards must be whole after each step of its holder, or belong to
          the holder alone
    """
    _locks.add(lock)
    return lock


def _after_fork() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # as the standard library does


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
