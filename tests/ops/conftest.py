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
from bedplate.devices.registry import BACKENDS
from bedplate.dtypes import COMPLEX, FLOATS, INTEGERS, DType, as_dtype, real_dtype
from bedplate.ops.record import REGISTRY, Op, Sample, apply
from bedplate.ops.shape.views import outputs

EPSILON = {"float64": 2.2e-16, "float32": 1.2e-7, "float16": 9.8e-4, "bfloat16": 7.8e-3}
# the dtype of the oracle
WIDE = {"f": np.float64, "c": np.complex128}
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
        result = self.op.reference(*wide, **self.sample.attributes)
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
        return [*(swept if number < 2 else [bp.float32, bp.float64]), *more]
    if kinds == {"i"} and op.kind in ("elementwise", "reduce"):
        swept = [dtype for dtype in op.dtypes if dtype in INTEGERS]
        return [*swept] if number < 2 or op.kind == "elementwise" else [bp.int32, bp.int64]
    return [None]


def takes_complex(op: Op, sample: Sample) -> bool:
    """Whether an op takes a sample's floats, if they are finite, as parts of complex numbers."""
    known = op.by_parts or bp.complex128 in op.dtypes
    arrays = [np.asarray(a) for a in sample.inputs(np.random.default_rng(0))]
    parts = [array for array in arrays if array.dtype.kind == "f"]
    if not parts or not all(np.isfinite(array).all() for array in parts):
        return False
    return known and sample.attributes.get("dtype", bp.complex128) in COMPLEX


def cases(dtypes: bool = True) -> Iterator[Case]:
    """Every op with each of its samples, and each dtype that these stand for."""
    for name in sorted(REGISTRY):
        op = REGISTRY[name]
        for number, sample in enumerate(op.samples):
            more = [bp.complex128] if number == 0 and takes_complex(op, sample) else []
            swept = _swept(op, number, sample) if dtypes else [None, *more]
            for dtype in swept if op.kind != "leaf" else []:
                yield Case(op, number, sample, dtype)


def is_differentiable(case: Case) -> bool:
    """Whether a gradient function is there and floats to differentiate, in float64."""
    if not (case.sample.smooth and callable(case.op.gradient)):
        return False
    target = case.sample.attributes.get("dtype", bp.float64)  # a cast to less is not smooth
    exact = target in (bp.float64, bp.complex128)
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


def weighed(weights: Any, values: Any) -> float:
    """The sum of the products of all parts."""
    return float((values.real * weights.real + values.imag * weights.imag).sum())


def has_slope(case: Case) -> bool:
    """Whether the reference grows or falls anywhere at the sample."""
    arrays = case.arrays()
    slopes = numeric_gradients(case, arrays, weights_for(case, arrays))
    return any(slope is not None and np.any(slope) for slope in slopes)


_slopes: dict[tuple[str, int, bytes], list[Any]] = {}


def numeric_gradients(case: Case, arrays: list[Any], weights: Any) -> list[Any]:
    """The gradient of sum(weights * op(inputs)) by central differences; None for integers.

    The same for every device, hence computed once.
    """
    key = f"{case}", case.number, np.asarray(weights).tobytes()
    if key not in _slopes:
        _slopes[key] = _differences(case, arrays, weights)
    return _slopes[key]


def _differences(case: Case, arrays: list[Any], weights: Any) -> list[Any]:

    def total(changed: list[Any]) -> float:
        return weighed(weights, case.oracle(*changed))

    result: list[Any] = []
    for i, array in enumerate(arrays):
        if not varies(array):
            result.append(None)
            continue
        slopes = np.zeros(array.shape, array.dtype)
        for place in np.ndindex(*array.shape):
            for unit in (1.0, 1j) if array.dtype.kind == "c" else (1.0,):
                values = []
                for step in (STEP, -STEP):
                    moved = array.copy()
                    moved[place] += step * unit
                    values.append(total([*arrays[:i], moved, *arrays[i + 1 :]]))
                slopes[place] += unit * (values[0] - values[1]) / (2 * STEP)
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
        got.astype(WIDE.get(got.dtype.kind, np.float64)),
        wanted,
        rtol=tolerance,
        atol=tolerance * scale,
        err_msg=what,
    )


@pytest.fixture(params=sorted(BACKENDS))
def device(request: pytest.FixtureRequest) -> Any:
    """Every kind of device that this machine has."""
    return bp.Device(request.param)


class Toolbox:
    """The functions above, for test files, which cannot import each other."""

    cases = staticmethod(cases)
    numeric_gradients = staticmethod(numeric_gradients)
    weights_for = staticmethod(weights_for)
    assert_close = staticmethod(assert_close)


@pytest.fixture
def toolbox() -> type[Toolbox]:
    return Toolbox


LAYOUTS = ("transposed", "stepped", "reversed", "expanded")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Arguments of tests that run over cases.

    case            all ops, samples and dtypes
    smooth_case     those that can be differentiated
    bfloat16_case   those of real floats whose op takes bfloat16
    sloped_case     the first of those an op, real and complex, if its slope is not 0 everywhere
    array_case      the first sample of each op, if it has axes
    composed_case   the samples of composed ops
    """
    plain = list(cases(dtypes=False))
    smooth = [case for case in plain if is_differentiable(case)]
    first = {(case.op.name, case.dtype): case for case in reversed(smooth)}
    chosen = {
        "case": lambda: list(cases()),
        "smooth_case": lambda: smooth,
        "bfloat16_case": lambda: [
            case for case in smooth if bp.bfloat16 in case.op.dtypes and case.dtype is None
        ],
        "sloped_case": lambda: [case for case in first.values() if has_slope(case)],
        "array_case": lambda: [c for c in plain if not c.number and c.arrays()[0].ndim],
        "composed_case": lambda: [case for case in plain if case.op.expand is not None],
        "layout": lambda: LAYOUTS,
    }
    for name in [name for name in chosen if name in metafunc.fixturenames]:
        metafunc.parametrize(name, chosen[name](), ids=str)
