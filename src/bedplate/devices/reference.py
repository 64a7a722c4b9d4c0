"""The reference device: level 0, and the oracle of the tests.

It computes each node by the NumPy reference of its op, one after the other, with nothing
fused, planned or skipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate.devices.host_call import call_numpy
from bedplate.devices.transfer import stored
from bedplate.errors import InternalError


def run(node: Any) -> None:
    """Compute one node from its realised inputs, and store its value.

    node   a graph node whose inputs all have their values
    raises InternalError if the op has no reference or breaks its own shape or dtype rule;
           LinAlgError
    """
    reference = node.op.reference
    if reference is None:
        raise InternalError(f"{node.op.name} has no reference")
    arrays = [source.block if source.op.n_outputs > 1 else source.array() for source in node.inputs]
    if node.op.kind == "host":
        results = call_numpy(node.op, arrays, node.attributes, node.line)
        result = results if node.op.n_outputs > 1 else results[0]
    else:
        with np.errstate(all="ignore"):
            result = reference(*arrays, **node.attributes)
    if node.op.n_outputs > 1:
        # read through `output` nodes, whose reference picks one of these
        node.realise(tuple(np.asarray(part) for part in result))
        return
    node.realise(_block(node, np.asarray(result)))


def _block(node: Any, array: np.ndarray[Any, Any]) -> Any:
    if array.shape != tuple(node.shape) or array.dtype != node.dtype.numpy:
        raise InternalError(
            f"{node.op.name}: the reference gave {array.shape} {array.dtype}, "
            f"the rule says {node.shape} {node.dtype}"
        )
    return stored(node.device, np.array(array, order="C"), node.site)
