"""Observers of blocks are told of each once, however it was made, and may end at any time."""

from __future__ import annotations

from typing import Any

import pytest

from bedplate.memory import allocate, allocate_all, observe_blocks
from bedplate.memory.block import Block

SIZES = [1, 64, 5000, 3 << 20, 64]


class Book:
    """The blocks that live, as an observer counts them."""

    def __init__(self, together: bool) -> None:
        self.live: dict[int, int] = {}
        told = self.together if together else None
        self.end = observe_blocks(self.made, self.gone, told)

    def made(self, block: Any) -> None:
        assert id(block) not in self.live
        self.live[id(block)] = block.nbytes

    def together(self, blocks: list[Any], sizes: list[int]) -> None:
        assert [block.nbytes for block in blocks] == sizes
        for block in blocks:
            self.made(block)

    def gone(self, entry: tuple[int, Any]) -> None:
        self.live.pop(entry[0], None)

    @property
    def sizes(self) -> list[int]:
        return sorted(self.live.values())


@pytest.mark.parametrize("together", [False, True])
def test_every_block_is_told_of_once(together: bool) -> None:
    book = Book(together)
    try:
        blocks = [*allocate_all(SIZES), allocate(100)]
        assert book.sizes == sorted([*SIZES, 100])
        del blocks[2:]
        assert book.sizes == [1, 64]
        del blocks
        assert not book.live
    finally:
        book.end()
    allocate_all(SIZES)
    assert not book.live


@pytest.mark.parametrize("first_ends_first", [False, True])
def test_observers_end_in_any_order(first_ends_first: bool) -> None:
    plain = Block.__init__, Block.__del__
    first, second = Book(False), Book(True)
    blocks = allocate_all(SIZES)
    assert first.sizes == second.sizes == sorted(SIZES)
    ending, staying = (first, second) if first_ends_first else (second, first)
    ending.end()
    more = allocate(7)
    assert staying.sizes == sorted([*SIZES, 7])
    assert ending.sizes == sorted(SIZES)
    staying.end()
    assert (Block.__init__, Block.__del__) == plain
    del blocks, more
