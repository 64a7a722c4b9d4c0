"""Which kinds of devices there are: those of Bedplate itself, and those that other packages offer.

Nothing is imported before it is asked for: the back ends of Bedplate at the first use of their
name, those of other packages at the first unknown name, and all of them to say what there is. One
that cannot be imported never disturbs the others; whoever asks for it is told why.
"""

from __future__ import annotations

import importlib
import threading
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from bedplate.devices.backend import ENTRY_POINTS, Backend
from bedplate.errors import DeviceError
from bedplate.forks import renewed
from bedplate.later import Later

metadata: Any = Later("importlib.metadata")


@dataclass(frozen=True)
class HostBackend:
    """A device whose values lie in this process's own memory; there is one.

    is_native  plans run on it as machine code of this processor
    """

    name: str
    description: str
    is_native: bool

    def count(self) -> int:
        return 1


BACKENDS: dict[str, HostBackend] = {
    "cpu": HostBackend("cpu", "SIMD kernels on all cores", True),
    "reference": HostBackend("reference", "the NumPy reference of each operation", False),
}
# Bedplate's own that need more packages: name -> (module with BACKEND, the extra to install)
OPTIONAL = {
    "opencl": ("bedplate.devices.opencl", "opencl"),
    "cuda": ("bedplate.devices.cuda", "cuda"),
}


class _Registry:
    """Back ends by name.

    found   those that were loaded or registered
    broken  those that could not be loaded, and why
    """

    def __init__(self) -> None:
        self.lock = renewed(threading.RLock())
        self.found: dict[str, Backend] = {}
        self.broken: dict[str, str] = {}
        self.has_read_entry_points = False

    def find(self, name: str) -> Backend | None:
        with self.lock:
            if name not in self.found and name in OPTIONAL:
                self._load_optional(name)
            elif name not in self.found:
                self.read_entry_points()
            return self.found.get(name)

    def _load_optional(self, name: str) -> None:
        module, _ = OPTIONAL[name]
        if find_spec(module) is None:
            return
        try:
            self.found[name] = importlib.import_module(module).BACKEND
        except Exception as error:
            self.broken[name] = f"{type(error).__name__}: {error}"

    def read_entry_points(self) -> None:
        """Load what other packages offer, once."""
        if self.has_read_entry_points:
            return
        self.has_read_entry_points = True
        for entry in metadata.entry_points(group=ENTRY_POINTS):
            if entry.name in self.found or entry.name in BACKENDS or entry.name in OPTIONAL:
                self.broken[f"{entry.name} of {entry.value}"] = "the name is taken"
                continue
            try:
                self.found[entry.name] = _checked(entry.load(), entry.name)
            except Exception as error:
                self.broken[entry.name] = f"{entry.value}: {type(error).__name__}: {error}"

    def all(self) -> dict[str, Any]:
        """Every back end that can be loaded."""
        with self.lock:
            for name in OPTIONAL:
                self.find(name)
            self.read_entry_points()
            return {**BACKENDS, **self.found}


_registry = _Registry()


def register(backend: Backend) -> None:
    """Make a back end known to this process, as an entry point does for all.

    raises  DeviceError if its name is taken, or is none
    """
    name = getattr(backend, "name", None)
    with _registry.lock:
        known = _registry.found.get(str(name))
        if known is backend:
            return
        if known is not None or name in BACKENDS or name in OPTIONAL:
            raise DeviceError(f"register: there is a back end {name!r} already")
        _registry.found[str(name)] = _checked(backend, name)


def _checked(backend: Any, name: Any) -> Backend:
    """raises DeviceError for what is no back end"""
    if not isinstance(name, str) or not name.isidentifier():
        raise DeviceError(f"register: {name!r} is no name of a back end; use letters and digits")
    if backend.name != name:
        raise DeviceError(f"register: the back end {backend.name!r} is offered as {name!r}")
    missing = [part for part in ("count", "open", "description") if not hasattr(backend, part)]
    if missing:
        raise DeviceError(
            f"register: {backend!r} is no back end, it has no {', '.join(missing)}\n"
            "  see bedplate.devices.backend.Backend"
        )
    return backend


def find(name: str) -> Any:
    """The back end of a name.

    raises  DeviceError that says what there is, and how the missing one is installed
    """
    found = BACKENDS.get(name) or _registry.find(name)
    if found is not None:
        return found
    if name in _registry.broken:
        fault = f"cannot be loaded: {_registry.broken[name]}"
    elif name in OPTIONAL:
        fault = f"has no back end installed here; {_how_to_install(name)}"
    else:
        fault = "is unknown"
    raise DeviceError(f"Device: {name!r} {fault}; there is {available()}")


def check_present(name: str, index: int) -> Any:
    """The back end of a device that is there.

    raises  DeviceError
    """
    backend = find(name)
    count = backend.count()
    if index < count:
        return backend
    if count == 0:
        advice = f"; {_how_to_install(name)}" if name in OPTIONAL else ""
        raise DeviceError(
            f"Device: {name!r} has no device on this machine{advice}; there is {available()}"
        )
    raise DeviceError(
        f"Device: '{name}:{index}' is absent, this machine has {count} of {name!r}; "
        f"there is {available()}"
    )


def _how_to_install(name: str) -> str:
    return f"pip install 'bedplate[{OPTIONAL[name][1]}]'"


def available() -> str:
    """The devices of this machine, as text.

    >>> available().startswith("'cpu', 'reference'")
    True
    """
    names = [
        repr(name if index == 0 else f"{name}:{index}")
        for name, backend in _registry.all().items()
        for index in range(backend.count())
    ]
    return ", ".join(names)


def backends() -> dict[str, Any]:
    """Every back end that can be loaded, by name."""
    return _registry.all()


def broken() -> dict[str, str]:
    """The back ends that are offered and cannot be loaded: name -> why."""
    _registry.all()
    return dict(_registry.broken)
