"""unfold as a method of tensors: windows along one axis; that of nn.functional is in patches.py."""

from __future__ import annotations

from bedplate.ops.build import Value, normalised_axis
from bedplate.ops.image.patches import windows_along


def unfold(x: Value, axis: int, size: int, step: int = 1) -> Value:
    """Cut an axis into windows, which may overlap.

    y[..., p, ..., k] = x[..., p step + k, ...]

    axis     which
    size     of a window
    step     from window to window
    returns  (size of the axis - size) // step + 1 windows along it, their elements as last axis
    gradient the sum over all windows that show the element
    raises   ShapeError if the window does not fit
    cost     `size` slices, put side by side
    >>> import bedplate as bp
    >>> bp.unfold(bp.tensor([1, 2, 3, 4, 5]), 0, 3, 2).tolist()
    [[1, 2, 3], [3, 4, 5]]
    """
    axis = normalised_axis("unfold", axis, len(x.shape), x)
    return windows_along("unfold", x, axis, size, step)
