"""What the sweeps over the op records share: the cases, the devices, and how close is close.

Nothing here names an op: all comes from the records.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from tests.conftest import SWEEP

import bedplate as bp
from bedplate.devices.registry import BACKENDS, OPTIONAL, backends
from bedplate.testing.samples import WIDE, Case, cases, is_differentiable, varies, weights_for

# both sides of a central difference in float64; its own error is about STEP squared
STEP = 1e-5


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


PLANNED = sorted(name for name in OPTIONAL if name in backends() and backends()[name].count())
ONE_IN = 40  # of the cases on each planned device in `make test`; `make sweep` has them all


@pytest.fixture(params=PLANNED)
def planned_device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Every kind of device that this machine has and that runs our kernels through a driver."""
    with bp.config(opencl_options="-cl-opt-disable"):
        yield bp.Device(request.param)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    planned = [item for item in items if "planned_device" in getattr(item, "fixturenames", ())]
    for item in planned:
        item.add_marker(pytest.mark.sweep)
    if SWEEP == "quick":
        left = {item for item in planned if zlib.crc32(item.name.encode()) % ONE_IN}
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=list(left))


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


@functools.cache
def all_cases() -> list[Case]:
    return list(cases())


@functools.cache
def plain_cases() -> list[Case]:
    return list(cases(dtypes=False))


@functools.cache
def smooth_cases() -> list[Case]:
    return [case for case in plain_cases() if is_differentiable(case)]


@functools.cache
def sloped_cases() -> list[Case]:
    first = {(case.op.name, case.dtype): case for case in reversed(smooth_cases())}
    return [case for case in first.values() if has_slope(case)]


# pytest asks for each test function: the lists are made once
CHOSEN: dict[str, Callable[[], Sequence[Any]]] = {
    "case": all_cases,
    "smooth_case": smooth_cases,
    "bfloat16_case": lambda: [
        case for case in smooth_cases() if bp.bfloat16 in case.op.dtypes and case.dtype is None
    ],
    "sloped_case": sloped_cases,
    "array_case": lambda: [c for c in plain_cases() if not c.number and c.arrays()[0].ndim],
    "composed_case": lambda: [case for case in plain_cases() if case.op.expand is not None],
    "layout": lambda: LAYOUTS,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Arguments of tests that run over cases.

    case            all ops, samples and dtypes
    smooth_case     those that can be differentiated
    bfloat16_case   those of real floats whose op takes bfloat16
    sloped_case     the first of those an op, real and complex, if its slope is not 0 everywhere
    array_case      the first sample of each op, if it has axes
    composed_case   the samples of composed ops
    """
    for name in [name for name in CHOSEN if name in metafunc.fixturenames]:
        metafunc.parametrize(name, CHOSEN[name](), ids=str)
