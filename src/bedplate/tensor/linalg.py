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
from bedplate.ops.public import public

det = public(det, __name__)
slogdet = public(slogdet, __name__)
diagonal = public(diagonal, __name__)
trace = public(trace, __name__)
eig = public(eig, __name__)
eigh = public(eigh, __name__)
eigvals = public(eigvals, __name__)
eigvalsh = public(eigvalsh, __name__)
cholesky = public(cholesky, __name__)
qr = public(qr, __name__)
cond = public(cond, __name__)
matrix_norm = public(matrix_norm, __name__)
norm = public(norm, __name__)
vector_norm = public(vector_norm, __name__)
matrix_exp = public(matrix_exp, __name__)
matrix_power = public(matrix_power, __name__)
cross = public(cross, __name__)
multi_dot = public(multi_dot, __name__)
outer = public(outer, __name__)
tensordot = public(tensordot, __name__)
vecdot = public(vecdot, __name__)
inv = public(inv, __name__)
lstsq = public(lstsq, __name__)
pinv = public(pinv, __name__)
solve = public(solve, __name__)
solve_triangular = public(solve_triangular, __name__)
matrix_rank = public(matrix_rank, __name__)
svd = public(svd, __name__)
svdvals = public(svdvals, __name__)
matmul = public(matmul, __name__)
matrix_transpose = public(matrix_transpose, __name__)

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
