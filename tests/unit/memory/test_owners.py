"""Owners of memory and of work are not copied: that is refused in words, and nothing is left."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import MemoryUseError
from bedplate.memory import allocate

OWNERS: dict[str, Callable[[], Any]] = {
    "Buffer": lambda: bp.MemoryManager().allocate(3),
    "MemoryManager": bp.MemoryManager,
    "Stream": lambda: bp.Stream("cpu"),
    "Event": bp.Event,
    "Block": lambda: allocate(100),
}


@pytest.mark.parametrize("name", OWNERS)
@pytest.mark.parametrize("function", [copy.copy, copy.deepcopy, pickle.dumps])
def test_no_owner_is_copied(
    name: str, function: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ignored: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", ignored.append)
    owner = OWNERS[name]()
    for holder in (owner, [owner]):
        if function is copy.copy and holder is not owner:
            continue
        with pytest.raises(TypeError, match=f"{name}: it cannot be copied or pickled"):
            function(holder)
    gc.collect()
    assert not ignored


def test_a_buffer_is_an_array_for_numpy() -> None:
    buffer = bp.MemoryManager().allocate((2, 3), bp.int32)
    buffer.array[:] = 7
    found = np.asarray(buffer)
    assert found.shape == (2, 3) and found.dtype == np.int32
    found[0, 0] = 1
    assert buffer.array[0, 0] == 1  # no copy
    assert np.asarray(buffer, dtype=np.float64).dtype == np.float64
    copied = np.array(buffer)
    copied[0, 0] = 5
    assert buffer.array[0, 0] == 1
    with pytest.raises(ValueError, match="without a copy"):
        buffer.__array__(np.float64, copy=False)
    del found
    buffer.free()
    with pytest.raises(MemoryUseError, match="freed before"):
        np.asarray(buffer)
