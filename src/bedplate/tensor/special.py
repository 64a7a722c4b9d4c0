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
from bedplate.ops.public import public

expit = public(expit, __name__)
log_softmax = public(log_softmax, __name__)
logsumexp = public(logsumexp, __name__)
softmax = public(softmax, __name__)
ndtri = public(ndtri, __name__)
multigammaln = public(multigammaln, __name__)
polygamma = public(polygamma, __name__)
psi = public(psi, __name__)
zeta = public(zeta, __name__)
entr = public(entr, __name__)
logit = public(logit, __name__)
xlog1py = public(xlog1py, __name__)
xlogy = public(xlogy, __name__)

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
