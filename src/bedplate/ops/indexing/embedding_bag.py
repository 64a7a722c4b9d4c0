"""Rows looked up and joined by bag: sums, means, largest."""

from __future__ import annotations

from bedplate.dtypes import int64
from bedplate.errors import ShapeError
from bedplate.ops.build import Value, as_type, number
from bedplate.ops.indexing.gather import embedding, sum_rows
from bedplate.ops.indexing.scatter import joined_rows
from bedplate.ops.pointwise.arithmetic import divide
from bedplate.ops.pointwise.comparison import equal, not_equal
from bedplate.ops.pointwise.convert import checked_index, where
from bedplate.ops.pointwise.extremes import maximum
from bedplate.ops.refusal import refuse
from bedplate.ops.shape.creation import index_along
from bedplate.ops.shape.views import broadcast_to, expand_dims, reshape
from bedplate.ops.sorting.searchsorted import searchsorted

MODES = ("sum", "mean", "max")


def embedding_bag(
    ids: Value,
    weight: Value,
    offsets: Value | None = None,
    mode: str = "mean",
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Value:
    """Look up rows and join those of each bag: y[b] = the sum, mean or largest of weight[ids in b].

    ids                  (n_bags, size) integers in [0, n_rows); or (n,), cut by `offsets`
    weight               (n_rows, d_model)
    offsets              (n_bags,) integers, where each bag begins, the first 0; with ids (n,) only
    mode                 "sum", "mean" or "max"
    per_sample_weights   a factor for each id; with "sum" only
    include_last_offset  the last offset is where the last bag ends
    padding_idx          the id that counts for nothing
    returns              (n_bags, d_model); zeros for an empty bag. Sums run in the order of the
                         ids; the largest of a bag share the gradient equally
    raises               ShapeError if the arguments do not fit; ValueError for another mode;
                         IndexError when the value is computed, if an id is out of range
    >>> import bedplate as bp
    >>> ids, offsets = bp.tensor([0, 1, 1]), bp.tensor([0, 2])
    >>> weight = bp.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> bp.nn.functional.embedding_bag(ids, weight, offsets).tolist()
    [[2.0, 3.0], [3.0, 4.0]]
    """
    if mode not in MODES:
        raise ValueError(f"embedding_bag: mode must be one of {MODES}, got {mode!r}")
    if per_sample_weights is not None and mode != "sum":
        raise ValueError(f"embedding_bag: weights go with mode 'sum', not with {mode!r}")
    bags, n_bags = _bags(ids, offsets, include_last_offset)
    flat = reshape(ids, (-1,))
    rows = embedding(flat, weight, padding_idx)
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]  # no id is -1
    kept = expand_dims(not_equal(flat, padding), -1)
    if per_sample_weights is not None:
        if per_sample_weights.shape != ids.shape:
            refuse(ShapeError, "embedding_bag", "the weights have not the shape of the ids",
                   {"ids": ids, "per_sample_weights": per_sample_weights})  # fmt: skip
        rows = rows * reshape(per_sample_weights, (-1, 1))
    if mode == "max":
        least = where(kept, rows, number(rows, float("-inf")))
        result = joined_rows(bags, least, n_bags, "amax")
    else:
        result = sum_rows(bags, where(kept, rows, number(rows, 0)), n_bags)
    if mode == "sum":
        return result
    counts = sum_rows(bags, as_type(kept, rows.dtype), n_bags)
    if mode == "mean":
        return divide(result, maximum(counts, 1))
    return where(equal(counts, 0), number(rows, 0), result)


def _bags(ids: Value, offsets: Value | None, include_last: bool) -> tuple[Value, int]:
    """The bag of each id, (n,) int64, and how many there are."""
    named = {"ids": ids} if offsets is None else {"ids": ids, "offsets": offsets}
    if len(ids.shape) == 2 and offsets is None:
        n_bags, size = ids.shape
        bag = broadcast_to(index_along(ids, 0, (n_bags, 1)), (n_bags, size))
        return reshape(bag, (-1,)), n_bags
    if offsets is None or len(ids.shape) != 1 or len(offsets.shape) != 1:
        refuse(ShapeError, "embedding_bag", "the bags are not told", named,
               "expected ids (n_bags, size), or ids (n,) and offsets (n_bags,)")  # fmt: skip
    place = index_along(ids, 0, ids.shape)
    bag = searchsorted(as_type(offsets, int64), place, side="right") - 1
    n_bags = offsets.shape[0] - include_last
    return checked_index(bag, n_bags, "embedding_bag: bag", wrap=False), n_bags
