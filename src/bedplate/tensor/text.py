"""How a tensor is printed: its values, or their edges, and what else there is to know of it.

Of a large tensor only the elements that are shown are looked at. The settings `print_precision`,
`print_threshold`, `print_edge` and `print_width` say how much that is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.autograd.tape import Entry
from bedplate.config import config
from bedplate.dtypes import bfloat16
from bedplate.graph.pending import LOCAL

Array = np.ndarray[Any, Any]


def tensor_text(tensor: Any) -> str:
    """The values, then the facts; a value that may not be read is not shown."""
    name = type(tensor).__name__
    if LOCAL.state.watcher is not None:
        facts = [f"shape={tensor.shape}", f"dtype={tensor.dtype}", *_where(tensor)]
        return f"{name}(not computed, {', '.join(facts)})"
    array = tensor.detach().numpy(copy=False)
    is_short = array.size > config.print_threshold
    facts = [f"shape={tensor.shape}"] if tensor.ndim > 1 or is_short else []
    facts += [f"dtype={tensor.dtype}", *_where(tensor), *_history(tensor)]
    return f"{name}({values_text(array, len(name) + 1)}, {', '.join(facts)})"


def _where(tensor: Any) -> list[str]:
    return [] if str(tensor.device) == "cpu" else [f"device={str(tensor.device)!r}"]


def _history(tensor: Any) -> list[str]:
    """What gradients make of it: a leaf, or the operation that it came from."""
    entry = tensor._entry
    if entry is None:
        return []
    if not isinstance(entry, Entry):
        return ["requires_grad=True"]
    return [f"grad_fn=<{getattr(entry.op, 'name', type(entry.op).__name__)}>"]


def values_text(array: Array, indent: int = 0) -> str:
    """The values in rows, of which the first starts behind `indent` characters."""
    edge = config.print_edge
    is_short = array.size > config.print_threshold
    shown = edges(array, edge) if is_short else array
    if shown.dtype == bfloat16.numpy:
        shown = shown.astype(np.float32)
    return np.array2string(
        shown,
        separator=", ",
        precision=config.print_precision,
        threshold=0 if is_short else shown.size + 1,
        edgeitems=edge,
        prefix=" " * indent,
        suppress_small=_is_plain(shown),
        max_line_width=config.print_width,
    )


def edges(array: Array, edge: int) -> Array:
    """The first and the last `edge` elements along each axis, and one between that is left out."""
    kept = [
        [*range(edge + 1), *range(size - edge, size)] if size > 2 * edge + 1 else [*range(size)]
        for size in array.shape
    ]
    return array[np.ix_(*kept)]


def _is_plain(array: Array) -> bool:
    """Whether the numbers span so little that fixed point shows them."""
    if array.dtype.kind == "c":
        return _is_plain(array.real) and _is_plain(array.imag)
    if array.dtype.kind != "f" or not array.size:
        return True
    magnitudes = np.abs(array[np.isfinite(array) & (array != 0)])
    return not magnitudes.size or bool(magnitudes.max() < 1e4 and magnitudes.min() > 1e-3)
