"""What the sweeps over the op records share: the cases, the devices, and how close is close.

Nothing here names an op: all comes from the records.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.devices.device import BACKENDS
from bedplate.dtypes import FLOATS, INTEGERS, DType, as_dtype
from bedplate.ops.record import REGISTRY, Op, Sample, apply
from bedplate.ops.views import outputs

EPSILON = {"float64": 2.2e-16, "float32": 1.2e-7, "float16": 9.8e-4, "bfloat16": 7.8e-3}
# roundings of the result's dtype that an op may add up, beside those of its reductions
ROUNDINGS = 16
# both sides of a central difference in float64; its own error is about STEP squared
STEP = 1e-5


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
        wide = [a.astype(np.float64) if as_dtype(a.dtype).is_float else a for a in arrays]
        result = self.op.reference(*wide, **self.sample.attributes)
        return np.asarray(result if self.op.n_outputs == 1 else result[0])

    def tolerance(self, dtype: DType, arrays: list[np.ndarray[Any, Any]]) -> float:
        """Relative to the largest value: roundings of the dtype and of the longest reduction."""
        if not dtype.is_float:
            return 0.0
        length = max((array.size for array in arrays), default=1)
        return EPSILON[dtype.name] * (ROUNDINGS + length**0.5)


def _swept(op: Op, number: int, sample: Sample) -> list[DType | None]:
    arrays = [np.asarray(a) for a in sample.inputs(np.random.default_rng(0))]
    kinds = {array.dtype.kind for array in arrays}
    if "f" in kinds:
        swept = [dtype for dtype in FLOATS if op.kind != "host" or dtype in op.dtypes]
        return [*swept] if number < 2 else [bp.float32, bp.float64]
    if kinds == {"i"} and op.kind in ("elementwise", "reduce"):
        swept = [dtype for dtype in op.dtypes if dtype in INTEGERS]
        return [*swept] if number < 2 or op.kind == "elementwise" else [bp.int32, bp.int64]
    return [None]


def cases(dtypes: bool = True) -> Iterator[Case]:
    """Every op with each of its samples, and each dtype that these stand for."""
    for name in sorted(REGISTRY):
        op = REGISTRY[name]
        for number, sample in enumerate(op.samples):
            swept = _swept(op, number, sample) if dtypes else [None]
            for dtype in swept if op.kind != "leaf" else []:
                yield Case(op, number, sample, dtype)


def is_differentiable(case: Case) -> bool:
    """Whether a gradient function is there and floats to differentiate, in float64."""
    if not (case.sample.smooth and callable(case.op.gradient)):
        return False
    target = case.sample.attributes.get("dtype", bp.float64)  # a cast to less is not smooth
    return target is bp.float64 and any(array.dtype == np.float64 for array in case.arrays())


def has_slope(case: Case) -> bool:
    """Whether the reference grows or falls anywhere at the sample."""
    arrays = case.arrays()
    slopes = numeric_gradients(case, arrays, np.ones(case.oracle(*arrays).shape))
    return any(slope is not None and np.any(slope) for slope in slopes)


_slopes: dict[tuple[str, int, bytes], list[Any]] = {}


def numeric_gradients(case: Case, arrays: list[Any], weights: Any) -> list[Any]:
    """The gradient of sum(weights * op(inputs)) by central differences; None for integers.

    The same for every device, hence computed once.
    """
    key = case.op.name, case.number, np.asarray(weights).tobytes()
    if key not in _slopes:
        _slopes[key] = _differences(case, arrays, weights)
    return _slopes[key]


def _differences(case: Case, arrays: list[Any], weights: Any) -> list[Any]:

    def total(changed: list[Any]) -> float:
        return float(np.sum(case.oracle(*changed) * weights))

    result: list[Any] = []
    for i, array in enumerate(arrays):
        if array.dtype != np.float64:
            result.append(None)
            continue
        slopes = np.zeros(array.shape)
        for place in np.ndindex(*array.shape):
            values = []
            for step in (STEP, -STEP):
                moved = array.copy()
                moved[place] += step
                values.append(total([*arrays[:i], moved, *arrays[i + 1 :]]))
            slopes[place] = (values[0] - values[1]) / (2 * STEP)
        result.append(slopes)
    return result


def assert_close(got: Any, wanted: Any, tolerance: float, what: str) -> None:
    """Equal shape, and equal values up to `tolerance` times the largest of the wanted ones."""
    got = np.asarray(got)
    assert got.shape == wanted.shape, f"{what}: shape {got.shape}, wanted {wanted.shape}"
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, wanted, err_msg=what)
        return
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = float(finite.max()) if finite.size else 1.0
    np.testing.assert_allclose(
        got.astype(np.float64), wanted, rtol=tolerance, atol=tolerance * scale, err_msg=what
    )


@pytest.fixture(params=sorted(BACKENDS))
def device(request: pytest.FixtureRequest) -> Any:
    """Every kind of device that this machine has."""
    return bp.Device(request.param)


class Toolbox:
    """The functions above, for test files, which cannot import each other."""

    cases = staticmethod(cases)
    numeric_gradients = staticmethod(numeric_gradients)
    assert_close = staticmethod(assert_close)


@pytest.fixture
def toolbox() -> type[Toolbox]:
    return Toolbox


LAYOUTS = ("transposed", "stepped", "reversed", "expanded")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Arguments of tests that run over cases.

    case            all ops, samples and dtypes
    smooth_case     those that can be differentiated
    sloped_case     the first of those an op, if its slope is not 0 everywhere
    array_case      the first sample of each op, if it has axes
    composed_case   the samples of composed ops
    """
    plain = list(cases(dtypes=False))
    smooth = [case for case in plain if is_differentiable(case)]
    first = {case.op.name: case for case in reversed(smooth)}
    chosen = {
        "case": lambda: list(cases()),
        "smooth_case": lambda: smooth,
        "sloped_case": lambda: [case for case in first.values() if has_slope(case)],
        "array_case": lambda: [c for c in plain if not c.number and c.arrays()[0].ndim],
        "composed_case": lambda: [case for case in plain if case.op.expand is not None],
        "layout": lambda: LAYOUTS,
    }
    for name in [name for name in chosen if name in metafunc.fixturenames]:
        metafunc.parametrize(name, chosen[name](), ids=str)
