"""Every computing instruction, on every type, as scalar and vector: machine code against the
interpreter and, where NumPy has the operation, against NumPy.

Long: the instructions share one table of samples and one way to run both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from bedplate.kernel import (
    all_of,
    any_of,
    bf16,
    bitcast,
    cast,
    ceil,
    constant,
    copysign,
    ctlz,
    cttz,
    extract,
    f16,
    f32,
    f64,
    floor,
    fma,
    i1,
    i8,
    i16,
    i32,
    i64,
    insert,
    iota,
    kernel,
    load,
    loop,
    maximum,
    minimum,
    mul_high,
    popcount,
    ptr,
    quotient,
    raw_max,
    raw_min,
    reduce_add,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_mul,
    reduce_or,
    remainder,
    round_even,
    scale,
    select,
    shuffle,
    splat,
    sqrt,
    store,
    tail_mask,
    trunc,
    u8,
    u16,
    u32,
    u64,
    zeros,
)  # fmt: skip
from bedplate.kernel.arguments import numpy_dtype
from bedplate.kernel.instructions.floats import _exact_fma, fused
from bedplate.kernel.ir import print_program
from bedplate.kernel.read import read_program

N = 64
FLOATS = (f16, bf16, f32, f64)
INTEGERS = (i8, i16, i32, i64, u8, u16, u32, u64)
NUMBERS = FLOATS + INTEGERS

ONE_FLOAT = {
    "sqrt": (sqrt, np.sqrt), "floor": (floor, np.floor), "ceil": (ceil, np.ceil),
    "trunc": (trunc, np.trunc), "round_even": (round_even, np.rint),
    "negate": (lambda a: -a, np.negative), "absolute": (abs, np.abs),
}  # fmt: skip
ONE_INTEGER = {
    "popcount": (popcount, None), "ctlz": (ctlz, None), "cttz": (cttz, None),
    "not": (lambda a: ~a, np.invert), "negate": (lambda a: -a, np.negative),
    "absolute": (abs, np.abs), "left by 3": (lambda a: a << 3, lambda a: a << 3),
    "right by 3": (lambda a: a >> 3, lambda a: a >> 3),
    "// 4": (lambda a: a // 4, lambda a: a // 4), "% 8": (lambda a: a % 8, lambda a: a % 8),
    "// 3": (lambda a: a // 3, lambda a: a // 3), "% 3": (lambda a: a % 3, lambda a: a % 3),
}  # fmt: skip
TWO = {
    "add": (lambda a, b: a + b, np.add), "sub": (lambda a, b: a - b, np.subtract),
    "mul": (lambda a, b: a * b, np.multiply), "floor_divide": (lambda a, b: a // b, None),
    "modulo": (lambda a, b: a % b, None), "remainder": (remainder, None),
    "minimum": (minimum, None), "maximum": (maximum, None), "raw_min": (raw_min, None),
    "raw_max": (raw_max, None),
}  # fmt: skip
TWO_FLOATS = {"divide": (lambda a, b: a / b, np.divide), "copysign": (copysign, np.copysign)}
TWO_INTEGERS = {
    "quotient": (quotient, None), "<<": (lambda a, b: a << b, None),
    ">>": (lambda a, b: a >> b, None), "and": (lambda a, b: a & b, np.bitwise_and),
    "or": (lambda a, b: a | b, np.bitwise_or), "xor": (lambda a, b: a ^ b, np.bitwise_xor),
}  # fmt: skip
COMPARISONS = {
    "<": (lambda a, b: a < b, np.less), "<=": (lambda a, b: a <= b, np.less_equal),
    ">": (lambda a, b: a > b, np.greater), ">=": (lambda a, b: a >= b, np.greater_equal),
    "==": (lambda a, b: a == b, np.equal), "!=": (lambda a, b: a != b, np.not_equal),
}  # fmt: skip


def run(
    function: Callable[..., Any], operand: Any, result: Any, lanes: int | None, *inputs: Any
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(by machine code, by the interpreter) of a function of one or two inputs."""

    @kernel
    def apply(a: ptr(operand), b: ptr(operand), out: ptr(result)):
        for i in loop(0, N, lanes or 1):
            values = [load(x + i, lanes) for x in (a, b)][: len(inputs)]
            store(out + i, function(*values))

    arrays = (*inputs, inputs[0])[:2]
    native, stepped = (np.zeros(N, numpy_dtype(result)) for _ in range(2))
    apply(*arrays, native)
    apply.interpret(*arrays, stepped)
    text = print_program(apply.ir)
    assert print_program(read_program(text)) == text
    return native, stepped


@pytest.mark.parametrize("lanes", [None, 8])
@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_arithmetic(type_: Any, lanes: int | None, samples: Any, assert_same: Any) -> None:
    a, b = samples(type_, 1), samples(type_, 2)
    one = ONE_FLOAT if type_.is_float else ONE_INTEGER
    two = {**TWO, **(TWO_FLOATS if type_.is_float else TWO_INTEGERS)}
    for table, inputs in ((one, (a,)), (two, (a, b))):
        for function, reference in table.values():
            native, stepped = run(function, type_, type_, lanes, *inputs)
            assert_same(native, stepped, *inputs)
            if reference is not None:
                with np.errstate(all="ignore"):
                    assert_same(native, reference(*inputs).astype(native.dtype), *inputs)


@pytest.mark.parametrize("lanes", [None, 8])
@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_comparison_and_select(
    type_: Any, lanes: int | None, samples: Any, assert_same: Any
) -> None:
    a, b = samples(type_, 3), samples(type_, 4)
    b[::3] = a[::3]
    for function, reference in COMPARISONS.values():
        native, stepped = run(function, type_, i1, lanes, a, b)
        assert_same(native, stepped, a, b)
        with np.errstate(invalid="ignore"):
            assert_same(native, reference(a, b), a, b)
    native, _ = run(lambda x, y: select(x < y, x, y), type_, type_, lanes, a, b)
    with np.errstate(invalid="ignore"):
        assert_same(native, np.where(a < b, a, b), a, b)


@pytest.mark.parametrize("target", (*NUMBERS, i1), ids=str)
@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_cast(type_: Any, target: Any, samples: Any, assert_same: Any) -> None:
    a = samples(type_, 5)
    for lanes in (None, 8):
        native, stepped = run(lambda x: cast(x, target), type_, target, lanes, a)
        assert_same(native, stepped, a)
        if target is i1 or (not type_.is_float and not target.is_narrow_float):
            assert_same(native, a.astype(native.dtype), a)


@pytest.mark.parametrize("type_", FLOATS, ids=str)
def test_float_to_integer_saturates(type_: Any) -> None:
    a = np.zeros(N, numpy_dtype(type_))
    a[:6] = [np.nan, np.inf, -np.inf, -1.75, 1.75, 300]
    for target, wanted in ((i8, [0, 127, -128, -1, 1, 127]), (u8, [0, 255, 0, 0, 1, 255])):
        native, _ = run(lambda x, t=target: cast(x, t), type_, target, 8, a)
        assert native[:6].tolist() == wanted


@pytest.mark.parametrize("lanes", [None, 8])
@pytest.mark.parametrize("target", [f16, bf16], ids=str)
def test_narrow_floats_round_once(target: Any, lanes: int | None, assert_same: Any) -> None:
    dtype = numpy_dtype(target)
    with np.errstate(all="ignore"):
        bits = np.arange(0, 1 << 16, 1021, dtype=np.uint16)[:N]
        near = bits.view(dtype).astype(np.float64)
        upper = (bits + 1).view(dtype).astype(np.float64)
        middle = near + (upper - near) / 2
        for shift in (1.0, 1 + 1e-12, 1 - 1e-12):
            wide = middle * shift
            native, stepped = run(lambda x: cast(x, target), f64, target, lanes, wide)
            assert_same(native, stepped, wide)
            toward = native.astype(np.float64)
            finite = np.isfinite(wide) & np.isfinite(toward)
            other = np.where(toward == near, upper, near)
            error, alternative = np.abs(toward - wide), np.abs(other - wide)
            assert (error <= alternative)[finite].all()
        single = middle.astype(np.float32)
        native, _ = run(lambda x: cast(x, target), f32, target, lanes, single)
        assert_same(native, single.astype(dtype), single)


@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_bitcast(type_: Any, samples: Any) -> None:
    a = samples(type_, 6)
    for target in NUMBERS:
        if target.bits != type_.bits:
            continue
        for lanes in (None, 8):
            native, stepped = run(lambda x, t=target: bitcast(x, t), type_, target, lanes, a)
            assert native.tobytes() == stepped.tobytes() == a.tobytes()


@pytest.mark.parametrize("type_", FLOATS, ids=str)
def test_fma(type_: Any, samples: Any, assert_same: Any) -> None:
    a, b = samples(type_, 7), samples(type_, 8)
    for lanes in (None, 8):
        native, stepped = run(lambda x, y: fma(x, y, x), type_, type_, lanes, a, b)
        assert_same(native, stepped, a, b)
    native, _ = run(lambda x: fma(x, x, -1.0), type_, type_, 8, a)


@pytest.mark.parametrize("lanes", [None, 4, 8, 16, 32])
@pytest.mark.parametrize("type_", [f32, f64], ids=str)
def test_whole_registers(type_: Any, lanes: int | None, samples: Any, assert_same: Any) -> None:
    a, b = samples(type_, 9), samples(type_, 10)
    b[::3] = a[::3]
    for function in (minimum, maximum):
        native, stepped = run(function, type_, type_, lanes, a, b)
        assert_same(native, stepped, a, b)
    most = 250.0 if type_ is f32 else 2040.0
    powers = np.linspace(-most, most, N).round().astype(a.dtype)
    normal = np.where(np.abs(a) < np.finfo(a.dtype).smallest_normal, a.dtype.type(0), a)
    for x in (normal, np.full(N, 1.2345678, a.dtype)):
        native, stepped = run(scale, type_, type_, lanes, x, powers)
        assert_same(native, stepped, x, powers)
        with np.errstate(over="ignore"):
            assert_same(native, np.ldexp(x, powers.astype(int)), x, powers)
    native, stepped = run(scale, type_, type_, lanes, np.full(N, np.nan, a.dtype), powers)
    assert np.isnan(native).all()
    assert np.isnan(stepped).all()


def test_the_interpreter_rounds_fma_as_exact_fractions_do() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, (3, 2000), np.uint64).astype(np.uint32).view(np.float32)
    a, b = rng.normal(size=(2, 2000)).astype(np.float32)
    near = (-(a.astype(np.float64) * b)).astype(np.float32)  # cancels but for the rounding
    whole = rng.integers(1, 1 << 24, 2000).astype(np.float32)
    above = (1 + rng.integers(-1, 2, 2000) * 2.0**-23).astype(np.float32)
    half = np.full(2000, np.float32(0.5))  # ties, and what is a little beside one
    tiny = (rng.integers(-50, 50, 2000) * 1.4e-45).astype(np.float32)
    small = np.float32(1e-20)
    for x, y, z in (bits, (a, b, near), (half, above, whole), (a * small, b * small, tiny)):
        with np.errstate(all="ignore"):
            exact = np.array([_exact_fma(*each) for each in zip(x, y, z, strict=True)], np.float32)
            found = fused(x, y, z)
        wrong = (found.view(np.int32) != exact.view(np.int32)) & ~(
            np.isnan(found) & np.isnan(exact)
        )
        assert not wrong.any(), (x[wrong][0], y[wrong][0], z[wrong][0])


def test_fma_rounds_once() -> None:
    x = np.full(N, 1 + 2.0**-12, np.float32)
    native, _ = run(lambda a: fma(a, a, -1.0 - 2.0**-11), f32, f32, 8, x)
    assert (native == np.float32(2.0**-24)).all()
    apart, _ = run(lambda a: a * a + (-1.0 - 2.0**-11), f32, f32, 8, x)
    assert (apart == 0).all()  # two roundings: nothing contracts them into one


@pytest.mark.parametrize("type_", [i32, u32, i64, u64], ids=str)
def test_mul_high(type_: Any, samples: Any) -> None:
    a, b = samples(type_, 9), samples(type_, 10)
    wanted = [(int(x) * int(y)) >> type_.bits for x, y in zip(a, b, strict=True)]
    for lanes in (None, 8):
        native, stepped = run(mul_high, type_, type_, lanes, a, b)
        assert native.tolist() == stepped.tolist() == wanted


@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_lanes(type_: Any, samples: Any, assert_same: Any) -> None:
    a, b = samples(type_, 11), samples(type_, 12)
    picked = [0, 9, 2, 11, 15, 4, 3, 8]

    def lane_mask(x: Any) -> Any:
        return select(tail_mask(cast(extract(x, 0), i64), 8), x, zeros(type_, 8))

    for function in (
        lambda x, y: shuffle(x, y, picked),
        lambda x, y: insert(x, 3, extract(y, 5)),
        lambda x, y: x + iota(type_, 8) + splat(extract(y, 1), 8),
        lambda x, y: insert(x, cast(extract(cast(y, i64), 2), i64), extract(y, 1)),
        lambda x, y: lane_mask(x) + y,
    ):
        native, stepped = run(function, type_, type_, 8, a, b)
        assert_same(native, stepped, a, b)
    native, _ = run(lambda x, y: shuffle(x, y, picked), type_, type_, 8, a, b)
    rows = np.concatenate([a.reshape(8, 8), b.reshape(8, 8)], axis=1)
    assert_same(native, rows[:, picked].reshape(-1))


def by_tree(row: Any, combine: Any) -> Any:
    while len(row) > 1:
        row = combine(row[: len(row) // 2], row[len(row) // 2 :])
    return row[0]


@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_reductions(type_: Any, samples: Any, assert_same: Any) -> None:
    a = samples(type_, 13)
    table = {reduce_add: np.add, reduce_mul: np.multiply, reduce_min: None, reduce_max: None}
    if not type_.is_float:
        table |= {reduce_and: np.bitwise_and, reduce_or: np.bitwise_or}
    for function, combine in table.items():
        native, stepped = run(lambda x, f=function: splat(f(x), 8), type_, type_, 8, a)
        assert_same(native, stepped, a)
        if combine is not None and not type_.is_narrow_float:
            with np.errstate(all="ignore"):
                wanted = np.repeat([by_tree(row, combine) for row in a.reshape(8, 8)], 8)
            assert_same(native, wanted.astype(native.dtype), a)


def test_reductions_of_masks() -> None:
    a = np.arange(N, dtype=np.int32) % 16
    for function, wanted in (
        (lambda x: any_of(x < 4), [True, False] * 4), (lambda x: all_of(x < 12), [True, False] * 4)
    ):  # fmt: skip
        native, stepped = run(
            lambda x, f=function: select(f(x), splat(constant(i32, 1), 8), zeros(i32, 8)),
            i32, i32, 8, a,
        )  # fmt: skip
        assert native[::8].astype(bool).tolist() == stepped[::8].astype(bool).tolist() == wanted


def test_division_guards() -> None:
    low = np.iinfo(np.int64).min
    a = np.full(N, low, np.int64)
    b = np.resize(np.array([0, -1, 1, 2], np.int64), N)
    for function, wanted in (
        (lambda x, y: x // y, [0, low, low, low // 2]), (lambda x, y: x % y, [0, 0, 0, 0]),
        (quotient, [0, low, low, low // 2]), (remainder, [0, 0, 0, 0]),
    ):  # fmt: skip
        native, stepped = run(function, i64, i64, None, a, b)
        assert native[:4].tolist() == stepped[:4].tolist() == wanted


def test_shift_guards() -> None:
    a = np.resize(np.array([-8, 8], np.int32), N)
    b = np.resize(np.array([31, 31, 32, 32, 1000, 1000, -1, -1], np.int32), N)
    left, _ = run(lambda x, y: x << y, i32, i32, 8, a, b)
    right, _ = run(lambda x, y: x >> y, i32, i32, 8, a, b)
    assert left[:8].tolist() == [0] * 8
    assert right[:8].tolist() == [-1, 0] * 4


def test_no_float_mode_is_changed() -> None:
    tiny = np.full(N, 1e-40, np.float32)
    native, _ = run(lambda x: x * 1.0, f32, f32, 8, tiny)
    assert (native == np.float32(1e-40)).all()
    assert np.float32(1e-40) * np.float32(1) == np.float32(1e-40)


def test_bfloat16_keeps_subnormals_and_nan() -> None:
    values = np.resize(np.array([1e-39, -1e-40, np.nan, np.inf], np.float32), N)
    native, _ = run(lambda x: cast(x, bf16), f32, bf16, 16, values)
    wanted = values.astype(ml_dtypes.bfloat16)
    assert native[0] == wanted[0] != 0
    assert native[1] == wanted[1]
    assert np.isnan(native[2]) and np.isinf(native[3])


@pytest.mark.parametrize(
    ("type_", "value"),
    [(u64, 2**64 - 1), (u8, 255), (i8, -128), (i64, -(2**63)), (f32, np.nan), (f32, -0.0),
     (f64, -np.inf), (f64, 5e-324), (f32, 1e-45), (f16, np.nan), (bf16, np.inf), (f16, 6e-8),
     (i1, True), (f32, 1e300), (f16, 1e6), (f64, 0.1), (f32, 16777217)],
)  # fmt: skip
def test_literals(type_: Any, value: Any, assert_same: Any) -> None:
    @kernel
    def write(x: ptr(type_)):
        store(x, constant(type_, value))
        store(x + 1, constant(type_, value, 4))

    with np.errstate(over="ignore"):
        wanted = np.full(5, value).astype(numpy_dtype(type_))
    for how in (write, write.interpret):
        x = np.zeros(5, wanted.dtype)
        how(x)
        assert_same(x, wanted)


def test_iota_wraps_in_small_types() -> None:
    @kernel
    def write(x: ptr(i8)):
        store(x, iota(i8, 256))

    for how in (write, write.interpret):
        x = np.zeros(256, np.int8)
        how(x)
        assert x.tolist() == np.arange(256).astype(np.int8).tolist()
