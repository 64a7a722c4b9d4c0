"""Checks of gradients against finite differences.

Everything runs in float64 (complex128). A first central difference costs two calls an element. Its
error from rounding is about 1e-16 f / h, f what the element can move; where that, or the curve,
leaves it open whether 0.1 % is wrong, a second, finer one decides: differences with steps h and
2 h, joined so that their errors of order h^2 cancel, for the best of several h. The bound follows
the derivative of each element, so functions whose derivatives differ by many orders are held to
0.1 % everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bedplate.autograd.functional import vjp
from bedplate.autograd.mode import no_grad
from bedplate.dtypes import complex128, float64
from bedplate.errors import GradientError
from bedplate.ops.complex_numbers.parts import imag, real
from bedplate.ops.shape.regions import concat

STEP = 1e-6
RELATIVE = 1e-5
ABSOLUTE = 0.0
# roundings of a function's value that its own arithmetic may add up
ROUNDINGS = 16 * float(np.finfo(np.float64).eps)
# beside the largest derivative or value, one that no difference shows is lost in roundings
LOST = 1e-13
# the steps from which the finer difference takes the best
FINER = (1e-2, 1e-3, 1e-4, 1e-5)
Array = np.ndarray[Any, Any]
Masks = Sequence[Any] | None


def gradcheck(
    function: Callable[..., Any],
    inputs: Any,
    step: float = STEP,
    rtol: float = RELATIVE,
    atol: float = ABSOLUTE,
    masks: Masks = None,
) -> bool:
    """Compare the gradients of `function` with finite differences.

    function  of tensors, returns a tensor or a tuple of them; only floats and complex numbers
              among them count
    inputs    a tensor or several; floats are checked in float64, complex numbers in complex128, by
              their real and their imaginary part
    step      of the differences, relative to an input of size 1
    rtol      bound of the difference, relative to the derivative of each element
    atol      more that is allowed, where a function loses digits inside
    masks     one for each input: an array of bools, False where the function has no derivative
              (a kink, a tie), or None to check everything
    returns   True
    raises    GradientError that names the input and the element which differ most
    >>> import bedplate as bp
    >>> bp.gradcheck(lambda x: x.exp(), bp.tensor([0.5, 1.0]))
    True
    >>> bp.gradcheck(lambda x: x.relu(), bp.tensor([0.0, 1.0]), masks=[[False, True]])
    True
    """
    given = as_float64(inputs)
    flat = _flat(function)
    value, pull = vjp(flat, *given)
    vector = _direction(value)
    analytic = [gradient.numpy() for gradient in pull(vector)]
    slopes = _Slopes(flat, given, vector.numpy(), step)
    for index, x in enumerate(given):
        if x.dtype.kind in "fc":
            mask = _mask(masks, index, x)
            _compare(index, analytic[index], slopes, mask, rtol, atol)
    return True


def gradgradcheck(
    function: Callable[..., Any],
    inputs: Any,
    step: float = STEP,
    rtol: float = RELATIVE,
    atol: float = ABSOLUTE,
    masks: Masks = None,
) -> bool:
    """Compare the second derivatives of `function` with finite differences of its gradients.

    As `gradcheck`, for the function that gives the gradients.
    >>> import bedplate as bp
    >>> bp.gradgradcheck(lambda x: x**3, bp.tensor([0.5, 1.0]))
    True
    """
    given = as_float64(inputs)
    flat = _flat(function)
    value, _ = vjp(flat, *given)

    def gradients(seed: Any, *values: Any) -> Any:
        pulled = vjp(flat, *values)[1](seed)
        return tuple(g for g, x in zip(pulled, values, strict=True) if x.dtype.kind in "fc")

    whole = None if masks is None else [None, *masks]
    return gradcheck(gradients, [_direction(value, 7), *given], step, rtol, atol, whole)


def as_float64(inputs: Any) -> list[Any]:
    """The inputs without history, floats as float64 and complex numbers as complex128.

    raises TypeError for what is no tensor, GradientError if none of them has gradients
    """
    given = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    for index, x in enumerate(given):
        if not hasattr(x, "_node"):
            raise TypeError(f"gradcheck: input {index} is {type(x).__name__}, not a tensor")
    wide = {"f": float64, "c": complex128}
    result = [x.detach().astype(wide.get(x.dtype.kind, x.dtype)) for x in given]
    if not any(x.dtype.kind in "fc" for x in result):
        raise GradientError("gradcheck: no input is floating point")
    return result


def _flat(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with all its real and imaginary parts in one row."""

    def flattened(*inputs: Any) -> Any:
        found = function(*inputs)
        outputs = list(found) if isinstance(found, tuple | list) else [found]
        parts = []
        for output in outputs:
            if not hasattr(output, "_node"):
                kind = type(output).__name__
                raise TypeError(f"gradcheck: the function must return tensors, got {kind}")
            if output.dtype.kind in "fc":
                both = [real(output), imag(output)] if output.dtype.kind == "c" else [output]
                parts += [part.astype(float64).reshape(-1) for part in both if part.size]
        if not parts:
            return inputs[0]._lift(np.zeros(0))
        return parts[0] if len(parts) == 1 else concat(parts, 0)

    return flattened


def _direction(like: Any, seed: int = 0) -> Any:
    """Fixed weights between 0.5 and 1.5 with both signs, so that nothing cancels or vanishes."""
    generator = np.random.default_rng(seed)
    weights = generator.uniform(0.5, 1.5, like.shape) * generator.choice([-1.0, 1.0], like.shape)
    return like._lift(weights).astype(like.dtype)


def _mask(masks: Masks, index: int, x: Any) -> Array:
    mask = None if masks is None or index >= len(masks) else masks[index]
    if mask is None:
        return np.ones(x.shape, bool)
    return np.broadcast_to(np.asarray(mask, bool), x.shape)


class _Slopes:
    """Derivatives of sum(weights * function(inputs)) by differences, one element at a time."""

    def __init__(
        self, function: Callable[..., Any], inputs: list[Any], weights: Array, step: float
    ) -> None:
        self.function, self.inputs, self.weights, self.step = function, inputs, weights, step
        self.starts = [x.numpy() for x in inputs]
        with no_grad():
            value = np.abs(function(*inputs).numpy())
        self.largest = float(value[np.isfinite(value)].max(initial=0.0))

    def _value(self, index: int, place: Any, moved: Any) -> Array:
        array = self.starts[index].copy()
        array[place] = moved
        given = [*self.inputs[:index], self.inputs[index]._lift(array), *self.inputs[index + 1 :]]
        with no_grad():
            return self.function(*given).numpy()

    def central(self, index: int, place: Any, step: complex) -> tuple[float, float]:
        """The difference over 2 |step|, and how much of it may be rounding.

        step  imaginary to move the imaginary part
        """
        start = self.starts[index][place]
        high, low = (self._value(index, place, start + signed) for signed in (step, -step))
        width = abs((start + step) - (start - step))
        moving = high != low
        with np.errstate(all="ignore"):
            weighed = np.abs(self.weights[moving]) * (np.abs(high[moving]) + np.abs(low[moving]))
            noise = ROUNDINGS * float(weighed.sum()) / width
            return float(((high - low) * self.weights).sum() / width), noise

    def quick(self, index: int, place: Any, unit: complex) -> tuple[float, float]:
        """A first derivative and its uncertainty from rounding."""
        scale = max(1.0, abs(self.starts[index][place]))
        return self.central(index, place, unit * self.step * scale)

    def fine(self, index: int, place: Any, unit: complex) -> tuple[float, float]:
        """The best derivative that differences give, and its uncertainty."""
        size = float(abs(self.starts[index][place]))
        scales = {max(1.0, size), size or 1.0}
        found = []
        for scale in scales:
            for step in FINER:
                near, noise = self.central(index, place, unit * step * scale)
                far, _ = self.central(index, place, 2 * unit * step * scale)
                value = (4 * near - far) / 3
                found.append((abs(value - near) + 2 * noise, value))
        uncertain, value = min((f for f in found if f[0] == f[0]), default=(np.inf, np.nan))
        return value, uncertain


def _compare(
    index: int, analytic: Array, slopes: _Slopes, mask: Array, rtol: float, atol: float
) -> None:
    """Refuse the gradient of one input if it differs from the differences."""
    wrong = []
    largest = np.abs(analytic[np.isfinite(analytic)]).max(initial=max(1.0, slopes.largest))
    lost = LOST * float(largest)
    for place in np.ndindex(analytic.shape):
        if not (mask[place] and np.isfinite(slopes.starts[index][place])):
            continue  # no difference can be taken at infinity
        found = analytic[place]
        parts = [(1.0, found.real)] + ([(1j, found.imag)] if np.iscomplexobj(found) else [])
        for unit, gradient in parts:
            fault = _fault(slopes, index, place, unit, float(gradient), (rtol, atol, lost))
            if fault is not None:
                wrong.append((fault[0], place, gradient, *fault[1:]))
    if wrong:
        _, place, gradient, numeric, bound = max(wrong, key=lambda fault: fault[0])
        raise GradientError(
            f"gradcheck: the gradient of input {index} is wrong at "
            f"{len({fault[1] for fault in wrong})} of {analytic.size} elements\n"
            f"  worst at {tuple(int(p) for p in place)}: gradient {gradient:.10g}, "
            f"finite difference {numeric:.10g}\n"
            f"  allowed: {bound:.3g}, found: {abs(gradient - numeric):.3g}"
        )


def _fault(
    slopes: _Slopes, index: int, place: Any, unit: complex, gradient: float,
    tolerances: tuple[float, float, float],
) -> tuple[float, float, float] | None:  # fmt: skip
    """(excess, difference, bound) if a gradient is wrong, else None."""
    rtol, atol, lost = tolerances
    numeric, noise = slopes.quick(index, place, unit)
    if abs(gradient - numeric) <= atol + rtol * abs(numeric) and noise <= 10 * rtol * abs(numeric):
        return None
    if gradient == 0.0 == numeric:
        return None
    numeric, uncertain = slopes.fine(index, place, unit)
    bound = atol + (rtol * abs(numeric) + 4 * uncertain if numeric else lost)
    error = abs(gradient - numeric)
    if error <= bound:
        return None
    excess = error / bound if bound and error == error else np.inf
    return excess, numeric, bound
