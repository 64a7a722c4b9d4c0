"""What floats are made of, element by element: their sign, their neighbours, safe lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from bedplate import kernel as language
from bedplate.dtypes import FLOATS, bool_
from bedplate.graph.node import Attributes
from bedplate.ops.build import Value, apply_promoted, number, sum_to
from bedplate.ops.elementwise import binary, in_float32, rule, unary
from bedplate.ops.pointwise.arithmetic import divide, multiply, sign
from bedplate.ops.pointwise.comparison import TRUTH, equal, isinf
from bedplate.ops.pointwise.convert import where
from bedplate.ops.record import NoGradient, Op, register
from bedplate.ops.samples import floats, mixed, rough, two

WORDS = {16: language.i16, 32: language.i32, 64: language.i64}
SIGNED = rough(
    lambda r: [np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf]), np.array([[1.0], [-0.0]])],
    "signs",
)
ORIGIN = rough(lambda r: [np.array([3.0, 0.0, -5.0]), np.array([-4.0, 0.0, 0.0])], "origin")


def copysign_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, None]:
    """1 where the sign stays and -1 where it turns; 0 at 0, as for |a|; none for the sign"""
    a, b = inputs
    turned = multiply(sign(a), where(signbit(b), number(grad_out, -1.0), number(grad_out, 1.0)))
    return sum_to(multiply(grad_out, turned), a.shape), None


@binary(
    reference=np.copysign,
    emit=lambda t, a, b: language.copysign(a, b),
    gradient=copysign_gradient,
    samples=(*two(0.3, 2.0), SIGNED),
    dtypes=FLOATS,
    promote="float",
)
def copysign(a: Value, b: Value) -> Value:
    """The size of one number with the sign of another: y = |a| if b >= +0 else -|a|.

    a, b     shapes broadcast; zeros and NaN have a sign too; integers become float32
    returns  their common shape, floating point; gradient 0 where a is 0, and none for b
    >>> import bedplate as bp
    >>> bp.copysign(bp.tensor([1.0, 2.0]), bp.tensor([-0.0, 3.0])).tolist()
    [-1.0, 2.0]
    """


@unary(
    reference=np.signbit,
    emit=lambda t, x: language.copysign(language.cast(1.0, language.element(x.type)), x) < 0,
    gradient=TRUTH,
    samples=(mixed(lambda r: [np.array([0.0, -0.0, 2.0, -2.0, np.inf, -np.inf])], "signs"),),
    result=bool_,
)
def signbit(x: Value) -> Value:
    """Whether the sign bit is set: true for negative numbers, -0.0, and NaN with that sign.

    x        floats; integers become float32
    returns  bool
    >>> import bedplate as bp
    >>> bp.signbit(bp.tensor([0.0, -0.0, -2.0])).tolist()
    [False, True, True]
    """


def _emit_hypot(t: Any, a: Any, b: Any) -> Any:
    """float32 in float64, where squares cannot overflow; float64 divided by the longer side."""
    if t.bits == 32:
        a, b = language.cast(a, language.f64), language.cast(b, language.f64)
        return language.cast(_finite_or_long(a, b, language.sqrt(a * a + b * b)), t)
    longer = language.maximum(abs(a), abs(b))
    ratio = language.minimum(abs(a), abs(b)) / language.select(longer == 0, longer + 1, longer)
    return _finite_or_long(a, b, longer * language.sqrt(ratio * ratio + 1))


def _finite_or_long(a: Any, b: Any, length: Any) -> Any:
    """`length`, but infinity where one side is infinite, whatever the other is."""
    infinity = float("inf")
    return language.select((abs(a) == infinity) | (abs(b) == infinity), infinity, length)


@in_float32
def hypot_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any, Any]:
    """d hypot(a, b) = (a da + b db) / y, and 0 at the origin; far out, the axis or the diagonal"""
    far = isinf(output)
    a, b = (where(far, _axis(side), side) for side in inputs)
    length = where(far, hypot(a, b), output)
    length = where(equal(length, 0), number(output, 1), length)
    return tuple(
        sum_to(multiply(grad_out, divide(side, length)), given.shape)
        for side, given in zip((a, b), inputs, strict=True)
    )


def _axis(side: Value) -> Value:
    """1 with the sign of an infinity, 0 for what is finite beside it."""
    return where(isinf(side), sign(side), number(side, 0))


@binary(
    reference=np.hypot,
    emit=_emit_hypot,
    gradient=hypot_gradient,
    samples=(*two(0.3, 2.0), ORIGIN),
    dtypes=FLOATS,
    promote="float",
)
def hypot(a: Value, b: Value) -> Value:
    """The length of the hypotenuse: y = sqrt(a^2 + b^2), without overflow on the way.

    a, b     shapes broadcast; integers become float32; infinite if one side is, even beside NaN
    returns  their common shape, floating point; at most 2 ulp off; gradient 0 at the origin
             and finite beside infinities
    >>> import bedplate as bp
    >>> bp.hypot(bp.tensor([3.0, 3e38]), 4.0).tolist() == bp.tensor([5.0, 3e38]).tolist()
    True
    """


def _emit_nextafter(dtype: Any, values: Any, attributes: Attributes) -> Any:
    """One step in the words of the floats: they are ordered as the magnitudes are."""
    a, b = values
    bits = language.bitcast(a, WORDS[language.element(a.type).bits])
    grows = (a < b) == (a > 0)
    stepped = language.bitcast(language.select(grows, bits + 1, bits - 1), a.type)
    least = language.copysign(language.bitcast(bits * 0 + 1, a.type), b)
    moved = language.select(a == 0, least, stepped)
    moved = language.select(a == b, b, moved)
    return language.select((a != a) | (b != b), a + b, moved)


NEXTAFTER = register(
    Op(
        "nextafter",
        "elementwise",
        rule("nextafter", FLOATS, None),
        reference=lambda a, b: np.nextafter(a, b),
        gradient=NoGradient("it steps from one float to the next"),
        emit=_emit_nextafter,
        promote="float",
        dtypes=FLOATS,
        samples=(floats((3, 5), (3, 5)), floats((4, 1), (1, 19)), ORIGIN),
        doc="The next float of a towards b.",
    )
)


def nextafter(a: Value, b: Value) -> Value:
    """The next representable number of a on the way to b; b itself where they are equal.

    a, b     shapes broadcast; floats of any width, the step is that of their common dtype
    returns  their common shape and dtype
    >>> import bedplate as bp
    >>> bp.nextafter(bp.tensor([1.0]), 2.0).tolist()
    [1.0000001192092896]
    """
    return apply_promoted(NEXTAFTER, (a, b))
