"""Special functions: the functions of `bedplate.special`.

Written by tools/namespace.py."""

from bedplate.ops.pointwise.activations import erf, expit
from bedplate.ops.pointwise.exponential import exp2, expm1, log1p
from bedplate.ops.reduction.softmax import log_softmax, logsumexp, softmax
from bedplate.ops.special.bessel import i0, i0e, i1, i1e, sinc
from bedplate.ops.special.error_functions import erfc, erfcx, erfinv, log_ndtr, ndtr, ndtri
from bedplate.ops.special.gamma_functions import (
    digamma,
    gammaln,
    multigammaln,
    polygamma,
    psi,
    zeta,
)
from bedplate.ops.special.logarithmic import entr, logit, xlog1py, xlogy

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
    "zeta",
]
