"""The quantile of the normal distribution: what turns uniform numbers into normal ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate import kernel as language
from bedplate.kernel import maths
from bedplate.later import Later
from bedplate.ops.build import Value
from bedplate.ops.elementwise import in_float32, unary
from bedplate.ops.pointwise.arithmetic import multiply
from bedplate.ops.pointwise.exponential import exp
from bedplate.ops.samples import floats, rough
from bedplate.ops.special.formula import polynomial, ratio

# algorithm AS 241: Wichura 1988, Applied Statistics 37; numerators and denominators from the
# constant upwards. PPND7, relative error 1e-7: in float32 as close as the longer ones
SHORT = (
    (
        (3.3871327179e0, 5.0434271938e1, 1.5929113202e2, 5.9109374720e1),
        (1.0, 1.7895169469e1, 7.8757757664e1, 6.7187563600e1),
    ),
    (
        (1.4234372777e0, 2.7568153900e0, 1.3067284816e0, 1.7023821103e-1),
        (1.0, 7.3700164250e-1, 1.2021132975e-1),
    ),
    (
        (6.6579051150e0, 3.0812263860e0, 4.2868294337e-1, 1.7337203997e-2),
        (1.0, 2.4197894225e-1, 1.2258202635e-2),
    ),
)
# PPND16, relative error 1e-16
CENTRE = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
     1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
     3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
     5.2264952788528545610e3),
)  # fmt: skip
NEAR = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
     3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
     2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9),
)  # fmt: skip
FAR = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
     2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15),
)  # fmt: skip
CENTRE_WIDTH, CENTRE_SQUARE = 0.425, 0.180625
# For most of float32 no root and no quotient: with w = -log2(4 p (1 - p)) the quantile is
# (p - 1/2) BODY(w), to 6e-9 of itself up to where w stands for 5 natural units: p from 0.0017 on.
# f LOG2(f) is log2(1 + f) for 2/3 <= 1 + f < 4/3, to 5e-8. Both are polynomials of the smallest
# largest error, found by reweighted least squares (Lawson's); evaluated so, 2.2 ulp off at most.
BODY = (
    2.5066282749, 0.45486685634, 0.015693770722, -0.0021987578366, -8.3232705947e-05,
    2.0168256014e-05, 1.2494851944e-06, -4.2974357939e-07, 3.3311788883e-08, -9.1835167249e-10,
)  # fmt: skip
LOG2 = (
    1.44269406796, -0.72134393454, 0.48101931810, -0.36092716455, 0.28459408879, -0.23468580842,
    0.25199806690, -0.23195827007,
)  # fmt: skip
BODY_LEAST = math.exp(-5.0)  # of 4 p (1 - p)
TWO_THIRDS_BITS, MANTISSA_BITS = 0x3F2AAAAB, 23
NEAR_SHIFT, FAR_SHIFT = 1.6, 5.0

statistics: Any = Later("statistics")


def _reference(p: Any) -> Any:
    inside = (p > 0) & (p < 1)
    ends = np.where(p == 0, -np.inf, np.where(p == 1, np.inf, np.nan))
    exact = statistics.NormalDist().inv_cdf
    result = np.array([exact(float(v)) for v in np.where(inside, p, 0.5).reshape(-1)])
    return np.where(inside, result.reshape(p.shape), ends)


def _emit(t: Any, p: Any) -> Any:
    if language.element(t) is language.f64:
        return _everywhere(p, CENTRE, NEAR, FAR)
    product = p * 4.0 * (1.0 - p)
    inside = product > BODY_LEAST  # not where p is NaN, or no probability
    result = language.var(_body(p, language.select(inside, product, 1.0)))
    with language.when(language.any_of(~inside) if p.type.lanes else ~inside):
        result.set(language.select(inside, result.get(), _everywhere(p, *SHORT)))
    return result.get()


def _body(p: Any, product: Any) -> Any:
    """The quantile of float32 where product = 4 p (1 - p) is not small."""
    raw = language.bitcast(product, language.i32)
    exponent = (raw - TWO_THIRDS_BITS) >> MANTISSA_BITS
    f = language.bitcast(raw - (exponent << MANTISSA_BITS), language.f32) - 1.0
    log2 = language.fma(f, polynomial(LOG2, f, language.fma), language.cast(exponent, p.type))
    return (p - 0.5) * polynomial(BODY, -log2, language.fma)


def _everywhere(p: Any, centre_of: Any, near_of: Any, far_of: Any) -> Any:
    q = p - 0.5
    centre = q * ratio(centre_of, CENTRE_SQUARE - q * q, language.fma)
    r = language.sqrt(-maths.log(language.select(q < 0, p, 1 - p)))
    near = ratio(near_of, r - NEAR_SHIFT, language.fma)
    far = ratio(far_of, r - FAR_SHIFT, language.fma)
    tail = language.select(r <= FAR_SHIFT, near, far)
    tail = language.select(r == math.inf, math.inf, tail)
    return language.select(abs(q) <= CENTRE_WIDTH, centre, language.select(q < 0, -tail, tail))


@in_float32
def normal_quantile_gradient(grad_out: Value, inputs: Any, output: Value) -> tuple[Any]:
    """dz = sqrt(2 pi) exp(z^2 / 2) dp"""
    slope = multiply(exp(multiply(multiply(output, output), 0.5)), math.sqrt(2 * math.pi))
    return (multiply(grad_out, slope),)


@unary(
    reference=_reference,
    emit=_emit,
    gradient=normal_quantile_gradient,
    samples=(
        floats((3, 7), low=0.02, high=0.98),
        rough(lambda r: [r.uniform(1e-4, 1e-2, 37)], "steep"),
        rough(lambda r: [10.0 ** r.uniform(-37, -4, 19)], "tail"),
        rough(lambda r: [np.array([0.0, 1.0, 0.5, np.nan, -0.1, 1.1] * 3)], "ends"),
        floats((0, 3), low=0.1, high=0.9),
    ),
)
def normal_quantile(p: Value) -> Value:
    """The value below which a standard normal number lies with probability p: y with
    p = (1 + erf(y / sqrt 2)) / 2.

    p        floats in [0, 1]; 0 gives -inf, 1 gives inf, others NaN
    source   Wichura 1988, Applied Statistics 37, algorithm AS 241
    >>> import bedplate as bp
    >>> bp.normal_quantile(bp.tensor([0.5, 0.0])).tolist()
    [0.0, -inf]
    """
