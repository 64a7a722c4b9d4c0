"""Linear algebra: the functions of `bedplate.linalg`.

Written by tools/namespace.py."""

from bedplate.ops.linalg.determinants import det, slogdet
from bedplate.ops.linalg.diagonals import diagonal, trace
from bedplate.ops.linalg.eigen import eig, eigh, eigvals, eigvalsh
from bedplate.ops.linalg.factors import cholesky, qr
from bedplate.ops.linalg.norms import cond, matrix_norm, norm, vector_norm
from bedplate.ops.linalg.powers import matrix_exp, matrix_power
from bedplate.ops.linalg.products import cross, multi_dot, outer, tensordot, vecdot
from bedplate.ops.linalg.solving import inv, lstsq, pinv, solve, solve_triangular
from bedplate.ops.linalg.svd import matrix_rank, svd, svdvals
from bedplate.ops.matmul.matmul import matmul
from bedplate.ops.shape.views import matrix_transpose

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
