"""The helper that has the driver compile SPIR-V; see kernel/device/apart.py.

A driver's compiler that meets a fault of its own ends the process that it runs in. So it runs in
this one: what it makes goes back as a binary, which the asking process only loads.

A question is the number of the device, the length of the options, the options, the SPIR-V.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bedplate.devices.opencl.executable import Builder

HEAD = struct.Struct("<II")


def question(device: int, options: bytes, spirv: bytes) -> bytes:
    """What is asked: a binary for a device, by its place among the devices."""
    return HEAD.pack(device, len(options)) + options + spirv


def serve(source: Any, target: Any, builder: Any, apart: Any) -> None:
    """Answer questions until there are no more."""
    builders: dict[tuple[int, bytes], Builder] = {}
    while True:
        try:
            _, content = apart.read(source)
        except EOFError:
            return
        device, size = HEAD.unpack_from(content)
        options, spirv = content[HEAD.size : HEAD.size + size], content[HEAD.size + size :]
        try:
            if (device, options) not in builders:
                builders[device, options] = builder(device, options)
            answer = b"+", builders[device, options].binary(spirv)
        except Exception as error:
            answer = b"-", f"{error}".encode()
        apart.write(target, *answer)


def main() -> None:
    # this file may be run by its path, where the package is not found by its name
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    from bedplate.devices.opencl.executable import Builder  # noqa: PLC0415
    from bedplate.kernel.device import apart  # noqa: PLC0415

    serve(sys.stdin.buffer, sys.stdout.buffer, Builder, apart)


if __name__ == "__main__":
    main()
