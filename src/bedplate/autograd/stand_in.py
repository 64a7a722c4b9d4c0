"""Ops of the tape that compute nothing: a second holder of a value, a step that was captured."""

from __future__ import annotations

from typing import Any

from bedplate.autograd.tape import Entry, current_session, make_entry
from bedplate.errors import GradientError
from bedplate.graph.node import NO_ATTRIBUTES, Node


class _Alias:
    """The identity, as an op of the tape."""

    name = "alias"

    @staticmethod
    def input_gradients(grad: Any, sources: tuple[Any, ...]) -> tuple[Any]:
        return (grad,)


def alias_entry(tensor: Any) -> Entry:
    """An entry for a second holder of the value of `tensor`, behind which `tensor` stands."""
    return make_entry(_Alias, NO_ATTRIBUTES, (tensor,), (tensor._entry,), tensor)


class _Captured:
    """A step that `jit` replays, as an op of the tape."""

    name = "jit"

    @staticmethod
    def input_gradients(grad: Any, sources: tuple[Any, ...]) -> tuple[Any, ...]:
        raise GradientError(
            "backward: it came to the result of a captured step, which has no gradient history\n"
            "  take the gradient inside the step (call backward, or return what bp.grad gives), "
            "or call the function without jit: step.function(...)\n"
            "  use .detach() on the result where no gradient is meant"
        )


def captured_entry(output: Node) -> Entry:
    """The entry of a value whose history stayed in a captured step: no walk gets past it."""
    return Entry(_Captured, NO_ATTRIBUTES, (), (), output, current_session())
