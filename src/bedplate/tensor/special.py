"""Special functions: the functions of `bedplate.special`.

Written by tools/namespace.py."""

from bedplate.ops.logarithmic import entr, logit, xlog1py, xlogy

__all__ = [
    "entr",
    "logit",
    "xlog1py",
    "xlogy",
]
