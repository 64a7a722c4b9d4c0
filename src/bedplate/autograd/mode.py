"""Whether this thread records gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from bedplate.graph.pending import LOCAL

F = TypeVar("F", bound=Callable[..., Any])


class _Mode:
    """Sets recording inside a `with` block or a decorated function, in this thread only."""

    recording = True
    _before: Any = None  # (what held before, the same of the block around it), for blocks in blocks

    def __enter__(self) -> None:
        state = LOCAL.state
        self._before = state.recording, self._before
        state.recording = self.recording
        state.cuts += not self.recording

    def __exit__(self, *_: object) -> None:
        LOCAL.state.recording, self._before = self._before

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def run(*arguments: Any, **keywords: Any) -> Any:
            with type(self)():
                return function(*arguments, **keywords)

        return cast(F, run)


class no_grad(_Mode):
    """Compute without recording: a context manager and a decorator.

    >>> import bedplate as bp
    >>> x = bp.tensor([1.0], requires_grad=True)
    >>> with bp.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    recording = False


class enable_grad(_Mode):
    """Record again inside a `no_grad` block: a context manager and a decorator."""

    recording = True


def is_recording() -> bool:
    """Whether operations of this thread are recorded for gradients."""
    return LOCAL.state.recording
