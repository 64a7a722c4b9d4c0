"""Operators: what Python's signs mean between values, and the few methods that ops are written by.

Tensors inherit from the class; nodes, which stand a floor below, are given the same members. All
other methods of tensors are derived: see tools/namespace.py.
`==` compares element by element on tensors only: nodes stay comparable by identity, because
graphs are kept in dictionaries and sets.
"""

from __future__ import annotations

from typing import Any

from bedplate.dtypes import FLOATS
from bedplate.graph.node import NO_ATTRIBUTES, Node
from bedplate.ops.build import is_number
from bedplate.ops.complex_numbers import parts as complex_parts
from bedplate.ops.elementwise import PLAIN_NUMBERS
from bedplate.ops.indexing import slices as indexing
from bedplate.ops.leaves import constant
from bedplate.ops.matmul import matmul as products
from bedplate.ops.pointwise import arithmetic, bits, comparison, convert, exponential
from bedplate.ops.reduction import positions, reduce, statistics
from bedplate.ops.shape import views

# second names of methods, as PyTorch users type them; tools/namespace.py writes them out
ALSO = {
    "amax": "max", "amin": "min", "clamp": "clip", "div": "divide", "expand": "broadcast_to",
    "mul": "multiply", "neg": "negative", "sub": "subtract", "unbind": "unstack",
    "unsqueeze": "expand_dims", "view": "reshape",
}  # fmt: skip


def _is_operand(other: Any) -> bool:
    """Whether `other` can be made a value; if not, it may know what to do with one."""
    known = hasattr(other, "_apply") or is_number(other) or isinstance(other, list | tuple)
    return known or hasattr(other, "__array__")


def _direct(function: Any) -> Any:
    """The method for `self op other`, which leaves to Python what is no operand."""
    op, accepted = getattr(function, "op", None), getattr(function, "accepted", ())
    floats = frozenset(accepted).intersection(FLOATS)

    def method(self: Any, other: Any) -> Any:
        kind = type(other)
        if kind is type(self) and accepted:  # what the function would do, sooner
            dtype = self.dtype
            if dtype is other.dtype and dtype in accepted:
                return self._apply(op, (self, other), NO_ATTRIBUTES)
        elif kind in PLAIN_NUMBERS and self.dtype in floats:
            other = self._from_node(constant(other, self.dtype, self.device))
            return self._apply(op, (self, other), NO_ATTRIBUTES)
        try:
            return function(self, other)
        except TypeError:
            if _is_operand(other):
                raise
            return NotImplemented

    return method


def _reflected(function: Any) -> Any:
    """The method for `other op self`."""

    def method(self: Any, other: Any) -> Any:
        try:
            return function(other, self)
        except TypeError:
            if _is_operand(other):
                raise
            return NotImplemented

    return method


def _compared(function: Any) -> Any:
    """`==` and `!=`, which leave to Python what is no operand (None, strings, other objects)."""

    def method(self: Any, other: Any) -> Any:
        return function(self, other) if _is_operand(other) else NotImplemented

    return method


class Operators:
    """What `x + y` and `x[i]` mean; see the functions for each."""

    __slots__ = ()

    __add__ = _direct(arithmetic.add)
    __radd__ = _reflected(arithmetic.add)
    __sub__ = _direct(arithmetic.subtract)
    __rsub__ = _reflected(arithmetic.subtract)
    __mul__ = _direct(arithmetic.multiply)
    __rmul__ = _reflected(arithmetic.multiply)
    __matmul__ = _direct(products.matmul)
    __rmatmul__ = _reflected(products.matmul)
    __truediv__ = _direct(arithmetic.divide)
    __rtruediv__ = _reflected(arithmetic.divide)
    __floordiv__ = _direct(arithmetic.floor_divide)
    __rfloordiv__ = _reflected(arithmetic.floor_divide)
    __mod__ = _direct(arithmetic.remainder)
    __rmod__ = _reflected(arithmetic.remainder)
    __pow__ = _direct(exponential.pow_)
    __rpow__ = _reflected(exponential.pow_)
    __neg__ = arithmetic.negative
    __pos__ = arithmetic.positive
    __abs__ = arithmetic.abs_
    __invert__ = bits.bitwise_invert
    __and__ = _direct(bits.bitwise_and)
    __rand__ = _reflected(bits.bitwise_and)
    __or__ = _direct(bits.bitwise_or)
    __ror__ = _reflected(bits.bitwise_or)
    __xor__ = _direct(bits.bitwise_xor)
    __rxor__ = _reflected(bits.bitwise_xor)
    __lshift__ = _direct(bits.bitwise_left_shift)
    __rlshift__ = _reflected(bits.bitwise_left_shift)
    __rshift__ = _direct(bits.bitwise_right_shift)
    __rrshift__ = _reflected(bits.bitwise_right_shift)
    __lt__ = _direct(comparison.less)
    __le__ = _direct(comparison.less_equal)
    __gt__ = _direct(comparison.greater)
    __ge__ = _direct(comparison.greater_equal)
    __eq__ = _compared(comparison.equal)  # type: ignore[assignment]
    __ne__ = _compared(comparison.not_equal)  # type: ignore[assignment]
    __hash__ = object.__hash__
    __getitem__ = indexing.get_item

    # what gradients, expansions and graphs made by hand, which run on nodes, are written with
    astype = convert.astype
    exp = exponential.exp
    reshape = views.reshape
    permute = views.permute
    transpose = views.transpose
    broadcast_to = views.broadcast_to
    sum = reduce.sum_
    prod = reduce.prod
    mean = statistics.mean
    argmax = positions.argmax

    @property
    def real(self) -> Any:
        """The real part; a real value is its own."""
        return complex_parts.real(self)

    @property
    def imag(self) -> Any:
        """The imaginary part of a complex value."""
        return complex_parts.imag(self)


IDENTITY = ("__eq__", "__ne__", "__hash__", "__module__", "__doc__", "__slots__", "__dict__")


def _give_to_nodes() -> None:
    for name, member in vars(Operators).items():
        if name not in IDENTITY and name not in vars(Node):
            setattr(Node, name, member)


_give_to_nodes()
