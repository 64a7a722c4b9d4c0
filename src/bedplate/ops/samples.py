"""Sample inputs of ops: small arrays from a random generator, for the tests made from records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate.ops.record import Sample

Bounds = tuple[float, float]


def floats(
    *shapes: tuple[int, ...], low: float = -2.0, high: float = 2.0, **attributes: Any
) -> Sample:
    """One float64 array a shape, uniform in [low, high); tests cast them as they need."""
    return Sample(
        lambda rng: [rng.uniform(low, high, shape) for shape in shapes],
        attributes,
        f"{' '.join(map(str, shapes))} {attributes or ''}",
    )


def integers(*shapes: tuple[int, ...], low: int = -9, high: int = 10, **attributes: Any) -> Sample:
    """One int64 array a shape, uniform in [low, high)."""
    return Sample(
        lambda rng: [rng.integers(low, high, shape) for shape in shapes],
        attributes,
        f"integers {' '.join(map(str, shapes))} {attributes or ''}",
    )


def bools(*shapes: tuple[int, ...], **attributes: Any) -> Sample:
    """One bool array a shape."""
    return Sample(
        lambda rng: [rng.random(shape) < 0.5 for shape in shapes],
        attributes,
        f"bools {' '.join(map(str, shapes))} {attributes or ''}",
    )


def mixed(make: Callable[[np.random.Generator], Any], name: str, **attributes: Any) -> Sample:
    """Inputs of several kinds, made by `make(generator)`."""
    return Sample(make, attributes, name)


def rough(make: Callable[[np.random.Generator], Any], name: str, **attributes: Any) -> Sample:
    """Inputs with ties or kinks, where the op has no derivative."""
    return Sample(make, attributes, name, smooth=False)


def one(low: float = -2.0, high: float = 2.0) -> tuple[Sample, ...]:
    """The usual samples of a unary op on floats: vector with a tail, matrix, 0-d, empty."""
    return tuple(floats(shape, low=low, high=high) for shape in ((3, 5), (37,), (), (0, 3)))


def two(low: float = -2.0, high: float = 2.0) -> tuple[Sample, ...]:
    """The usual samples of a binary op on floats: equal shapes, broadcast both ways, 0-d, empty."""
    shapes = [((3, 5), (3, 5)), ((4, 1), (1, 19)), ((2, 3), ()), ((0, 3), (1, 3)), ((5,), (2, 5))]
    return tuple(floats(a, b, low=low, high=high) for a, b in shapes)
