"""draws: the states of generators that a function drew from, so that it can draw the same again.

A function that is rematerialised runs twice and must see the same random numbers both times. The
first time each draw's state is written down, whatever generator it comes from; the second time
the states come from there, and no generator moves on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bedplate.errors import GradientError
from bedplate.graph.pending import LOCAL


class Draws:
    """The states of the draws of one function, in order.

    outer  those of the function around it, where the states of this one are written down too
    """

    def __init__(self) -> None:
        self.outer: Draws | None = None
        self._states: list[Any] = []
        self._next: int | None = None  # while they are drawn again: which

    @contextmanager
    def written(self) -> Iterator[None]:
        """The draws of this thread are written down in the block."""
        self.outer = _HERE.draws
        yield from self._current()

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """The draws of this thread are those that were written down, from the first on."""
        self._next = 0
        state = LOCAL.state
        before, state.repeating = state.repeating, True
        try:
            yield from self._current()
        finally:
            state.repeating = before

    def _current(self) -> Iterator[None]:
        before, _HERE.draws = _HERE.draws, self
        try:
            yield
        finally:
            _HERE.draws = before
            self._next = self.outer = None

    def peek(self) -> Any:
        """The state of the next draw, if it was written down before; else None."""
        if self._next is None:
            return None if self.outer is None else self.outer.peek()
        if self._next == len(self._states):
            raise GradientError(
                "rematerialise: the function draws more random numbers the second time than "
                f"the first ({len(self._states)})\n"
                "  it must do the same each time it is called"
            )
        return self._states[self._next]

    def require_all(self) -> None:
        """raises GradientError if not all that was written down was drawn again"""
        if self._next is not None and self._next < len(self._states):
            raise GradientError(
                f"rematerialise: the function drew {len(self._states)} times from generators, and "
                f"for the gradient {self._next} times\n"
                "  it must do the same each time it is called"
            )

    def done(self, state: Any) -> None:
        """A draw from a state succeeded."""
        if self._next is not None:
            self._next += 1
            return
        self._states.append(state)
        if self.outer is not None:
            self.outer.done(state)


class _Here(threading.local):
    draws: Draws | None = None


_HERE = _Here()


def known_state() -> Any:
    """The state that this thread's next draw had the first time; None: it is the first time."""
    draws = _HERE.draws
    return None if draws is None else draws.peek()


def drawn(state: Any) -> None:
    """This thread drew from a state."""
    draws = _HERE.draws
    if draws is not None:
        draws.done(state)
