"""Functions of complex numbers: a few ulp of mpmath everywhere, and what C99 says at the edges.

Errors are relative to the absolute value of the result. Which functions there are comes from the
records: those with one complex input and a form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import bedplate as bp
from bedplate.ops.complex_numbers.form import FORMS

ULPS = 3.0
PLAIN = [
    op.name
    for op in FORMS
    if op.kind == "elementwise" and op.promote == "float" and callable(op.gradient)
    and hasattr(bp, op.name) and getattr(bp, op.name).__code__.co_argcount == 1
]  # fmt: skip
EXACT: dict[str, Callable[[Any], Any]] = {
    "exp2": lambda z: mpmath.power(2, z),
    "log1p": lambda z: mpmath.log(1 + z),
    "log2": lambda z: mpmath.log(z) / mpmath.log(2),
    "log10": lambda z: mpmath.log(z) / mpmath.log(10),
    "reciprocal": lambda z: 1 / z,
    "rsqrt": lambda z: 1 / mpmath.sqrt(z),
    "abs": abs,
    "sign": lambda z: z / abs(z),
    "square": lambda z: z * z,
    "sigmoid": lambda z: 1 / (1 + mpmath.exp(-z)),
}
PERIODIC = ("exp", "exp2", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sigmoid")
NUMPY = {f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
INF, NAN = math.inf, math.nan


def points(dtype: Any, count: int) -> Any:
    """Numbers of usual size, on and near the unit circle, near 0, 1, -1, i, -i, huge and tiny."""
    r = np.random.default_rng(1)
    far = 30 if dtype == np.complex64 else 250
    sizes = [10.0 ** r.uniform(-far, far, count) * r.choice([-1, 1], count) for _ in range(2)]
    small = [10.0 ** r.uniform(-20, 0, count) * r.choice([-1, 1], count) for _ in range(4)]
    special = r.choice([0, 1, -1], count)
    circle = np.exp(1j * r.uniform(-3.2, 3.2, count))
    parts = [
        r.normal(size=count) + 1j * r.normal(size=count),
        20 * (r.normal(size=count) + 1j * r.normal(size=count)),
        circle * (1 + r.normal(size=count) * 10.0 ** r.uniform(-8, -1, count)),
        sizes[0] + 1j * sizes[1],
        special + small[0] + 1j * small[1],
        1j * special + small[2] + 1j * small[3],
    ]
    return np.concatenate(parts).astype(dtype)


def ulps(name: str, z: Any, got: Any) -> tuple[float, Any]:
    """The largest error, in units of the last place of |y|, and where."""
    function = EXACT.get(name) or getattr(mpmath, name)
    limits = np.finfo(got.real.dtype)
    worst: tuple[float, Any] = (0.0, None)
    with mpmath.workprec(2400):  # 1e-250 is added to 1
        for x, y in zip(z, got, strict=True):
            exact = mpmath.mpc(function(mpmath.mpc(float(x.real), float(x.imag))))
            size = abs(exact)
            if float(limits.tiny) * 1e8 < size < float(limits.max) / 4:
                error = float(abs(mpmath.mpc(complex(y)) - exact) / size / float(limits.eps))
                worst = max(worst, (error, (x, y)), key=lambda pair: pair[0])
    return worst


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", [*PLAIN, "abs", "sign", "square"])
def test_a_function_is_within_a_few_ulp(name: str, dtype: Any, sweep: str) -> None:
    z = points(dtype, 8 if sweep == "quick" else 400)
    if name in PERIODIC:
        z = z[(abs(z.real) < 80) & (abs(z.imag) < 80)]
    error, place = ulps(name, z, getattr(bp, name)(bp.tensor(z)).numpy())
    assert error <= ULPS, f"{name}{place}: {error} ulp"


@pytest.mark.parametrize("name", ["exp", "exp2", "expm1", "sinh", "cosh", "sin", "cos"])
def test_a_finite_result_is_found_where_the_exponential_overflows(name: str) -> None:
    """The cosine of pi / 2 - 1e-5 brings e^715 back among the numbers."""
    for dtype, ends in ((np.complex128, (708, 711, 715)), (np.complex64, (87, 89, 93))):
        z = np.array([complex(s * x, y) for x in ends for y in (1.57078, 2.0) for s in (1, -1)])
        z = z / math.log(2) if name == "exp2" else z
        z = (z.imag + 1j * z.real if name in ("sin", "cos") else z).astype(dtype)
        error, place = ulps(name, z, getattr(bp, name)(bp.tensor(z)).numpy())
        assert error <= ULPS, f"{name}{place}: {error} ulp"


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_division_is_within_a_few_ulp_at_any_size(dtype: Any, sweep: str) -> None:
    z = points(dtype, 8 if sweep == "quick" else 400)
    w = np.roll(z, 5)
    got = bp.divide(bp.tensor(z), bp.tensor(w)).numpy()
    with mpmath.workprec(300):
        exact = [mpmath.mpc(complex(a)) / mpmath.mpc(complex(b)) for a, b in zip(z, w, strict=True)]
    limits = np.finfo(got.real.dtype)
    for a, b, y, quotient in zip(z, w, got, exact, strict=True):
        size = abs(quotient)
        if float(limits.tiny) * 1e8 < size < float(limits.max) / 4:
            error = float(abs(mpmath.mpc(complex(y)) - quotient) / size / float(limits.eps))
            assert error <= ULPS, f"{a} / {b} = {y}: {error} ulp"


def test_division_neither_overflows_nor_underflows_on_the_way() -> None:
    huge, tiny = 1.5e308, 1e-310
    for a, b in ((huge, huge), (tiny, tiny), (huge, 2.0), (tiny, 2.0)):
        x, y = (bp.tensor(complex(n, n), dtype=bp.complex128) for n in (a, b))
        got = (x / y).item()
        assert got == pytest.approx(a / b, rel=1e-12, abs=0)
    z = bp.tensor(complex(huge, huge), dtype=bp.complex128)
    assert bp.reciprocal(z).item() == pytest.approx(
        complex(0.5 / huge, -0.5 / huge), rel=1e-12, abs=0
    )


def test_the_logarithm_near_the_unit_circle_keeps_its_digits() -> None:
    z = np.array([0.6 + 0.8j, 0.6 + 0.8000000000000002j, complex(1, 1e-9), complex(1e-200, 1)])
    with mpmath.workprec(500):
        exact = [float(mpmath.log(abs(mpmath.mpc(complex(x))))) for x in z]
    np.testing.assert_allclose(bp.log(bp.tensor(z)).numpy().real, exact, rtol=1e-15)


GRID = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 2.5, -2.5]
EDGES = np.array([complex(a, b) for a in GRID for b in GRID])
# C99 leaves a sign open: of infinities and zeros that a lost angle turns
OPEN = ("exp", "exp2", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh")
# where NumPy computes e^z - 1 by parts; the Array API has the values of the table below
OFF = {
    "expm1": lambda z: ~np.isfinite(z),
    # 1 / 0 is inf + i NaN, as a division gives it; NumPy's reciprocal has two NaN
    "reciprocal": lambda z: z == 0,
    # NaN beside infinity is NaN (Array API)
    "sign": lambda z: np.isnan(z.real) | np.isnan(z.imag),
}


def same(got: Any, wanted: Any, signs: Any) -> Any:
    """Equal, NaN for NaN; zeros with their sign where `signs` says so, infinities too."""
    equal = np.isclose(got, wanted, rtol=1e-14, atol=0, equal_nan=True)
    signed = np.isnan(wanted) | (np.signbit(got) == np.signbit(wanted))
    loose = np.isclose(abs(got), abs(wanted), rtol=1e-14, atol=0, equal_nan=True)
    return np.where(signs, equal & signed, loose)


WITH_TWIN = [name for name in PLAIN if hasattr(np, NUMPY.get(name, name))]


@pytest.mark.parametrize(
    "name", [*WITH_TWIN, "abs", "sign", "square", "isnan", "isinf", "isfinite"]
)
def test_special_values_are_those_of_c99(name: str, device: Any) -> None:
    got = getattr(bp, name)(bp.Tensor(EDGES, device)).numpy()
    with np.errstate(all="ignore"):
        wanted = getattr(np, NUMPY.get(name, name))(EDGES)
    signs = np.isfinite(EDGES) if name in OPEN else np.ones(EDGES.shape, bool)
    fits = same(got.real, wanted.real, signs) & same(got.imag, wanted.imag, signs)
    if name in OFF:
        fits |= OFF[name](EDGES)
    wrong = np.flatnonzero(~fits)
    assert not wrong.size, [(EDGES[i], got[i], wanted[i]) for i in wrong]


@pytest.mark.parametrize(
    "z, wanted",
    [
        (complex(INF, 0.0), complex(INF, 0.0)),
        (complex(-INF, INF), complex(-1.0, 0.0)),
        (complex(INF, INF), complex(INF, NAN)),
        (complex(-INF, NAN), complex(-1.0, 0.0)),
        (complex(INF, NAN), complex(INF, NAN)),
        (complex(NAN, 0.0), complex(NAN, 0.0)),
        (complex(NAN, 1.0), complex(NAN, NAN)),
        (complex(-INF, 2.0), complex(-1.0, 0.0)),
    ],
)
def test_expm1_at_the_edges_is_that_of_the_standard(z: complex, wanted: complex) -> None:
    got = bp.expm1(bp.tensor([z], dtype=bp.complex128)).numpy()[0]
    np.testing.assert_equal([got.real, abs(got.imag)], [wanted.real, wanted.imag])


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "equal", "not_equal"])
def test_arithmetic_at_the_edges_is_that_of_numpy(name: str, device: Any) -> None:
    a, b = EDGES[:, None], EDGES[None]
    got = getattr(bp, name)(bp.Tensor(a, device), bp.Tensor(b, device)).numpy()
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(a, b)
    fits = same(got.real, wanted.real, True) & same(got.imag, wanted.imag, True)
    wrong = np.argwhere(~fits)
    assert not wrong.size, [(EDGES[i], EDGES[j], got[i, j], wanted[i, j]) for i, j in wrong[:9]]


def test_powers_at_the_edges() -> None:
    table = [
        (0, 0, 1), (0, 2, 0), (0, 2 + 1j, 0), (2, 0, 1), (NAN, 0, 1), (1j, 2, -1), (1j, 4, 1),
        (-8, 1 / 3, (-8 + 0j) ** (1 / 3)), (2 + 1j, 0.5 - 2j, (2 + 1j) ** (0.5 - 2j)),
    ]  # fmt: skip
    for a, b, wanted in table:
        got = bp.pow(bp.tensor([complex(a)] * 2), bp.tensor([complex(b)] * 2)).numpy()
        np.testing.assert_allclose(got, [wanted] * 2, rtol=3e-7, atol=1e-7)
    assert np.isnan(bp.pow(bp.tensor([0j, 0j]), bp.tensor([-1j, -2 + 0j])).numpy()).all()


@pytest.mark.parametrize("power", [2, 3, 7, 100, -1, -5])
def test_whole_powers_are_products(power: int) -> None:
    z = np.array([1 + 1j, 2j, -1 + 0j, 1 - 2j])
    got = (bp.tensor(z) ** power).numpy()
    np.testing.assert_allclose(got, z**power, rtol=1e-13)
    if power > 0 and power < 8:
        assert (got == z**power).all()
