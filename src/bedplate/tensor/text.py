"""How a tensor looks when it is printed."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.graph.pending import LOCAL

PRECISION = 4
THRESHOLD = 1000  # elements beyond which only the edges are shown


def tensor_text(tensor: Any) -> str:
    """The values, then what else there is to know; a value that may not be read is not shown."""
    name = type(tensor).__name__
    facts = [] if tensor.ndim <= 1 else [f"shape={tensor.shape}"]
    facts.append(f"dtype={tensor.dtype}")
    if str(tensor.device) != "cpu":
        facts.append(f"device={str(tensor.device)!r}")
    if tensor.requires_grad:
        facts.append("requires_grad=True")
    if LOCAL.state.watcher is not None:
        return f"{name}(not computed, {', '.join([f'shape={tensor.shape}', *facts[-2:]])})"
    return f"{name}({_values(tensor.detach().numpy(), len(name) + 1)}, {', '.join(facts)})"


def _values(array: np.ndarray[Any, Any], indent: int) -> str:
    if array.dtype.kind == "V" or str(array.dtype) == "bfloat16":
        array = array.astype(np.float32)
    return np.array2string(
        array,
        separator=", ",
        precision=PRECISION,
        threshold=THRESHOLD,
        prefix=" " * indent,
        suppress_small=_is_plain(array),
        max_line_width=100,
    )


def _is_plain(array: np.ndarray[Any, Any]) -> bool:
    """Whether the numbers span so little that fixed point shows them."""
    if array.dtype.kind != "f" or not array.size:
        return True
    magnitudes = np.abs(array[np.isfinite(array) & (array != 0)])
    return not magnitudes.size or (magnitudes.max() < 1e4 and magnitudes.min() > 1e-3)
