"""What of the arguments of a captured step specialises it, and how they are put together again.

Tensors specialise by shape, dtype, device and history, and by which of them are one and the
same; every other value by its type and value. Values that Python calls equal although they
differ (1, True and 1.0; 0.0 and -0.0) are told apart at any depth.
"""

from __future__ import annotations

import dataclasses
import enum
import numbers
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bedplate.autograd.tape import Leaf
from bedplate.devices.device import Device
from bedplate.dtypes import DType
from bedplate.errors import CaptureError
from bedplate.tensor.tensor import Tensor

_PLAIN = (int, bool, str, bytes, type(None))  # equal values of one of these types are the same
_RESULTS = (numbers.Number, str, bytes, type(None), np.generic, enum.Enum, DType, Device, type)


@dataclasses.dataclass(frozen=True)
class Part:
    """The place of a tensor in a result."""

    source: Any


class _Itself:
    """An argument that specialises by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


class Guard:
    """Whether arguments given by place are of the kind that was seen: quicker than to describe
    them. A value is equal to itself here only if Python's `==` says so of its very type.

    wanted  for each argument: its type; of a tensor shape, dtype, device and the type of its
            history, of another value that value and None
    """

    __slots__ = ("wanted",)

    def __init__(self, wanted: list[tuple[Any, ...]]) -> None:
        self.wanted = wanted

    def tensors(self, arguments: tuple[Any, ...]) -> list[Tensor] | None:
        """The tensors among the arguments, or None if these are, or may be, of another kind."""
        if len(arguments) != len(self.wanted):
            return None
        found = []
        # as many as there are wanted: to have zip compare once more would cost 5 %
        for value, (kind, shape, dtype, device, entry) in zip(arguments, self.wanted):  # noqa: B905
            if type(value) is not kind:
                return None
            if dtype is None:
                if value != shape:
                    return None
                continue
            node = value._node
            if (
                node.shape != shape
                or node.dtype is not dtype
                or node.device is not device
                or type(value._entry) is not entry
            ):
                return None
            found.append(value)
        if len(found) == 2:
            return None if found[0] is found[1] else found
        if len(found) > 2 and len(set(map(id, found))) != len(found):
            return None
        return found


def guard_of(arguments: tuple[Any, ...]) -> Guard | None:
    """The guard of such arguments, all different tensors or plain values; None if there is none."""
    wanted: list[tuple[Any, ...]] = []
    for value in arguments:
        kind = type(value)
        if isinstance(value, Tensor):
            if history(value) == "computed":
                return None
            node = value._node
            wanted.append((kind, node.shape, node.dtype, node.device, type(value._entry)))
        elif kind in _PLAIN:
            wanted.append((kind, value, None, None, None))
        else:
            return None
    return Guard(wanted)


def described(value: Any, tensors: list[Tensor]) -> Any:
    """A hashable description of arguments; their tensors go to the list."""
    kind = type(value)
    if kind is tuple:
        return tuple([described(item, tensors) for item in value])
    if isinstance(value, Tensor):
        tensors.append(value)
        node = value._node
        return node.shape, node.dtype, node.device, history(value)
    if kind in _PLAIN:
        return kind, value
    if kind is float or kind is complex:
        return kind, repr(value)
    if kind is list or _is_named_tuple(value):
        return kind, tuple([described(item, tensors) for item in value])
    if kind is dict:
        return kind, tuple(
            [(described(key, []), described(item, tensors)) for key, item in value.items()]
        )
    return kind, _of_value(value)


def _of_value(value: Any) -> Any:
    """A description of an argument that is passed on as it is."""
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, (float, complex, numbers.Number)):
        return value, repr(value)
    inside: list[Tensor] = []
    parts = _parts(value)
    if parts is not None:
        found = tuple([described(item, inside) for item in parts])
        found = frozenset(found) if isinstance(value, frozenset) else found
        return _Itself(value) if inside else found
    try:
        hash(value)
    except TypeError:
        raise CaptureError(
            f"jit: an argument of type {type(value).__name__} cannot specialise a captured step\n"
            "  pass tensors (bp.tensor(array)), numbers, strings, or containers of these"
        ) from None
    return value


def _parts(value: Any) -> Any:
    """What an immutable container holds, None for anything else."""
    if isinstance(value, slice):
        return value.start, value.stop, value.step
    if isinstance(value, (tuple, frozenset)):
        return value
    if dataclasses.is_dataclass(value) and type(value).__hash__ not in (None, object.__hash__):
        return [getattr(value, part.name) for part in dataclasses.fields(value)]
    return None


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def history(tensor: Tensor) -> bool | str:
    """Whether a tensor requires a gradient; "computed" if it was computed from one that does."""
    entry = tensor._entry
    if entry is None:
        return False
    return True if type(entry) is Leaf else "computed"


def sharing(tensors: list[Tensor]) -> Any:
    """Which tensors of a list are one and the same; None if all differ."""
    identities = [id(tensor) for tensor in tensors]
    if len(set(identities)) == len(identities):
        return None
    return tuple([identities.index(identity) for identity in identities])


def rebuilt(value: Any, tensors: Iterator[Tensor]) -> Any:
    """The arguments with the next tensors in the place of theirs."""
    if isinstance(value, Tensor):
        return next(tensors)
    return _mapped(value, lambda item: rebuilt(item, tensors))


def pack(value: Any, of_tensor: Callable[[Tensor], Any]) -> Any:
    """What a function gave back, with each tensor replaced."""
    if isinstance(value, Tensor):
        return Part(of_tensor(value))
    if type(value) not in (tuple, list, dict) and not _is_named_tuple(value):
        _check_result(value)
    return _mapped(value, lambda item: pack(item, of_tensor))


def _check_result(value: Any) -> None:
    """Refuse what could hide tensors, or could come out only once."""
    if isinstance(value, _RESULTS) or value is NotImplemented or value is Ellipsis:
        return
    parts = _parts(value)
    if parts is None or any(isinstance(part, Tensor) for part in parts):
        kind = type(value).__name__
        raise CaptureError(
            f"jit: the step gave back an object of type {kind}, which cannot be made anew by a "
            "replay\n  give back tensors, numbers and strings, in tuples, lists or dicts"
        )
    for part in parts:
        if type(part) not in (tuple, list, dict):
            _check_result(part)


def unpack(value: Any, of_part: Callable[[Any], Any]) -> Any:
    """The inverse of `pack`."""
    if type(value) is Part:
        return of_part(value.source)
    return _mapped(value, lambda item: unpack(item, of_part))


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    kind = type(value)
    if _is_named_tuple(value):
        return kind._make([change(item) for item in value])
    if kind is tuple or kind is list:
        return kind([change(item) for item in value])
    if kind is dict:
        return {name: change(item) for name, item in value.items()}
    return value
