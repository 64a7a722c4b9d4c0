"""The Array API standard's own names: the version, its constants, the inspection of the namespace,
and the members of a tensor that lead to them.

source   https://data-apis.org/array-api/2025.12
"""

from __future__ import annotations

import math
import sys
from types import ModuleType
from typing import Any

from bedplate.devices.device import Device, current_device
from bedplate.devices.registry import BACKENDS
from bedplate.devices.stream import Stream
from bedplate.dtypes import ALL, DType, complex64, float32, int64
from bedplate.tensor.data_types import KINDS

__array_api_version__ = "2025.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", __array_api_version__)
MAX_DIMENSIONS = 64  # of the arrays in which the reference device computes

e = math.e
inf = math.inf
nan = math.nan
newaxis = None
pi = math.pi


class NamespaceInfo:
    """What the namespace can do, has, and takes by default.

    >>> import bedplate as bp
    >>> bp.__array_namespace_info__().default_dtypes()["real floating"]
    bedplate.float32
    """

    def capabilities(self) -> dict[str, Any]:
        """Whether masks and shapes that depend on values are there; the most axes."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": MAX_DIMENSIONS,
        }

    def default_device(self) -> Device:
        """The device of new tensors in this thread."""
        return current_device()

    def devices(self) -> tuple[Device, ...]:
        """All devices of this machine."""
        return tuple(
            Device(f"{name}:{index}")
            for name, backend in BACKENDS.items()
            for index in range(backend.count())
        )

    def default_dtypes(self, *, device: Device | str | None = None) -> dict[str, DType]:
        """The dtypes of Python numbers and of indices; the same on every device."""
        _known(device)
        return {
            "real floating": float32,
            "complex floating": complex64,
            "integral": int64,
            "indexing": int64,
        }

    def dtypes(
        self,
        *,
        device: Device | str | None = None,
        kind: str | tuple[str, ...] | None = None,
    ) -> dict[str, DType]:
        """The standard's dtypes by name; float16 and bfloat16, which it has not, are left out.

        kind     only those of a kind (see `isdtype`), or of any of several
        raises   ValueError for another word
        """
        _known(device)
        kinds = tuple(KINDS) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        for word in kinds:
            if word not in KINDS:
                raise ValueError(f"dtypes: unknown kind {word!r}; there are {', '.join(KINDS)}")
        letters = "".join(KINDS[word] for word in kinds)
        beyond = ("float16", "bfloat16")
        return {d.name: d for d in ALL if d.kind in letters and d.name not in beyond}


def _known(device: Device | str | None) -> None:
    """Refuse a device that this machine has not."""
    if device is not None:
        Device(device)


def __array_namespace_info__() -> NamespaceInfo:
    """Capabilities, devices and dtypes of the namespace, for code that is written for any.

    >>> import bedplate as bp
    >>> sorted(bp.__array_namespace_info__().dtypes(kind="real floating"))
    ['float32', 'float64']
    """
    return NamespaceInfo()


class Standard:
    """The part of a tensor by which code for any array library finds this one."""

    __slots__ = ()

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """The module `bedplate`.

        api_version  None, or a version of the standard that has been published
        raises       ValueError for another one
        """
        if api_version is not None and api_version not in VERSIONS:
            raise ValueError(
                f"__array_namespace__: version {api_version!r} of the Array API is unknown; "
                f"there are {', '.join(VERSIONS)}"
            )
        return sys.modules[__name__.partition(".")[0]]

    def to_device(self: Any, device: Device | str, /, stream: Any = None) -> Any:
        """The same value on a device; the tensor itself if it is there.

        stream   None or a `Stream`: values are handed over when they are computed
        raises   DeviceError for an unknown device; TypeError for what is no stream
        >>> import bedplate as bp
        >>> bp.ones(2).to_device("reference").device
        Device('reference')
        """
        if stream is not None and not isinstance(stream, Stream):
            raise TypeError(f"to_device: expected a Stream, got {type(stream).__name__}")
        return self.to(Device(device))
