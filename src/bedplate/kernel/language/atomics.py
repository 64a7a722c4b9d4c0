"""Atomics of the kernel language, sequentially consistent unless said otherwise."""

from __future__ import annotations

from typing import Any

from bedplate.kernel.context import failure, tracer
from bedplate.kernel.types import Type
from bedplate.kernel.values import Value, as_value

LOAD_ORDERS = ("monotonic", "acquire", "seq_cst")
STORE_ORDERS = ("monotonic", "release", "seq_cst")
ORDERS = ("monotonic", "acquire", "release", "acq_rel", "seq_cst")


def _word(pointer: Any, order: str, orders: tuple[str, ...]) -> Type:
    element = pointer.type.element if isinstance(pointer, Value) else None
    if element is None or not element.is_integer or element.bits < 8 or element.is_pointer:
        raise failure("an atomic needs a pointer to integers", "ptr(i8) to ptr(u64)", at=pointer)
    if order not in orders:
        raise failure(f"the order {order!r} does not fit", ", ".join(orders), at=pointer)
    return element


def atomic_load(pointer: Value, order: str = "seq_cst") -> Value:
    """Read an integer that other threads write; order monotonic, acquire or seq_cst."""
    element = _word(pointer, order, LOAD_ORDERS)
    return tracer().emit("atomic_load", element, (pointer,), {"order": order})


def atomic_store(pointer: Value, value: Any, order: str = "seq_cst") -> None:
    """Write an integer that other threads read; order monotonic, release or seq_cst."""
    element = _word(pointer, order, STORE_ORDERS)
    value = as_value(value, element, "the value stored")
    tracer().emit("atomic_store", None, (pointer, value), {"order": order})


def atomic_add(pointer: Value, value: Any, order: str = "seq_cst") -> Value:
    """Add to an integer in one step; returns what was there before."""
    element = _word(pointer, order, ORDERS)
    value = as_value(value, element, "the value added")
    return tracer().emit("atomic_add", element, (pointer, value), {"order": order})


def atomic_exchange(pointer: Value, value: Any, order: str = "seq_cst") -> Value:
    """Replace an integer in one step; returns what was there before."""
    element = _word(pointer, order, ORDERS)
    value = as_value(value, element, "the new value")
    return tracer().emit("atomic_exchange", element, (pointer, value), {"order": order})


def atomic_cas(pointer: Value, expected: Any, value: Any, order: str = "seq_cst") -> Value:
    """Replace an integer if it is `expected`; returns what was there before."""
    element = _word(pointer, order, ORDERS)
    expected = as_value(expected, element, "the value expected")
    value = as_value(value, element, "the new value")
    return tracer().emit("atomic_cas", element, (pointer, expected, value), {"order": order})


def fence(order: str = "seq_cst") -> None:
    """Order the memory accesses before it against those after it."""
    if order not in ORDERS[1:]:
        raise failure(f"the order {order!r} does not fit", ", ".join(ORDERS[1:]))
    tracer().emit("fence", None, (), {"order": order})


def pause() -> None:
    """Tell the core that this is a loop that waits (x86 pause, aarch64 yield)."""
    tracer().emit("pause", None, ())
