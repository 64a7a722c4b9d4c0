"""Leaf ops: values that are not computed from others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.dtypes import ALL, COMPLEX, INTEGERS, DType, rounded
from bedplate.errors import DTypeError
from bedplate.graph.node import NO_ATTRIBUTES, Attributes, Node, Shape
from bedplate.ops.record import NoGradient, Op, Sample, register

LEAF = NoGradient("a leaf has no inputs")
Scalar = bool | int | float


def _infer_given(inputs: tuple[Any, ...], attributes: Attributes) -> tuple[Shape, DType]:
    return attributes["shape"], attributes["dtype"]


def _constant_reference(*, value: Scalar, dtype: DType) -> Any:
    return rounded(np.array(value), dtype.numpy) if dtype.is_float else np.array(value, dtype.numpy)


def _iota_reference(*, axis: int, shape: Shape, dtype: DType) -> Any:
    along = np.arange(shape[axis]).reshape([-1] + [1] * (len(shape) - 1 - axis))
    return np.broadcast_to(along, shape).astype(dtype.numpy)


BUFFER = register(
    Op("buffer", "leaf", _infer_given, gradient=LEAF, doc="A value that is in memory already.")
)
PLACEHOLDER = register(
    Op("placeholder", "leaf", _infer_given, gradient=LEAF, doc="Argument number `index` of a plan.")
)
CONSTANT = register(
    Op(
        "constant",
        "leaf",
        lambda inputs, attributes: ((), attributes["dtype"]),
        reference=_constant_reference,
        gradient=LEAF,
        dtypes=ALL,
        doc="The Python number `value`, of shape ().",
    )
)
IOTA = register(
    Op(
        "iota",
        "leaf",
        _infer_given,
        reference=_iota_reference,
        gradient=LEAF,
        samples=(
            Sample(lambda rng: (), {"axis": 0, "shape": (5,)}),
            Sample(lambda rng: (), {"axis": 1, "shape": (2, 3, 4)}),
        ),
        dtypes=tuple(dtype for dtype in ALL if dtype not in COMPLEX),
        doc="The index of each element along `axis`.",
    )
)
# not among the ops that users call: it stands between the plans of two devices
TRANSFER = Op(
    "transfer",
    "transfer",
    lambda inputs, attributes: (inputs[0].shape, inputs[0].dtype),
    doc="The same value on another device.",
)

# the integers that a dtype holds
LIMITS = {d: (int(np.iinfo(d.numpy).min), int(np.iinfo(d.numpy).max)) for d in INTEGERS}
# at most this many constants are shared; a training loop uses a few dozen
CACHE_SIZE = 4096
SIMPLE = (float, int)
_cache: dict[tuple[Any, ...], Node] = {}


def constant(value: Any, dtype: DType, device: Any) -> Node:
    """The node of a Python number; equal constants share one node.

    value   a real number; converted to the kind of dtype
    raises  DTypeError for a complex number, and for what the dtype does not hold: it is neither
            cut nor does it wrap
    """
    if value and type(value) in SIMPLE:  # neither zero nor complex: equal ones are the same
        found = _cache.get((value, dtype))
        if found is not None and found.block is None and found.device is device:
            return found
    value = fitting(value, dtype)
    found = _cache.get((value, dtype))
    # one that somebody read holds memory by now, and is no plain number for the compiler
    shared = found is not None and found.block is None and found.device == device
    if (
        found is not None
        and shared
        and ((value and dtype.kind != "c") or _same_signs(found, value))
    ):
        return found
    node = Node(CONSTANT, (), {"value": value, "dtype": dtype}, (), dtype, device)
    if len(_cache) < CACHE_SIZE and value == value:
        _cache[value, dtype] = node
    return node


def fitting(value: Scalar | complex, dtype: DType) -> Any:
    """A number as the Python number that stands for it in a dtype.

    raises  DTypeError for one that an integer dtype does not hold, and a complex one for a real
            dtype
    """
    kind = dtype.kind
    if kind == "c":
        return complex(value)
    if isinstance(value, complex):
        raise DTypeError(
            f"the complex number {value} does not become {dtype}\n"
            "  give its real part, or a complex dtype"
        )
    if kind == "f":
        try:
            return float(value)
        except OverflowError:
            bits = int(value).bit_length()
            raise DTypeError(f"the Python integer of {bits} bits does not fit a float") from None
    if kind == "b":
        return bool(value)
    least, greatest = LIMITS[dtype]
    number = int(value) if least <= value <= greatest else None
    if number is None or number != value:
        raise DTypeError(
            f"the Python number {value} does not fit {dtype} ({least} to {greatest}); "
            "cast the tensor first"
        )
    return number


def _same_signs(found: Node, value: Scalar) -> bool:
    """Whether a cached number, which equals `value`, has its signs: zeros are equal to -0.0."""
    return _signs(found.attributes["value"]) == _signs(value)


def _signs(value: Scalar) -> tuple[float, float]:
    if isinstance(value, complex):
        return math.copysign(1, value.real), math.copysign(1, value.imag)
    return math.copysign(1, value), 1


def iota(axis: int, shape: Shape, dtype: DType, device: Any) -> Node:
    """The node whose elements are their index along `axis`."""
    attributes = {"axis": axis, "shape": shape, "dtype": dtype}
    return Node(IOTA, (), attributes, shape, dtype, device)


def buffer(block: Any, shape: Shape, dtype: DType, device: Any) -> Node:
    """The node of a value that is in memory already."""
    return Node(BUFFER, (), NO_ATTRIBUTES, shape, dtype, device, block)


def transfer(source: Node, device: Any, site: Any) -> Node:
    """The node of a value of another device, moved to `device`."""
    return Node(TRANSFER, (source,), NO_ATTRIBUTES, source.shape, source.dtype, device, None, site)


def placeholder(index: int, shape: Shape, dtype: DType, device: Any) -> Node:
    """The node of argument number `index` of a plan."""
    attributes = {"index": index, "shape": shape, "dtype": dtype}
    return Node(PLACEHOLDER, (), attributes, shape, dtype, device)
