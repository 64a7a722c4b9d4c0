"""Where lazy tensors meet memory: running what is pending, reading values, making leaves."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from bedplate.config import config
from bedplate.devices.device import Device
from bedplate.devices.stream import synchronize_devices
from bedplate.dtypes import as_dtype
from bedplate.graph.node import Node
from bedplate.graph.pending import LOCAL, ThreadState, user_site
from bedplate.later import deferred
from bedplate.memory import ForeignBlock, allocate
from bedplate.ops.leaves import buffer

stored = deferred("bedplate.devices.transfer", "stored")
realise = deferred("bedplate.compiler.realise", "realise")
MEBIBYTE = 1 << 20
# up to here a copy by way of bytes is quicker than a NumPy view of the block, which takes 4 us
SMALL_BYTES = 1 << 14


def flush(state: ThreadState, wanted: Node | None = None) -> None:
    """Run the pending list of a thread, and `wanted`, which may be in it."""
    # as `take`, without a call; first of all: what a signal's handler builds meanwhile is its own
    nodes, state.nodes = state.nodes, []
    state.leaf_bytes = 0
    if wanted is not None and (not nodes or nodes[-1] is not wanted):
        nodes.append(wanted)
    realise(nodes)


def flush_if_large(state: ThreadState) -> None:
    """Run the pending list if it has reached one of its bounds."""
    if (
        len(state.nodes) >= config.pending_nodes
        or state.leaf_bytes >= config.pending_size * MEBIBYTE
    ) and state.watcher is None:
        flush(state)


def compute(tensor: Any) -> Node:
    """The node of a tensor, with its value, which is computed if need be.

    raises  whatever the computation raises, each time it is asked for
    """
    state = LOCAL.state
    node = tensor._node
    if state.watcher is not None:
        state.watcher.value_read(tensor)
    if tensor._entry is not None:
        state.cuts += 1
    if node.block is None:
        flush(state, node)
    return node


def array_of(tensor: Any) -> np.ndarray[Any, Any]:
    """The value of a tensor, computed if need be: a view that must not be written."""
    return compute(tensor).array()


def leaf_node(array: np.ndarray[Any, Any], device: Device) -> Node:
    """A node with a copy of `array`, in memory of our own."""
    site = user_site()
    dtype = as_dtype(array.dtype if array.dtype.isnative else array.dtype.newbyteorder("="))
    state = LOCAL.state
    state.leaf_bytes += array.nbytes
    if state.nodes:
        flush_if_large(state)
    if device.runtime is not None:
        content = np.array(array, dtype.numpy, order="C")
        node = buffer(stored(device, content, site), array.shape, dtype, device)
        node.site = site
        return node
    block = allocate(array.nbytes, site)
    if array.nbytes <= SMALL_BYTES and array.dtype.isnative:
        ctypes.memmove(block.address, array.tobytes(), array.nbytes)
    else:
        block.array(dtype, array.shape)[...] = array
    node = buffer(block, array.shape, dtype, device)
    node.site = site
    return node


def foreign_node(array: np.ndarray[Any, Any], device: Device) -> Node | None:
    """A node over the memory of an array, which stays alive with it; None if that cannot be.

    It can if the device uses the host's memory, and the elements lie side by side in some order of
    the axes, each on an address that its size divides.
    """
    if device.runtime is not None:
        return None
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    base = array.transpose(order)
    if not (base.flags.c_contiguous and base.flags.aligned and base.dtype.isnative):
        return None
    block = ForeignBlock.from_numpy(base, user_site())
    node = buffer(block, base.shape, as_dtype(base.dtype), device)
    node.site = block.site
    back = tuple(order.index(axis) for axis in range(array.ndim))
    return node if back == tuple(range(array.ndim)) else node.permute(*back)  # type: ignore


def compute_pending() -> None:
    """Compute, or start to compute, everything that this thread has pending.

    raises  whatever the computation raises
    """
    state = LOCAL.state
    if state.nodes:
        flush(state)


def synchronize(device: Device | str | None = None) -> None:
    """Compute everything that this thread has pending, and wait for all that devices work on.

    device  whose work is waited for; by default that of all
    raises  DeviceError for a device that is not there; whatever the computation raises, and what
            failed on a stream of the device, each time until `bp.devices.reset(device)`
    >>> import bedplate as bp
    >>> x = bp.ones(2) + 1
    >>> bp.synchronize()
    """
    place = None if device is None else Device(device)
    compute_pending()
    synchronize_devices(place)
