"""NaN, infinities, signed zeros, denormals and the edges of each domain."""

import ml_dtypes
import numpy as np
import pytest

from bedplate.kernel import bf16, f16, f32, f64, kernel, load, loop, maths, ptr, store
from bedplate.kernel.maths import sweep
from bedplate.kernel.types import i64

INF, NAN = np.inf, np.nan
PI = np.pi
# name: (argument, result) pairs; both are rounded to the dtype under test.
TABLE = {
    "exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (1e4, INF), (-1e4, 0)],
    "exp2": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (1e4, INF), (-1e4, 0), (10.0, 1024)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (1e4, INF), (-1e4, -1)],
    "log": [(0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (-1.0, NAN), (1.0, 0.0)],
    "log2": [(0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (-1.0, NAN), (1.0, 0.0), (8.0, 3)],
    "log10": [
        (0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (-1.0, NAN), (1.0, 0.0),
        (1e3, 3),
    ],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, NAN), (-1.0, -INF), (-2.0, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (100.0, 1), (-100.0, -1)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0), (100.0, 1), (-1e4, 0)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (100.0, 1), (-100.0, -1)],
    "erfc": [(0.0, 1), (-0.0, 1), (INF, 0), (-INF, 2), (100.0, 0), (-100.0, 2)],
    "sqrt": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, NAN), (-1.0, NAN), (4.0, 2)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, NAN), (-1.0, NAN), (4.0, 0.5)],
    "cbrt": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (-8.0, -2)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (1e4, INF), (-1e4, -INF)],
    "cosh": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, INF), (1e4, INF)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1.0, PI / 2), (-1.0, -PI / 2), (1.5, NAN), (-INF, NAN)],
    "acos": [(0.0, PI / 2), (1.0, 0.0), (-1.0, PI), (1.5, NAN), (-1.5, NAN), (INF, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2), (1e30, PI / 2)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1.0, 0.0), (INF, INF), (0.5, NAN), (-1.0, NAN), (-INF, NAN)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (2.0, NAN), (-INF, NAN)],
}  # fmt: skip
NUMPY_NAMES = {"pow": np.power, "atan2": np.arctan2}
ODD_ONE = float(2**24 - 1)
EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 2.5, INF, -INF, NAN, ODD_ONE, 1e30]
# These send the smallest numbers to themselves.
IDENTITY_NEAR_ZERO = [
    "expm1", "log1p", "sin", "tan", "tanh", "sinh", "asin", "atan", "asinh", "atanh",
]  # fmt: skip
SMOOTH_NEAR_ZERO = ["log", "log2", "log10", "cbrt", "rsqrt", "sqrt", "acos", "cos", "exp"]


@pytest.mark.parametrize("type_", [f32, f64], ids=str)
@pytest.mark.parametrize("name", sorted(TABLE))
def test_special_values(name, type_):
    dtype = sweep.NUMPY[type_]
    x, expected = np.array([*TABLE[name], (NAN, NAN)]).T.astype(dtype)
    result = sweep.compute(name, type_, [x])
    np.testing.assert_array_equal(result, expected)
    kept = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[kept]), np.signbit(expected[kept]))


@pytest.mark.parametrize("type_", [f32, f64], ids=str)
@pytest.mark.parametrize("name", sorted(NUMPY_NAMES))
def test_special_pairs(name, type_):
    dtype = sweep.NUMPY[type_]
    x, y = (a.ravel().astype(dtype) for a in np.meshgrid(EDGES, EDGES))
    result = sweep.compute(name, type_, [x, y])
    with np.errstate(all="ignore"):
        expected = NUMPY_NAMES[name](x, y)
    np.testing.assert_allclose(result, expected, rtol=4 * np.finfo(dtype).eps, atol=0)
    kept = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[kept]), np.signbit(expected[kept]))


@pytest.mark.parametrize("type_", [f32, f64], ids=str)
@pytest.mark.parametrize("name", IDENTITY_NEAR_ZERO)
def test_denormals_pass_unchanged(name, type_):
    dtype = sweep.NUMPY[type_]
    smallest = np.finfo(dtype).smallest_subnormal
    x = np.array([1, -1, 2, 3, -1000, 12345], dtype) * smallest
    np.testing.assert_array_equal(sweep.compute(name, type_, [x]), x)


@pytest.mark.parametrize("name", SMOOTH_NEAR_ZERO)
def test_denormal_arguments(name):
    x = np.array([5e-324, 1e-310, 2.2250738585072014e-308])
    errors = list(sweep.errors(name, [x], sweep.compute(name, f64, [x])))
    assert max(errors) <= 1.5


@pytest.mark.parametrize("type_, dtype", [(f16, np.float16), (bf16, ml_dtypes.bfloat16)])
def test_narrow_floats_round_once_from_float32(type_, dtype):
    @kernel
    def exponentials(x: ptr(type_), out: ptr(type_), count: i64):
        for i in loop(0, count, 8):
            store(out + i, maths.exp(load(x + i, 8)))

    x = np.linspace(-8, 8, 64).astype(dtype)
    out = np.zeros(64, dtype)
    exponentials(x, out, 64)
    expected = sweep.compute("exp", f32, [x.astype(np.float32)]).astype(dtype)
    np.testing.assert_array_equal(out.astype(np.float32), expected.astype(np.float32))
