"""The memory plan: what lies over what, and that a chain of any length is planned in few steps."""

from __future__ import annotations

import random
import sys
from itertools import pairwise
from typing import Any

import pytest

from bedplate.compiler.builder import ALIGNMENT, BufferRef, Launch
from bedplate.compiler.memory_plan import largest_live_set, plan_memory


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


@pytest.mark.parametrize("seed", range(30))
def test_what_lives_at_once_lies_apart(seed: int) -> None:
    """Of random sizes and lives: no two share a byte, and the arena is near its bound."""
    rng = random.Random(seed)
    n_regions = rng.randint(1, 40)
    regions: list[list[Launch]] = [[] for _ in range(n_regions)]
    lives = []
    for _ in range(rng.randint(1, 120)):
        first = rng.randrange(n_regions)
        last = min(first + int(rng.expovariate(0.2)), n_regions - 1)
        buffer = BufferRef(int(rng.paretovariate(0.5) * 64) % 10_000_000 + 1)
        regions[first].append(launch([], [buffer]))
        regions[last].append(launch([buffer], []))
        lives.append((first, last, buffer))
    size, bound = plan_memory(regions), largest_live_set(regions)
    assert bound <= size <= 1.1 * bound
    for i, (first, last, a) in enumerate(lives):
        assert a.offset is not None and a.offset + a.nbytes <= size
        for other_first, other_last, b in lives[:i]:
            if other_first <= last and first <= other_last:
                assert b.offset is not None
                assert a.offset >= b.offset + b.nbytes or b.offset >= a.offset + a.nbytes


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
