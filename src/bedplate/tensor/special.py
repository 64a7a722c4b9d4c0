"""Special functions: the functions of `bedplate.special`.

Written by tools/namespace.py."""

from bedplate.ops.activations import erf, expit
from bedplate.ops.bessel import i0, i0e, i1, i1e, sinc
from bedplate.ops.error_functions import erfc, erfcx, erfinv, log_ndtr, ndtr, ndtri
from bedplate.ops.exponential import exp2, expm1, log1p
from bedplate.ops.gamma_functions import digamma, gammaln, multigammaln, polygamma, psi, zeta
from bedplate.ops.logarithmic import entr, logit, xlog1py, xlogy
from bedplate.ops.softmax import log_softmax, logsumexp, softmax

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
