"""The frequencies of Fourier transforms: tensors made from nothing but a number."""

from __future__ import annotations

import operator
from typing import Any

from bedplate.dtypes import DType, as_dtype, float32
from bedplate.errors import DTypeError
from bedplate.tensor.creation import arange
from bedplate.tensor.tensor import Tensor


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of `fft`: 0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1, over n d.

    n        how many numbers are transformed
    d        the distance between samples
    dtype    a real floating point dtype; float32 by default
    raises   ValueError for n below 1, DTypeError
    >>> import bedplate as bp
    >>> bp.fft.fftfreq(4, d=0.25).tolist()
    [0.0, 1.0, -2.0, -1.0]
    """
    n, wanted = _checked("fftfreq", n, dtype)
    index = arange(n, device=device)
    signed = (index + n // 2) % n - n // 2
    return signed.astype(wanted) / (n * float(d))


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of `rfft`: 0, 1, ..., n // 2, over n d.

    n, d, dtype  as for `fftfreq`
    raises       ValueError for n below 1, DTypeError
    >>> import bedplate as bp
    >>> bp.fft.rfftfreq(4, d=0.25).tolist()
    [0.0, 1.0, 2.0]
    """
    n, wanted = _checked("rfftfreq", n, dtype)
    return arange(n // 2 + 1, device=device).astype(wanted) / (n * float(d))


def _checked(name: str, n: int, dtype: Any) -> tuple[int, DType]:
    n = operator.index(n)
    if n < 1:
        raise ValueError(f"{name}: a transform of {n} numbers\n  n must be at least 1")
    wanted = float32 if dtype is None else as_dtype(dtype)
    if not wanted.is_float:
        raise DTypeError(f"{name}: frequencies are real floats, not {wanted}")
    return n, wanted
