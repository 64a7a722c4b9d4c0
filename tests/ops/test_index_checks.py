"""An index out of range is told by every operation that looks something up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import bedplate as bp
import bedplate.nn.functional as F

OUT_OF_RANGE = [[0, 7], [7, 7], [0, -8]]

# name -> (what it does with data of a shape and two indices, that shape)
LOOKUPS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "take": (lambda x, i: bp.take(x, i, axis=0), (3,)),
    "indexing": (lambda x, i: x[i], (3, 2)),
    "indexing, second axis": (lambda x, i: x[:, i], (3, 2)),
    "take_along_axis": (lambda x, i: bp.take_along_axis(x, i.reshape((1, 2)), axis=1), (1, 3)),
    "embedding": (lambda x, i: F.embedding(i, x), (3, 2)),
    "cross_entropy": (F.cross_entropy, (2, 3)),
    "nll_loss": (F.nll_loss, (2, 3)),
    "one_hot": (lambda x, i: x * F.one_hot(i, 3), (2, 3)),
    "index_put": (lambda x, i: bp.index_put(x, (i,), bp.ones((2,))), (3,)),
    "index_add": (lambda x, i: bp.index_add(x, 0, i, bp.zeros((2,))), (3,)),
    "index_fill": (lambda x, i: bp.index_fill(x, 0, i, 0.0), (3,)),
}
# what is done with what was found; nothing of it makes the index right
USES: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda found: found,
    "times zero": lambda found: found * 0,
    "less itself": lambda found: found - found,
    "chosen from one value": lambda found: bp.where(found > 0, 1.0, 1.0),
    "one element": lambda found: found.reshape((-1,))[:1],
    "summed": lambda found: found.sum(),
}
DATA = {"values": lambda shape: bp.random.normal(shape), "zeros": bp.zeros, "ones": bp.ones}


def eager(function: Callable[[], Any]) -> None:
    function().numpy()


def captured(function: Callable[[], Any]) -> None:
    bp.jit(function)().numpy()


@pytest.mark.parametrize("run", [eager, captured])
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", LOOKUPS)
def test_an_index_out_of_range_is_told(
    name: str, use: str, data: str, run: Callable[..., None]
) -> None:
    lookup, shape = LOOKUPS[name]
    for values in OUT_OF_RANGE:
        index = bp.tensor(values)
        with pytest.raises(IndexError, match="out of range"):
            run(lambda index=index: USES[use](lookup(DATA[data](shape), index)))


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", LOOKUPS)
def test_an_index_out_of_range_is_told_by_the_gradient(name: str, data: str) -> None:
    lookup, shape = LOOKUPS[name]
    slope = bp.grad(lambda x: lookup(x, bp.tensor([0, 7])).sum())
    with pytest.raises(IndexError, match="out of range"):
        slope(DATA[data](shape)).numpy()


@pytest.mark.parametrize("name", LOOKUPS)
def test_indices_in_range_are_taken(name: str) -> None:
    lookup, shape = LOOKUPS[name]
    assert lookup(bp.ones(shape), bp.tensor([0, 1])).numpy().size
