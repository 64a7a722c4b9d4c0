"""Scaled dot-product attention: causal, sliding-window and grouped-query, in one kernel.

The record and the function. The kernels: forward.py (tiles of queries and keys),
decode.py (few queries), reverse.py (the gradient); lower.py
chooses between them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bedplate.dtypes import FLOATS, DType, float32, float64, int64
from bedplate.errors import DTypeError, GradientError, ShapeError
from bedplate.graph.node import Attributes, Shape
from bedplate.later import deferred
from bedplate.ops.attention.backward import ATTENTION_BACKWARD, pair_flops, weights
from bedplate.ops.build import Value, promoted
from bedplate.ops.record import Cost, Op, apply, register
from bedplate.ops.refusal import refuse
from bedplate.ops.samples import floats
from bedplate.ops.shape.views import outputs


def _infer(
    inputs: tuple[Any, ...], attributes: Attributes
) -> tuple[tuple[Shape, Shape], tuple[DType, DType]]:
    q, k, v = inputs[:3]
    named = {"q": q, "k": k, "v": v}
    if any(len(x.shape) != 4 for x in (q, k, v)) or k.shape != v.shape or not _fits(q, k):
        refuse(
            ShapeError, "attention", "the shapes do not fit", named,
            "expected q (B, H, T, D), k and v (B, K, S, D), H a multiple of K, D at least 1",
        )  # fmt: skip
    if q.dtype not in FLOATS or not q.dtype is k.dtype is v.dtype:
        refuse(DTypeError, "attention", "the dtypes must be one float dtype", named,
               "try k.to(q.dtype)")  # fmt: skip
    if any(x.shape != () or x.dtype is not int64 for x in inputs[3:]):
        refuse(ShapeError, "attention", "length must be one int64 number",
               {"length": inputs[3]}, "expected shape () and dtype int64")  # fmt: skip
    lse = float64 if q.dtype is float64 else float32
    return (q.shape, q.shape[:3]), (q.dtype, lse)


def _fits(q: Any, k: Any) -> bool:
    same = q.shape[0] == k.shape[0] and q.shape[3] == k.shape[3] >= 1
    return same and (q.shape[1] % k.shape[1] == 0 if k.shape[1] else q.shape[1] == 0)


def _reference(q: Any, k: Any, v: Any, length: Any = None, **attributes: Any) -> tuple[Any, Any]:
    """Over all T x S pairs in float64; a query that sees no key gives zeros and -infinity."""
    p, lse, _ = weights(q, k, length, **attributes)
    v = np.repeat(v.astype(np.float64), q.shape[1] // max(v.shape[1], 1), axis=1)
    wide = np.float64 if q.dtype == np.float64 else np.float32
    return (p @ v).astype(q.dtype), lse.astype(wide)


def attention_gradient(
    grad_out: Any, inputs: Any, output: Value, **attributes: Any
) -> tuple[Any, ...]:
    """The weights are computed again from lse; see reverse.py."""
    grad, grad_lse = grad_out
    if grad_lse is not None:
        raise GradientError("attention: the log of the sum of the weights has no gradient")
    out, lse = outputs(output)
    q, k, v, *length = inputs
    result = apply(ATTENTION_BACKWARD, (q, k, v, out, lse, grad, *length), attributes)
    return (*outputs(result), *(None for _ in length))


def _attributes(causal: bool, window: int | None, scale: float) -> Attributes:
    return {"causal": causal, "window": window, "scale": scale}


ATTENTION = register(
    Op(
        "attention",
        "kernel",
        _infer,
        reference=_reference,
        gradient=attention_gradient,
        cost=Cost("4 D flops a pair that sees each other; inputs and output once", pair_flops(4)),
        lower=deferred("bedplate.ops.attention.lower", "lower_forward"),
        n_outputs=2,
        any_order=(0,),
        dtypes=FLOATS,
        samples=tuple(
            floats(q, k, k, **_attributes(causal, window, 0.3))
            for q, k, causal, window in (
                ((1, 2, 5, 4), (1, 2, 5, 4), True, None),
                ((2, 4, 37, 5), (2, 2, 37, 5), True, None),
                ((1, 2, 33, 20), (1, 1, 70, 20), False, None),
                ((1, 2, 40, 16), (1, 2, 40, 16), True, 7),
                ((1, 4, 1, 24), (1, 2, 130, 24), True, 100),
                ((1, 1, 4, 3), (1, 1, 2, 3), True, None),
                ((1, 2, 3, 4), (1, 2, 0, 4), True, None),
                ((0, 2, 3, 4), (0, 2, 3, 4), True, None),
            )
        ),
        doc="Softmax of scaled products of queries and keys, times values.",
    )
)


def attention(
    q: Value,
    k: Value,
    v: Value,
    causal: bool = True,
    window: int | None = None,
    scale: float | None = None,
    length: Value | None = None,
) -> Value:
    """Weigh values by the softmax of the scaled products of queries and keys.

    out[i] = sum over j of softmax_j(scale * q[i] . k[j]) * v[j], over the keys j that i sees.
    The last query stands at the last key: query i sees keys up to i + S - T.

    q        (B, H, T, D)  float32, float64, bfloat16 or float16
    k, v     (B, K, S, D)  dtype of q; H a multiple of K: H / K query heads share a key head
    causal   False: every query sees every key
    window   a query sees at most this many keys, up to its own; implies causal
    scale    1 / sqrt(D) if None
    length   () int64, read when the kernel runs: only the first so many keys are there, as in a
             cache that is not full; the last query stands at the last of them
    returns  (B, H, T, D)  dtype of q; sums run in float32, of float64 in float64. The T x S
             weights are never stored. A query that sees no key gives zeros.
    raises   ShapeError, DTypeError if q, k, v do not fit; ShapeError for a window below 1
    cost     4 D flops a pair that sees each other, 10 D for the gradient
    source   Vaswani et al. 2017, arXiv:1706.03762; Dao et al. 2022, arXiv:2205.14135; Ainslie et
             al. 2023, arXiv:2305.13245
    >>> import bedplate as bp
    >>> x = bp.tensor([[[[1.0], [3.0]]]])
    >>> bp.attention(x * 0, x * 0, x).tolist()
    [[[[1.0], [2.0]]]]
    """
    q, k, v = promoted("attention", (q, k, v), to_float=True)
    if window is not None and window < 1:
        refuse(ShapeError, "attention", f"a window of {window}", {"q": q, "k": k, "v": v},
               "a window is at least 1: the query's own key; None for no window")  # fmt: skip
    if scale is None:
        scale = 1.0 / math.sqrt(max(q.shape[-1], 1)) if q.shape else 1.0
    attributes = _attributes(bool(causal) or window is not None, window, float(scale))
    inputs = (q, k, v) if length is None else (q, k, v, length)
    return outputs(apply(ATTENTION, inputs, attributes))[0]
