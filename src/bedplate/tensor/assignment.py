"""Assignment: operators such as `x += y`, `x[i] = v` and `assign` bind x to a new value.

The new value has the shape and dtype of the old one. A leaf that requires a gradient cannot
change while gradients are recorded: what was computed from it would have the gradient of a
value that is gone from sight.
"""

from __future__ import annotations

import operator
from typing import Any, TypeVar

from bedplate.autograd.tape import Leaf
from bedplate.errors import DTypeError, GradientError, ShapeError
from bedplate.graph.pending import LOCAL
from bedplate.ops.build import number
from bedplate.tensor import indexing

KINDS = "biufc"
Self = TypeVar("Self", bound="Assignment")


class Assignment:
    """The part of a tensor that binds it to new values."""

    __slots__ = ()
    _entry: Any
    _node: Any
    shape: Any
    dtype: Any
    _lift: Any

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check_rebind("x[...] = v")
        self._replace(indexing.put(self, key, value), "x[...] = v")

    def assign(self: Self, value: Any) -> Self:
        """Bind this tensor to the value of another of its shape; returns the tensor itself.

        value   a tensor, array or number, moved to this device and converted to this dtype
        raises  ShapeError; DTypeError; GradientError for a leaf that requires a gradient,
                outside no_grad
        >>> import bedplate as bp
        >>> bp.zeros(2).assign(bp.ones(2)).tolist()
        [1.0, 1.0]
        """
        self._check_rebind("assign")
        value = self._lift(value)
        if value._node.device is not self._node.device:
            value = value.to(self._node.device)
        return self._replace(value, "assign")

    def zero_(self: Self) -> Self:
        """Bind this tensor to zeros; returns the tensor itself."""
        return self.assign(number(self, 0).broadcast_to(self.shape))

    def _is_own_leaf(self) -> bool:
        """Whether gradients end here (in an alias of a leaf they pass on to the leaf)."""
        entry = self._entry
        return isinstance(entry, Leaf) and entry.tensor() is self

    def _check_rebind(self, what: str) -> None:
        if self._is_own_leaf() and LOCAL.state.recording:
            raise GradientError(
                f"{what}: this tensor is a leaf that requires a gradient, so it cannot change "
                "while gradients are recorded\n"
                f"  a  {self.shape} {self.dtype}   made at {self._node.line()}\n"
                "  update it inside `with bp.no_grad():`, or compute a new tensor from it"
            )

    def _replace(self: Self, value: Any, what: str) -> Self:
        if value.shape != self.shape:
            raise ShapeError(
                f"{what}: the result has shape {value.shape}, this tensor {self.shape}\n"
                "  an assignment keeps the shape; compute a new tensor instead"
            )
        if value.dtype is not self.dtype:
            if KINDS.index(value.dtype.kind) > KINDS.index(self.dtype.kind):
                raise DTypeError(
                    f"{what}: the result is {value.dtype}, this tensor {self.dtype}\n"
                    "  an assignment keeps the dtype; convert one side with .astype(...)"
                )
            value = value.astype(self.dtype)
        self._rebind(value._node, value._entry)
        return self

    def _rebind(self, node: Any, entry: Any = None) -> None:
        """Bind this tensor to another value: the only way in which `_node` changes.

        A leaf that requires a gradient stays that leaf.
        """
        watcher = LOCAL.state.watcher
        if watcher is not None:
            watcher.rebinding(self)
        self._node = node
        if not self._is_own_leaf():
            self._entry = entry

    def _in_place(self: Self, sign: str, compute: Any, other: Any) -> Self:
        self._check_rebind(f"x {sign} y")
        return self._replace(compute(self, other), f"x {sign} y")

    def __iadd__(self: Self, other: Any) -> Self:
        return self._in_place("+=", operator.add, other)

    def __isub__(self: Self, other: Any) -> Self:
        return self._in_place("-=", operator.sub, other)

    def __imul__(self: Self, other: Any) -> Self:
        return self._in_place("*=", operator.mul, other)

    def __itruediv__(self: Self, other: Any) -> Self:
        return self._in_place("/=", operator.truediv, other)

    def __ifloordiv__(self: Self, other: Any) -> Self:
        return self._in_place("//=", operator.floordiv, other)

    def __imod__(self: Self, other: Any) -> Self:
        return self._in_place("%=", operator.mod, other)

    def __ipow__(self: Self, other: Any) -> Self:
        return self._in_place("**=", operator.pow, other)

    def __imatmul__(self: Self, other: Any) -> Self:
        return self._in_place("@=", operator.matmul, other)

    def __iand__(self: Self, other: Any) -> Self:
        return self._in_place("&=", operator.and_, other)

    def __ior__(self: Self, other: Any) -> Self:
        return self._in_place("|=", operator.or_, other)

    def __ixor__(self: Self, other: Any) -> Self:
        return self._in_place("^=", operator.xor, other)

    def __ilshift__(self: Self, other: Any) -> Self:
        return self._in_place("<<=", operator.lshift, other)

    def __irshift__(self: Self, other: Any) -> Self:
        return self._in_place(">>=", operator.rshift, other)
