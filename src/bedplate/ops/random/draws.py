"""Random values of many kinds, each made of the bits of one draw (see philox.py).

Every function takes the state of a generator and a shape; what it gives depends on these and on
its arguments alone. Numbers that place or spread a distribution may be values: they broadcast to
the shape, and have a gradient through the result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.dtypes import DType, as_dtype, float32, float64, int32, int64, uint64
from bedplate.errors import DTypeError, ShapeError
from bedplate.graph.node import Shape
from bedplate.ops.build import Value, as_type, is_number, number
from bedplate.ops.pointwise.arithmetic import add, multiply, negative
from bedplate.ops.pointwise.bits import bitwise_and, bitwise_right_shift
from bedplate.ops.pointwise.comparison import equal, greater_equal, less
from bedplate.ops.pointwise.convert import where
from bedplate.ops.pointwise.exponential import log, log1p
from bedplate.ops.pointwise.extremes import maximum, minimum
from bedplate.ops.random.philox import drawn, unit, words
from bedplate.ops.refusal import refuse
from bedplate.ops.special.normal_quantile import normal_quantile

# below this share of the normal distribution float32 has no small numbers left
LEAST_SHARE = 1e-30


def as_random_dtype(op: str, dtype: Any) -> DType:
    """A float dtype in which numbers can be drawn.

    raises   DTypeError for others
    """
    found = as_dtype(dtype)
    if not found.is_float:
        raise DTypeError(f"{op}: numbers can be drawn as floats only, not as {found}")
    return found


def _drawn_in(dtype: DType) -> DType:
    """The dtype in which numbers are computed before they are narrowed once."""
    return float64 if dtype is float64 else float32


def _given(state: Value, *values: Any) -> tuple[Any, ...]:
    """Parameters as Python numbers or values: NumPy's numbers and arrays too.

    raises   TypeError for what is neither a number nor made of numbers
    """
    return tuple(
        value if is_number(value) or hasattr(value, "_apply") else _lifted(state, value)
        for value in values
    )


def _lifted(state: Value, value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind in "OSUMm":
        kind = type(value).__name__
        raise TypeError(f"random: a parameter is a number or a tensor, not {kind}")
    return array.item() if array.ndim == 0 else state._lift(value)


def _require_finite(op: str, **numbers: Any) -> None:
    for name, value in numbers.items():
        if is_number(value) and not math.isfinite(value):
            raise ValueError(f"{op}: {name} must be finite, got {value}")


def _require_spread(op: str, name: str, value: Any) -> None:
    if is_number(value) and not 0 <= value < math.inf:
        raise ValueError(f"{op}: {name} must be finite and not negative, got {value}")


def _require_probability(op: str, value: Any) -> None:
    if is_number(value) and not 0 <= value <= 1:
        raise ValueError(f"{op}: a probability lies in [0, 1], got {value}")


def _placed(op: str, numbers: Value, place: Any, spread: Any) -> Value:
    """numbers * spread + place, in the shape of the numbers."""
    return _in_shape(op, add(multiply(numbers, spread), place), numbers.shape)


def _in_shape(op: str, result: Value, shape: Shape) -> Value:
    if result.shape != shape:
        refuse(
            ShapeError, op, f"its arguments do not broadcast to the shape {shape}",
            {"result": result}, "give the shape of the result, with all its axes",
        )  # fmt: skip
    return result


def uniform(
    state: Value, shape: Shape, low: Any = 0.0, high: Any = 1.0, dtype: Any = float32
) -> Value:
    """Uniform numbers in [low, high).

    state    (4,) uint32, see philox.py
    dtype    a float; float32 has 24 random bits, float64 53, float16 11, bfloat16 8
    """
    dtype = as_random_dtype("uniform", dtype)
    low, high = _given(state, low, high)
    _require_finite("uniform", low=low, high=high)
    numbers = unit(words(state, shape, 2 if dtype is float64 else 1), dtype)
    if not (is_number(low) and is_number(high)):
        return as_type(_placed("uniform", numbers, low, high - low), dtype)
    if (low, high) == (0.0, 1.0):
        return numbers
    with np.errstate(over="ignore"):
        width = float(np.asarray(high - low, dtype.numpy))
    if low > high or width == math.inf:
        raise ValueError(f"uniform: no numbers of {dtype} in [{low}, {high})")
    result = add(multiply(numbers, high - low), low)
    # the sum may round up to the bound
    return minimum(result, _below(high, dtype)) if low < high else result


def _below(bound: float, dtype: DType) -> float:
    """The largest number of a dtype that is less than `bound`."""
    nearest = np.asarray(bound, dtype.numpy)
    least = np.asarray(-np.inf, dtype.numpy)
    return float(nearest if float(nearest) < bound else np.nextafter(nearest, least))


def normal(
    state: Value, shape: Shape, mean: Any = 0.0, std: Any = 1.0, dtype: Any = float32
) -> Value:
    """Normal numbers: the quantiles of the middles of 2^23 (float64: 2^52) equal intervals.

    state    (4,) uint32, see philox.py
    dtype    a float; float16 and bfloat16 are drawn in float32 and narrowed; the largest
             float32 is 5.3 standard deviations away, the largest float64 8.2
    """
    target = as_random_dtype("normal", dtype)
    mean, std = _given(state, mean, std)
    _require_finite("normal", mean=mean)
    _require_spread("normal", "std", std)
    numbers = normal_quantile(_middle(state, shape, _drawn_in(target)))
    return as_type(_placed("normal", numbers, mean, std), target)


def _middle(state: Value, shape: Shape, dtype: DType) -> Value:
    """The middles of 2^23 or 2^52 equal intervals of (0, 1), each as likely as any."""
    if dtype is float64:
        place = as_type(bitwise_right_shift(drawn(state, shape, pair=True), 12), int64)
        return multiply(add(as_type(place, float64), 0.5), 2.0**-52)
    place = as_type(bitwise_right_shift(drawn(state, shape, pair=False), 9), int32)
    return multiply(add(as_type(place, float32), 0.5), 2.0**-23)


def truncated_normal(
    state: Value, shape: Shape, mean: float = 0.0, std: float = 1.0, low: float = -2.0,
    high: float = 2.0, dtype: Any = float32,
) -> Value:  # fmt: skip
    """Normal numbers under the condition that they lie in [low, high].

    The quantiles of uniform numbers between the shares of the bounds; the upper tail is drawn as
    the lower one and mirrored, where shares are small and therefore exact.

    source   Devroye 1986, "Non-uniform random variate generation", section II.2
    """
    target = as_random_dtype("truncated_normal", dtype)
    _require_finite("truncated_normal", mean=mean)
    _require_spread("truncated_normal", "std", std)
    if not low < high or std == 0:
        raise ValueError(
            f"truncated_normal: no interval, or no spread: [{low}, {high}] with std {std}"
        )
    first, last = (low - mean) / std, (high - mean) / std
    mirrored = first > 0
    if mirrored:
        first, last = -last, -first
    below, above = (math.erfc(-end / math.sqrt(2)) / 2 for end in (first, last))
    if not below < above:
        raise ValueError(f"truncated_normal: [{low}, {high}] is too far from the mean {mean}")
    exact = target is float64 or above < LEAST_SHARE
    share = _middle(state, shape, float64 if exact else float32)
    numbers = normal_quantile(add(multiply(share, above - below), below))
    result = add(multiply(numbers, -std if mirrored else std), mean)
    return as_type(maximum(minimum(result, high), low), target)


def _positive(state: Value, shape: Shape, dtype: DType) -> Value:
    """Uniform numbers in (0, 1) with all bits of a word, so that small ones are exact too."""
    if dtype is float64:
        bits, scale, most = drawn(state, shape, pair=True), 2.0**-64, 1 - 2.0**-53
    else:
        bits, scale, most = drawn(state, shape, pair=False), 2.0**-32, 1 - 2.0**-24
    return minimum(multiply(add(as_type(bits, dtype), 0.5), scale), most)


def _exponential(state: Value, shape: Shape, dtype: DType) -> Value:
    return negative(log1p(negative(_positive(state, shape, dtype))))


def exponential(state: Value, shape: Shape, scale: Any = 1.0, dtype: Any = float32) -> Value:
    """Exponential numbers of a mean: scale * -log(1 - u), always positive and finite."""
    target = as_random_dtype("exponential", dtype)
    (scale,) = _given(state, scale)
    _require_spread("exponential", "scale", scale)
    numbers = _exponential(state, shape, _drawn_in(target))
    return as_type(_in_shape("exponential", multiply(numbers, scale), shape), target)


def laplace(
    state: Value, shape: Shape, mean: Any = 0.0, scale: Any = 1.0, dtype: Any = float32
) -> Value:
    """Laplace numbers: exponential to either side of the mean."""
    target = as_random_dtype("laplace", dtype)
    mean, scale = _given(state, mean, scale)
    _require_finite("laplace", mean=mean)
    _require_spread("laplace", "scale", scale)
    size = _exponential(state, shape, _drawn_in(target))
    side = bitwise_and(drawn(state, shape, pair=False, part=1), 1)
    numbers = where(equal(side, 0), size, negative(size))
    return as_type(_placed("laplace", numbers, mean, scale), target)


def gumbel(
    state: Value, shape: Shape, mean: Any = 0.0, scale: Any = 1.0, dtype: Any = float32
) -> Value:
    """Gumbel numbers: mean - scale * log of an exponential number."""
    target = as_random_dtype("gumbel", dtype)
    mean, scale = _given(state, mean, scale)
    _require_finite("gumbel", mean=mean)
    _require_spread("gumbel", "scale", scale)
    numbers = negative(log(_exponential(state, shape, _drawn_in(target))))
    return as_type(_placed("gumbel", numbers, mean, scale), target)


def bernoulli(state: Value, shape: Shape, probability: Any) -> Value:
    """True with the given probability, which is a number (exact to 2^-32) or a value."""
    (probability,) = _given(state, probability)
    _require_probability("bernoulli", probability)
    if not is_number(probability):
        dtype = float64 if probability.dtype is float64 else float32
        result = less(uniform(state, shape, dtype=dtype), as_type(probability, dtype))
        return _in_shape("bernoulli", result, shape)
    threshold = round(probability * 2**32)
    (word,) = words(state, shape, 1)
    if threshold >= 2**32:
        return greater_equal(word, 0)
    return less(word, threshold)


def randint(state: Value, shape: Shape, low: int, high: int, dtype: Any = int64) -> Value:
    """Uniform integers in [low, high); the bias is below (high - low) / 2^64."""
    target = as_dtype(dtype)
    if high <= low:
        raise ValueError(f"randint: no integer in [{low}, {high})")
    if not target.is_integer:
        raise DTypeError(f"randint: integers are drawn, not {target}")
    info = np.iinfo(target.numpy)
    if low < info.min or high - 1 > info.max:
        raise ValueError(f"randint: [{low}, {high}) does not fit {target}")
    place = _scaled(drawn(state, shape, pair=True), high - low)
    wide = uint64 if target is uint64 else int64
    return as_type(add(as_type(place, wide), number(place, low, wide)), target)


def _scaled(bits: Value, count: int) -> Value:
    """The upper half of bits * count: uniform in [0, count), without a division."""
    if count == 2**64:
        return bits
    high, low = bitwise_right_shift(bits, 32), bitwise_and(bits, 2**32 - 1)
    if count <= 2**32:
        carry = bitwise_right_shift(multiply(low, count), 32)
        return bitwise_right_shift(add(multiply(high, count), carry), 32)
    top, rest = count >> 32, count & (2**32 - 1)
    middle = bitwise_right_shift(multiply(low, rest), 32)
    first, second = multiply(high, rest), multiply(low, top)
    middle = add(middle, add(_low_half(first), _low_half(second)))
    upper = add(bitwise_right_shift(first, 32), bitwise_right_shift(second, 32))
    return add(add(multiply(high, top), upper), bitwise_right_shift(middle, 32))


def _low_half(x: Value) -> Value:
    return bitwise_and(x, 2**32 - 1)


def dropout(state: Value, x: Value, probability: float = 0.5) -> Value:
    """Set elements to 0 with a probability and scale the others, so that the mean stays.

    y = x / (1 - probability) or 0

    source   Srivastava et al. 2014, JMLR 15
    """
    (probability,) = _given(state, probability)
    _require_probability("dropout", probability)
    if probability == 0:
        return x._alias()
    kept = bernoulli(state, x.shape, 1 - probability)
    scale = 1 / (1 - probability) if probability < 1 else 0.0
    return where(kept, multiply(x, scale), number(x, 0))
