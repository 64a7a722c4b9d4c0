"""Every special case of the standard's tables holds, in each dtype, on each device.

All rows of a function are computed in one call, so that its kernel meets them in vectors and in
the tail behind them, and in two orders; what differs is told row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.standard import special_cases as table
from tests.standard.special_cases import Row

import bedplate as bp
from bedplate.devices.registry import BACKENDS
from bedplate.dtypes import INTEGERS

ROUNDINGS = 4  # in the last place, for what the standard lets be approximate
FLOATS = (np.float32, np.float64)
PARTS = {np.complex64: np.float32, np.complex128: np.float64}


@pytest.fixture(params=sorted(BACKENDS))
def device(request: pytest.FixtureRequest) -> Any:
    """Every kind of device that this machine has."""
    return bp.Device(request.param)


def by_function(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.function, []).append(row)
    return found


# ------------------------------------------------------------------- what a result word means


def angle(word: str) -> float:
    """The number that `~3pi/4` and its like stand for."""
    if "pi" not in word:
        return float(word)
    sign = -1 if word.startswith("-") else 1
    head, _, divisor = word.lstrip("-").partition("/")
    return sign * float(head.removesuffix("pi") or 1) * math.pi / float(divisor or 1)


def even(x: float) -> float:
    return math.copysign(float(np.round(x)), x)


def same_number(got: float, wanted: float) -> bool:
    """Equal, of the same sign if they are zeros; a NaN for a NaN."""
    if math.isnan(wanted):
        return math.isnan(got)
    return got == wanted and math.copysign(1, got) == math.copysign(1, wanted)


def holds(word: str, got: Any, operands: tuple[float, ...], epsilon: float) -> bool:
    """Whether `got` is what the word of a row says."""
    named = {"x1": 0, "a": 0, "x2": 1, "b": 1}
    if word in ("true", "false"):
        return bool(got) is (word == "true")
    if word in ("+", "-"):
        return not math.isnan(got) and math.copysign(1, got) == float(f"{word}1")
    if word in ("nan+", "nan-"):
        return math.isnan(got) and math.copysign(1, got) == float(f"{word[-1]}1")
    if word.startswith("~?"):
        wanted = angle(word[2:])
        return abs(abs(got) - wanted) <= ROUNDINGS * epsilon * wanted
    if word.startswith("~"):
        wanted = angle(word[1:])
        return abs(got - wanted) <= ROUNDINGS * epsilon * abs(wanted)
    if word.startswith("?"):
        return abs(got) == float(word[1:])
    if "*" in word:
        scale, _, function = word.partition("*")
        turn = {"cos": math.cos, "sin": math.sin}[function](operands[1])
        return same_number(got, float(scale) * turn)
    if word == "even":
        return same_number(got, even(operands[0]))
    if word in table.SINGLE:
        return same_number(got, table.SINGLE[word])
    operand = operands[named[word.strip("-|")]] if word != "same" else operands[1]
    operand = abs(operand) if "|" in word else operand
    return same_number(got, -operand if word.startswith("-") else operand)


# ------------------------------------------------------------------------------- the operands


def combinations(row: Row, dtype: type) -> Iterator[tuple[float, ...]]:
    """Every choice of values for the operands of a row."""
    patterns = row.operands
    if patterns[-1] not in ("same", "-same", "other"):
        yield from product(*(table.values(pattern, dtype) for pattern in patterns))
        return
    for x in table.values(patterns[0], dtype):
        yield x, {"same": x, "-same": -x, "other": 0.25 if x != 0.25 else 1.0}[patterns[-1]]


def check_rows(rows: list[Row], dtype: type, call: Callable[..., Any], epsilon: float) -> None:
    """Compute all rows at once, in both orders, and compare."""
    where, operands = [], []
    for row in rows:
        for choice in combinations(row, dtype):
            where.append(row)
            operands.append(choice)
    columns = [np.array(column, dtype) for column in zip(*operands, strict=True)]
    for order in (slice(None), slice(None, None, -1)):
        results = call(*(np.ascontiguousarray(column[order]) for column in columns))
        wrong = [
            f"{row} {row.function}{choice} gave {got}"
            for row, choice, *got in zip(where[order], operands[order], *results, strict=True)
            if not all(map(holds, row.result, got, (choice,) * 2, (epsilon,) * 2))
        ]
        assert not wrong, f"{len(wrong)} of {len(where)}: " + "\n".join(wrong[:20])


REAL = [*table.rows(table.ONE, 1), *table.rows(table.TWO, 2), *table.rows(table.CLIP, 3)]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("name", sorted(by_function(REAL)))
def test_of_real_numbers(device: Any, name: str, dtype: type) -> None:
    function = getattr(bp, name)

    def call(*arrays: Any) -> list[Any]:
        return [function(*(bp.Tensor(array, device) for array in arrays)).tolist()]

    check_rows(by_function(REAL)[name], dtype, call, float(np.finfo(dtype).eps))


# --------------------------------------------------------------------------- complex numbers


def turned(row: Row, name: str) -> Row:
    return row._replace(function=name)


def complex_rows() -> dict[str, list[Row]]:
    """All functions: those of the table, and those that are others turned by a quarter."""
    found = by_function(table.rows(table.COMPLEX, 2))
    for name, source in table.TURNED.items():
        found[name] = [turned(row, name) for row in found[source]]
    found["cos"] = [turned(row, "cos") for row in found["cosh"]]
    return found


def pairs(a: Any, b: Any, dtype: type) -> Any:
    """The complex array of these parts: `a + 1j * b` would make NaN of infinities."""
    return np.stack([a, b], axis=-1).view(dtype)[..., 0]


def parts(result: Any) -> list[Any]:
    array = result.numpy()
    return [array.real.tolist(), array.imag.tolist()] if array.dtype.kind == "c" else [array]


def computed(name: str, a: Any, b: Any, dtype: type, device: Any) -> list[Any]:
    """The parts of f(a + bj); of a turned function those of the one that it is made of.

    f(x) = -1j g(1j x), so with z = 1j x: x = b - aj, and g(z) has the parts -Im f, Re f.
    """
    function = getattr(bp, name)
    if name == "cos":
        return parts(function(bp.Tensor(pairs(b, -a, dtype), device)))
    if name not in table.TURNED:
        return parts(function(bp.Tensor(pairs(a, b, dtype), device)))
    real, imaginary = parts(function(bp.Tensor(pairs(b, -a, dtype), device)))
    return [[-x for x in imaginary], real]


@pytest.mark.parametrize("dtype", PARTS, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("name", sorted(complex_rows()))
def test_of_complex_numbers(device: Any, name: str, dtype: type) -> None:
    epsilon = float(np.finfo(dtype).eps)
    rows = complex_rows()[name]
    check_rows(rows, PARTS[dtype], lambda a, b: computed(name, a, b, dtype, device), epsilon)

    def conjugate(a: Any, b: Any) -> list[Any]:
        real, *imaginary = computed(name, a, -b, dtype, device)
        return [real, *([-x for x in part] for part in imaginary)]

    check_rows(rows, PARTS[dtype], conjugate, epsilon)


# ------------------------------------------------------------------------ statistics, integers


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("case", table.STATISTICS, ids=str)
def test_of_many_elements(device: Any, case: Any, dtype: type) -> None:
    name, words, keywords, result = case
    x = bp.Tensor(np.array([table.SINGLE[word] for word in words], dtype), device)
    got = getattr(bp, name)(x, **keywords).tolist()
    several = isinstance(result, tuple)
    for word, number in zip(*((result, got) if several else ((result,), (got,))), strict=True):
        assert holds(word, number, (), 0.0), (word, number)


def integer(word: str, info: Any) -> int | None:
    """The integer of a word; None where the dtype has none."""
    if word == "sign":
        return -1 if info.min else 0
    number = {"least": int(info.min), "most": int(info.max)}.get(word)
    number = int(word) if number is None else number
    return number if info.min <= number <= info.max else None


def integer_rows(dtype: Any) -> Iterator[tuple[Any, list[int], int]]:
    """The rows whose numbers the dtype holds: an unsigned one has no -7."""
    info = np.iinfo(dtype.numpy)
    for case in table.INTEGERS:
        operands = [integer(word, info) for word in case[1]]
        wanted = integer(case[2], info)
        if wanted is not None and all(x is not None for x in operands):
            yield case, [x for x in operands if x is not None], wanted


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("length", [1, 37])
def test_of_integers(device: Any, dtype: Any, length: int) -> None:
    wrong = []
    for case, operands, wanted in integer_rows(dtype):
        tensors = [bp.Tensor(np.full(length, x, dtype.numpy), device) for x in operands]
        got = getattr(bp, case[0])(*tensors)
        if got.dtype is not dtype or got.tolist() != [wanted] * length:
            wrong.append((case, got))
    assert not wrong


def test_the_cases_are_counted() -> None:
    assert table.count() > 500
