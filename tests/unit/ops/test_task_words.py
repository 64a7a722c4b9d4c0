"""Words of a task by name: what is written where a kernel reads it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bedplate.errors import InternalError
from bedplate.kernel import f32, i64, kernel, load, ptr, store
from bedplate.ops.convolution.tile import Words

WORDS = Words("to size* count")


def test_each_word_is_given_once() -> None:
    assert WORDS.values(count=5, to=1, size=(2, 3, 4)) == [1, 2, 3, 4, 5]
    assert len(WORDS) == 5
    for wrong in ({"to": 1, "count": 5}, {"to": 1, "size": (2, 3, 4), "count": 5, "cuont": 5}):
        with pytest.raises(InternalError, match="do not fit its kernel"):
            WORDS.values(**wrong)
    with pytest.raises(ValueError, match="zip"):
        WORDS.values(to=1, size=(2, 3), count=5)


def test_a_kernel_reads_them_by_name() -> None:
    @kernel
    def read(args: ptr(i64)):
        word = WORDS.of(args)
        to = word.pointer("to", f32)
        x, y, z = reversed(word.triple("size"))
        store(to, load(to) + 1.0)
        for n, value in enumerate((x, y, z, word.size_y, word.count, word.more(0))):
            store(args + (n + 10), value)

    out: Any = np.array([41.0], np.float32)
    words: Any = np.zeros(16, np.int64)
    words[:6] = [*WORDS.values(to=out.ctypes.data, size=(7, 8, 9), count=3), 77]
    read(words)
    assert out[0] == 42.0
    assert words[10:].tolist() == [9, 8, 7, 8, 3, 77]


def test_a_word_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no word 'szie_y'"):

        @kernel
        def read(args: ptr(i64)):
            store(args, WORDS.of(args).szie_y)

        read(np.zeros(16, np.int64))
