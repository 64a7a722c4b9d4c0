"""Copies between the host and devices, each started on a queue for copies and not waited for.

What is copied stays as it is meanwhile: values are never written. Two devices of different drivers
exchange by way of the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bedplate.devices.block import Array, ArrivingBlock, DeviceBlock, arriving
from bedplate.memory import Block, ForeignBlock, line_of

if TYPE_CHECKING:
    from bedplate.devices.device import Device
    from bedplate.devices.runtime import Runtime


def stored(device: Device, array: Array, site: Any = None) -> Any:
    """A block of `device` with the content of an array, which nobody writes from here on.

    array  C-contiguous
    """
    if device.runtime is None:
        return Block.from_numpy(array, site)
    return upload(device.runtime, array, site)


def upload(runtime: Runtime, array: Array, site: Any = None) -> DeviceBlock:
    """Start to copy a contiguous array to a device."""
    queue = runtime.uploads
    block = DeviceBlock(array.nbytes, queue, site)
    if array.nbytes:
        content = array.reshape(-1).view(np.uint8)
        with runtime.starting(queue, content):
            runtime.driver.write(queue.handle, block.address, content)
            block.work = queue.started(
                kept=(content,), what=lambda: _copy_text("to", runtime, site)
            )
    return block


def download(block: DeviceBlock, site: Any = None) -> Block:
    """Start to copy a block of a device to the host."""
    runtime = block.runtime
    queue = runtime.downloads
    memory, content = arriving(block.nbytes, site)
    before = block.work
    if not block.nbytes:
        return memory
    if before is not None and not before.is_settled and before.queue is not queue:
        runtime.driver.wait(queue.handle, before.event)
    with runtime.starting(queue, memory, block):
        runtime.driver.read(queue.handle, content, block.address)
        work = queue.started(
            needs=() if before is None else (before,), kept=(memory, content, block),
            what=lambda: _copy_text("from", runtime, site),
        )  # fmt: skip
    return ArrivingBlock(memory, work)


def _copy_text(direction: str, runtime: Runtime, site: Any) -> str:
    return f"a copy {direction} {runtime.device}, asked for at {line_of(site)}"


def moved(block: Any, device: Device, site: Any = None) -> Any:
    """The block of a value on another device: started, not waited for."""
    if isinstance(block, DeviceBlock):
        here = download(block, site)
        return here if device.runtime is None else upload(device.runtime, _bytes(here), site)
    if device.runtime is None:
        return block  # values are never written, and both devices read the host's memory
    content = _bytes(block)
    if type(block) is ForeignBlock:  # its owner may write it
        content = content.copy()
    return upload(device.runtime, content, site)


def _bytes(block: Block) -> Array:
    return block.array(np.uint8, (block.nbytes,))
