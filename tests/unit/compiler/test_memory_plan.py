"""The memory plan: what lies over what, and that a chain of any length is planned in few steps."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

from bedplate.compiler.builder import ALIGNMENT, BufferRef, Launch
from bedplate.compiler.memory_plan import plan_memory


def launch(reads: list[BufferRef], writes: list[BufferRef], in_place: Any = ()) -> Launch:
    return Launch(None, [], 1, reads, writes, in_place=list(in_place))  # type: ignore[arg-type]


def chain(length: int) -> list[list[Launch]]:
    """Each launch writes over what the one before it wrote."""
    links = [BufferRef(ALIGNMENT) for _ in range(length)]
    first = [[launch([], [links[0]])]]
    return first + [[launch([a], [b], [(a, b)])] for a, b in pairwise(links)]


def buffers(regions: list[list[Launch]]) -> list[BufferRef]:
    return [buffer for region in regions for one in region for buffer in one.writes]


def test_a_chain_lies_in_one_place() -> None:
    regions = chain(100)
    assert plan_memory(regions) == ALIGNMENT
    assert {buffer.offset for buffer in buffers(regions)} == {0}


def test_a_value_that_is_read_again_is_not_written_over() -> None:
    a, b, c = (BufferRef(ALIGNMENT) for _ in range(3))
    regions = [[launch([], [a])], [launch([a], [b], [(a, b)])], [launch([a, b], [c], [(b, c)])]]
    assert plan_memory(regions) == 2 * ALIGNMENT
    assert a.offset != b.offset == c.offset


def steps_of(length: int) -> int:
    """Lines of Python that planning a chain runs."""
    count = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    regions = chain(length)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        plan_memory(regions)
    finally:
        sys.settrace(before)
    return count


def test_steps_grow_with_the_length_of_a_chain_and_no_faster() -> None:
    assert steps_of(800) < 2.2 * steps_of(400)
