"""Token ids: what callers give, as arrays and tensors of int64."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.errors import DTypeError, ShapeError
from bedplate.tensor import Tensor, tensor


def as_ids(ids: Any, device: Any = None) -> Tensor:
    """Token ids as a tensor (B, T) on a device; a single row becomes a batch of one.

    raises  DTypeError for what is no integers, ShapeError for rows of several lengths
    """
    if not isinstance(ids, Tensor):
        ids = tensor(id_array(ids), device=device)
    elif device is not None:
        ids = ids.to(device)
    return ids.reshape((1, -1)) if ids.ndim == 1 else ids


def id_array(ids: Any) -> np.ndarray:
    """Token ids as an array of int64; see `as_ids`."""
    try:
        array = np.asarray(ids)
    except ValueError:  # NumPy's word for it is "inhomogeneous"
        raise ShapeError(
            "token ids: the rows differ in length\n  give rows of one length, or one row a call"
        ) from None
    if array.dtype.kind not in "iu" and array.size:
        raise DTypeError(
            f"token ids: must be integers, got {array.dtype}\n  encode text with the tokenizer"
        )
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise IndexError(f"token id {array.max()} is outside any vocabulary")
    return array.astype(np.int64)
