"""A reciprocal that stays finite: safe_inv."""

from __future__ import annotations

from bedplate.ops.build import Value
from bedplate.ops.elementwise import rounded_once
from bedplate.ops.pointwise.arithmetic import abs_, reciprocal
from bedplate.ops.pointwise.comparison import greater
from bedplate.ops.pointwise.convert import where


@rounded_once
def safe_inv(x: Value, epsilon: float = 1e-6) -> Value:
    """A reciprocal that stays finite: y = x / (x^2 + epsilon), and 0 at 0 and infinity.

    Where |x| > 1 it is computed as 1 / (x + epsilon / x), so that no square overflows.

    x         floats; integers become float32
    epsilon   positive; bounds |y| by 1 / (2 sqrt(epsilon))
    returns   shape of x
    gradient  (epsilon - x^2) / (x^2 + epsilon)^2, at most 1 / epsilon, which it is at 0
    raises    ValueError for an epsilon that is not positive
    >>> import bedplate as bp
    >>> bp.safe_inv(bp.tensor([0.0, 2.0]), epsilon=0.0625).tolist()
    [0.0, 0.4923076927661896]
    """
    if not epsilon > 0:
        raise ValueError(f"safe_inv: epsilon must be positive, got {epsilon}")
    large = greater(abs_(x), 1)
    far, near = where(large, x, 1.0), where(large, 0.0, x)
    return where(large, reciprocal(far + epsilon / far), near / (near * near + epsilon))
