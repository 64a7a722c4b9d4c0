"""The samples of the op records as test cases: which there are, what is right, how close is close.

Nothing here names an op: all comes from the records. The tests of this project and the kit that
checks a back end run over the same cases.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bedplate.dtypes import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    DType,
    as_dtype,
    complex128,
    float32,
    float64,
    int32,
    int64,
    real_dtype,
)
from bedplate.ops.record import REGISTRY, Op, Sample, apply
from bedplate.ops.shape.views import outputs

EPSILON = {"float64": 2.2e-16, "float32": 1.2e-7, "float16": 9.8e-4, "bfloat16": 7.8e-3}
# the dtype of the oracle
WIDE = {"f": np.float64, "c": np.complex128}
# roundings of the result's dtype that an op may add up, beside those of its reductions
ROUNDINGS = 16


@dataclass(frozen=True)
class Case:
    """One op on one of its samples, in one dtype."""

    op: Op
    number: int
    sample: Sample
    dtype: DType | None = None

    def __str__(self) -> str:
        suffix = f"-{self.dtype}" if self.dtype else ""
        return f"{self.op.name}-{self.number}{suffix}"

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """The inputs: those of the swept kind in the case's dtype."""
        generator = np.random.default_rng(zlib.crc32(str(self.number).encode()))
        arrays = [np.asarray(array) for array in self.sample.inputs(generator)]
        return [self._cast(array) for array in arrays]

    def _cast(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if self.dtype is not None and self.dtype.kind == "c":
            if array.dtype.kind not in "fc":
                return array
            # the parts are the same numbers, the imaginary ones in reverse
            other = np.flip(array) * 1j if array.dtype.kind == "f" else 0
            return (array + other).astype(self.dtype.numpy)
        if self.dtype is None or (array.dtype.kind == "f") != self.dtype.is_float:
            return array
        if array.dtype.kind == "b":
            return array
        if self.dtype.kind == "u":
            array = np.abs(array)
        return array.astype(self.dtype.numpy)

    def run(self, *inputs: Any) -> Any:
        """The op on tensors, without promotion; of several outputs the first."""
        result = apply(self.op, inputs, self.sample.attributes)
        return result if self.op.n_outputs == 1 else outputs(result)[0]

    def oracle(self, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The reference in float64, on the values that the inputs have in their dtype."""
        wide = [a.astype(WIDE.get(as_dtype(a.dtype).kind, a.dtype)) for a in arrays]
        reference: Any = self.op.reference
        result = reference(*wide, **self.sample.attributes)
        return np.asarray(result if self.op.n_outputs == 1 else result[0])

    def tolerance(self, dtype: DType, arrays: list[np.ndarray[Any, Any]]) -> float:
        """Relative to the largest value: roundings of the dtype and of the longest reduction."""
        if dtype.kind not in WIDE:
            return 0.0
        length = max((array.size for array in arrays), default=1)
        return EPSILON[real_dtype(dtype).name] * (ROUNDINGS + length**0.5)


def _swept(op: Op, number: int, sample: Sample) -> list[DType | None]:
    arrays = [np.asarray(a) for a in sample.inputs(np.random.default_rng(0))]
    kinds = {array.dtype.kind for array in arrays}
    if "c" in kinds:
        return [*COMPLEX]
    if "f" in kinds:
        narrow = op.kind == "host" or set(op.dtypes) < set(FLOATS)
        swept = [dtype for dtype in FLOATS if not narrow or dtype in op.dtypes]
        more = list(COMPLEX) if number == 0 and takes_complex(op, sample) else []
        return [*(swept if number < 2 else [float32, float64]), *more]
    if kinds == {"i"} and op.kind in ("elementwise", "reduce"):
        swept = [dtype for dtype in op.dtypes if dtype in INTEGERS]
        return [*swept] if number < 2 or op.kind == "elementwise" else [int32, int64]
    return [None]


def takes_complex(op: Op, sample: Sample) -> bool:
    """Whether an op takes a sample's floats, if they are finite, as parts of complex numbers."""
    known = op.by_parts or complex128 in op.dtypes
    arrays = [np.asarray(a) for a in sample.inputs(np.random.default_rng(0))]
    parts = [array for array in arrays if array.dtype.kind == "f"]
    if not parts or not all(np.isfinite(array).all() for array in parts):
        return False
    return known and sample.attributes.get("dtype", complex128) in COMPLEX


def cases(dtypes: bool = True) -> Iterator[Case]:
    """Every op with each of its samples, and each dtype that these stand for."""
    for name in sorted(REGISTRY):
        op = REGISTRY[name]
        for number, sample in enumerate(op.samples):
            more = [complex128] if number == 0 and takes_complex(op, sample) else []
            swept = _swept(op, number, sample) if dtypes else [None, *more]
            for dtype in swept if op.kind != "leaf" else []:
                yield Case(op, number, sample, dtype)


def is_differentiable(case: Case) -> bool:
    """Whether a gradient function is there and floats to differentiate, in float64."""
    if not (case.sample.smooth and callable(case.op.gradient)):
        return False
    target = case.sample.attributes.get("dtype", float64)  # a cast to less is not smooth
    exact = target in (float64, complex128)
    return exact and any(varies(array) for array in case.arrays())


def varies(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array can be moved by the step of a difference."""
    return array.dtype in (np.float64, np.complex128)


def weights_for(case: Case, arrays: list[Any], seed: int = 1) -> np.ndarray[Any, Any]:
    """Random numbers of the shape and kind of the result."""
    generator = np.random.default_rng(seed)
    result = case.oracle(*arrays)
    weights = generator.normal(size=result.shape)
    return (
        weights + 1j * generator.normal(size=result.shape) if result.dtype.kind == "c" else weights
    )
