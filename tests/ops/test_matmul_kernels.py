"""The kernels of matmul, launched directly: every class of shapes, strides and dtypes.

Long, because every kernel meets every class by the same few tables of shapes and layouts.
"""

import ctypes
import re

import numpy as np
import pytest

from bedplate import dtypes
from bedplate.compiler.builder import BufferRef, PlanBuilder, View
from bedplate.config import config
from bedplate.devices.cpu import NativePlan, Slot, Task
from bedplate.kernel import (
    cast,
    f32,
    f64,
    from_dtype,
    i32,
    i64,
    load,
    maximum,
    splat,
    word_pointer,
)
from bedplate.memory import allocate
from bedplate.ops.matmul import lower as matmul_lower
from bedplate.ops.matmul import skinny as matmul_skinny
from bedplate.ops.matmul import tiled as matmul_tiled
from bedplate.ops.matmul.lower import lower
from bedplate.ops.matmul.task import Variant
from bedplate.ops.matmul.tiles import tiles


class Launcher:
    """Runs what one `lower` enters into a builder: slots for arrays, an arena for temporaries."""

    def __init__(self, arrays, out, epilogue=None):
        self.arrays = [*arrays, out, *(epilogue.arrays if epilogue else ())]
        bases = [array if array.base is None else array.base for array in self.arrays]
        self.bases = bases
        refs = [BufferRef(b.nbytes, slot=n + 1) for n, b in enumerate(bases)]
        views = [view_of(x, b, r) for x, b, r in zip(self.arrays, bases, refs, strict=True)]
        if epilogue:
            epilogue.words = tuple(views[len(arrays) + 1 :])
        builder = PlanBuilder()
        lower(builder, None, tuple(views[: len(arrays)]), (views[len(arrays)],), epilogue)
        self.regions, self.arena_bytes, self.launches = [], 0, builder.launches
        for launch in builder.launches:
            words = [self.word(w) for w in launch.words]
            self.regions.append([
                Task(launch.kernel.compile(), words, launch.items, launch.name, launch.flops,
                     launch.nbytes)
            ])  # fmt: skip
        self.arena = allocate(self.arena_bytes)
        self.plan = NativePlan(self.regions, len(bases) + 1)
        addresses = [self.arena.address, *(b.ctypes.data for b in bases)]
        self.slots = (ctypes.c_int64 * len(addresses))(*addresses)

    def word(self, word):
        if isinstance(word, View):
            ref, offset = word.buffer, word.offset * word.dtype.itemsize
        elif isinstance(word, BufferRef):
            ref, offset = word, 0
        else:
            return word
        if ref.slot is not None:
            return Slot(ref.slot, offset)
        if ref.offset is None:
            ref.offset = self.arena_bytes
            self.arena_bytes += -(-ref.nbytes // 64) * 64
        return Slot(0, ref.offset + offset)

    def value(self, word):
        return self.slots[word.index] + word.offset_bytes if isinstance(word, Slot) else word

    def run(self):
        self.plan.run(self.slots)


def view_of(array, base, ref):
    size = array.itemsize
    offset = (array.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // size
    strides = tuple(stride // size for stride in array.strides)
    return View(ref, array.shape, strides, offset, dtypes.as_dtype(array.dtype))


def product(a, b, epilogue=None, out_dtype=None):
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.full((*batch, a.shape[-2], b.shape[-1]), 99).astype(out_dtype or a.dtype)
    Launcher((a, b), out, epilogue).run()
    return out


def numbers(seed, *shape, dtype=np.float32):
    generator = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return generator.integers(0, 100, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: np.ascontiguousarray(np.swapaxes(x, -1, -2)).swapaxes(-1, -2),
    "general": lambda x: np.repeat(np.repeat(x, 2, -1), 3, -2)[..., ::3, ::2],
    "flipped": lambda x: np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1],
}


def check(a, b, out, rounding=None):
    wide = np.matmul(a.astype(np.float64), b.astype(np.float64))
    bound = np.matmul(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64)))
    eps = {"float64": 2.0**-52, "float32": 2.0**-23}.get(np.dtype(out.dtype).name, 2.0**-23)
    depth = a.shape[-1]
    limit = bound * eps * (2 + depth**0.5)
    if rounding:
        limit = limit + np.abs(wide) * rounding
    assert (np.abs(out.astype(np.float64) - wide) <= limit + 1e-30).all()


SHAPES = [
    (1, 1, 1), (1, 1, 70), (1, 70, 1), (3, 5, 7), (14, 32, 32), (15, 33, 33), (17, 1, 3),
    (28, 300, 64), (40, 257, 31), (64, 64, 64), (70, 4500, 40), (129, 70, 200), (250, 300, 220),
]  # fmt: skip
SKINNY = [(1, 700, 300), (2, 65, 1000), (8, 300, 515), (16, 130, 129), (5, 16, 16), (1, 9, 2000)]


@pytest.mark.parametrize("shape", SHAPES + SKINNY, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shapes(shape, dtype):
    rows, depth, columns = shape
    a, b = numbers(1, rows, depth, dtype=dtype), numbers(2, depth, columns, dtype=dtype)
    check(a, b, product(a, b))


@pytest.mark.parametrize("shape", [(9, 40, 33), (50, 300, 70), (230, 210, 240)], ids=str)
@pytest.mark.parametrize("a_layout", LAYOUTS)
@pytest.mark.parametrize("b_layout", LAYOUTS)
def test_layouts(shape, a_layout, b_layout):
    rows, depth, columns = shape
    a, b = numbers(3, rows, depth), numbers(4, depth, columns)
    out = product(LAYOUTS[a_layout](a), LAYOUTS[b_layout](b))
    check(a, b, out)
    np.testing.assert_array_equal(out, product(a, b))


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    "shape", [(3, 70, 40), (40, 300, 70), (30, 33, 500), (250, 270, 260)], ids=str
)
@pytest.mark.parametrize("order", ["rows", "columns"])
def test_narrow_floats(name, shape, order):
    dtype = dtypes.BY_NAME[name].numpy
    rows, depth, columns = shape
    a, b = (LAYOUTS[order](numbers(n, *s).astype(dtype)) for n, s in
            ((5, (rows, depth)), (6, (depth, columns))))  # fmt: skip
    check(a, b, product(a, b), rounding=2.0**-8 if name == "bfloat16" else 2.0**-11)


PAIR_SHAPES = [
    (1, 1, 1), (1, 33, 70), (3, 64, 40), (17, 95, 33), (70, 1, 9), (70, 129, 100), (70, 4500, 40),
    (66, 4097, 33), (90, 31, 1), (70, 0, 5),
]  # fmt: skip


@pytest.mark.parametrize("shape", PAIR_SHAPES, ids=str)
@pytest.mark.parametrize("a_layout", ["rows", "columns", "general"])
@pytest.mark.parametrize("b_layout", ["rows", "columns", "general"])
def test_pairs_of_bfloat16_give_the_bits_of_single_ones(shape, a_layout, b_layout, monkeypatch):
    rows, depth, columns = shape
    dtype = dtypes.bfloat16.numpy
    a = LAYOUTS[a_layout](numbers(28, rows, depth).astype(dtype))
    b = LAYOUTS[b_layout](numbers(29, depth, columns).astype(dtype))
    outs = []
    for in_pairs in (False, True):
        monkeypatch.setattr(matmul_lower, "goes_in_pairs", lambda _, on=in_pairs: on)
        outs.append(product(a, b))
    np.testing.assert_array_equal(*outs)


def test_subnormal_numbers_count_when_the_dot_instruction_is_off():
    a = np.full((3, 4), 2.0**-130).astype(dtypes.bfloat16.numpy)
    b = np.full((4, 5), 2.0**100).astype(dtypes.bfloat16.numpy)
    with config(bfloat16_dot=False):
        assert (product(a, b).astype(np.float32) == 2.0**-28).all()


@pytest.mark.parametrize("dtype", [d.numpy for d in dtypes.INTEGERS], ids=str)
@pytest.mark.parametrize("shape", [(5, 40, 33), (50, 300, 70)], ids=str)
def test_integers_wrap(dtype, shape):
    rows, depth, columns = shape
    a, b = numbers(7, rows, depth, dtype=dtype), numbers(8, depth, columns, dtype=dtype)
    np.testing.assert_array_equal(product(a, b), np.matmul(a, b))


BATCHES = [
    ((3,), (3,)), ((2, 3), (2, 3)), ((4,), ()), ((2, 1), (3,)), ((1, 3), (2, 1)), ((), (5,)),
    ((2, 1, 2), (1, 3, 1)),
]  # fmt: skip


@pytest.mark.parametrize("batches", BATCHES, ids=str)
@pytest.mark.parametrize("shape", [(1, 20, 30), (7, 20, 30), (40, 70, 33)], ids=str)
@pytest.mark.parametrize("order", ["rows", "columns"])
def test_batches(batches, shape, order):
    rows, depth, columns = shape
    a = LAYOUTS[order](numbers(9, *batches[0], rows, depth))
    b = LAYOUTS[order](numbers(10, *batches[1], depth, columns))
    check(a, b, product(a, b))


def test_large_batch_of_packed_products():
    a, b = numbers(11, 3, 210, 220), numbers(12, 3, 220, 230)
    check(a, b, product(a, b))


@pytest.mark.parametrize("shape", [(0, 4, 5), (3, 4, 0), (0, 0, 0), (0, 300, 300)], ids=str)
def test_nothing_to_compute(shape):
    rows, depth, columns = shape
    assert product(numbers(0, rows, depth), numbers(0, depth, columns)).shape == (rows, columns)


@pytest.mark.parametrize("shape", [(3, 5), (40, 70), (1, 1)], ids=str)
@pytest.mark.parametrize("name", ["float32", "bfloat16", "int32"])
def test_depth_zero_gives_zeros(shape, name):
    dtype = dtypes.BY_NAME[name].numpy
    a, b = np.zeros((shape[0], 0), dtype), np.zeros((0, shape[1]), dtype)
    assert not product(a, b).astype(np.float32).any()


@pytest.mark.parametrize(
    "shape", [(5, 70, 300), (40, 70, 33), (230, 400, 240), (950, 40, 700)], ids=str
)
@pytest.mark.parametrize("a_layout", ["rows", "columns"])
def test_same_bits_for_any_number_of_threads(shape, a_layout):
    rows, depth, columns = shape
    a, b = LAYOUTS[a_layout](numbers(13, rows, depth)), numbers(14, depth, columns)
    outs = []
    for threads in (1, 2, 5):
        with config(num_threads=threads):
            outs.append(product(a, b))
    assert all((out == outs[0]).all() for out in outs)


def test_a_row_has_the_same_bits_alone_and_in_any_company():
    a, b = numbers(15, 300, 700), numbers(16, 700, 210)
    whole = product(a, b)
    for rows in (1, 2, 9, 16, 17, 40, 150):
        np.testing.assert_array_equal(product(a[3 : 3 + rows].copy(), b), whole[3 : 3 + rows])
        turned = product(a[3 : 3 + rows].copy(), LAYOUTS["columns"](b))
        np.testing.assert_array_equal(turned, whole[3 : 3 + rows])
    np.testing.assert_array_equal(product(a, b[:, 100:101].copy()), whole[:, 100:101])


def test_special_values_stay_in_their_row_and_column():
    a, b = numbers(17, 37, 41), numbers(18, 41, 67)
    a[5, 3], b[7, 66] = np.nan, np.inf
    out = product(a, b)
    wrong = ~np.isfinite(out)
    expected = np.zeros_like(wrong)
    expected[5, :] = expected[:, 66] = True
    np.testing.assert_array_equal(wrong, expected)


class Residual:
    """An epilogue: gelu-like in shape, max(value * row scale + bias + residual, 0)."""

    key = "residual"
    reads = ()

    def __init__(self, out_shape, dtype, seed=19):
        self.bias = numbers(seed, out_shape[-1])
        self.scale = numbers(seed + 1, *out_shape[:-1])
        self.residual = numbers(seed + 2, *out_shape)
        self.arrays = (self.bias, self.scale, self.residual)
        self.shape, self.dtype = out_shape, dtypes.as_dtype(dtype)

    def emit(self, value, batch, row, column, lanes, mask, args, first):
        bias, scale, residual = (word_pointer(args, first + n, f32) for n in range(3))
        rows, columns = self.shape[-2:]
        at = batch * rows + row
        factor = load(scale + at)
        there = residual + at * columns + column
        if lanes is None:
            value = value * factor + load(bias + column) + load(there)
        else:
            value = value * splat(factor, lanes) + load(bias + column, lanes, mask=mask)
            value = value + load(there, lanes, mask=mask)
        return cast(maximum(value, 0.0), from_dtype(self.dtype))

    def apply(self, x):
        x = x.astype(np.float32) * self.scale[..., None] + self.bias + self.residual
        return np.maximum(x, 0).astype(self.dtype.numpy)


EPILOGUE_SHAPES = [
    ((5, 70), (70, 33)), ((60, 40), (40, 70)), ((60, 4500), (4500, 40)), ((230, 210), (210, 600)),
    ((1, 30), (30, 500)), ((2, 3, 40), (40, 50)), ((3, 70, 40), (40, 50)), ((3, 1, 40), (40, 50)),
    ((2, 9, 40), (2, 40, 50)), ((2, 70, 40), (2, 40, 50)), ((300, 40), (40, 1)),
    ((2, 30, 40), (40, 1)), ((50, 0), (0, 40)), ((3, 0), (0, 40)), ((70, 20), (20, 7)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", EPILOGUE_SHAPES, ids=str)
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_epilogue(shapes, name):
    dtype = dtypes.BY_NAME[name].numpy
    a, b = (numbers(n, *shape).astype(dtype) for n, shape in zip((20, 21), shapes, strict=True))
    out_shape = (*a.shape[:-1], b.shape[-1])
    epilogue = Residual(out_shape, dtype)
    epilogue.key = ("residual", out_shape, name)
    expected = epilogue.apply(np.matmul(a.astype(np.float32), b.astype(np.float32)))
    out = product(a, b, epilogue)
    tolerance = 2.0**-7 if name == "bfloat16" else 1e-5
    np.testing.assert_allclose(
        out.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=2e-4
    )


@pytest.mark.parametrize("shape", [(300, 70, 1), (20, 700, 1), (2, 3, 1), (70, 300, 9)], ids=str)
@pytest.mark.parametrize("a_layout", ["rows", "columns", "general"])
def test_few_columns(shape, a_layout):
    rows, depth, columns = shape
    a, b = numbers(22, 2, rows, depth), numbers(23, depth, columns)
    check(a, b, product(LAYOUTS[a_layout](a), b))


@pytest.mark.parametrize("vector_bits", [128, 256])
@pytest.mark.parametrize(
    "shape", [(9, 70, 33), (60, 30, 40), (70, 2800, 21), (210, 220, 500)], ids=str
)
@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("b_layout", ["rows", "columns"])
def test_the_tiles_of_other_machines(vector_bits, shape, name, b_layout, monkeypatch):
    monkeypatch.setattr(matmul_lower, "tiles", lambda t: tiles(t, vector_bits))
    monkeypatch.setattr(matmul_lower, "_kernels", {})
    dtype = dtypes.BY_NAME[name].numpy
    rows, depth, columns = shape
    a, b = numbers(24, rows, depth).astype(dtype), numbers(25, depth, columns).astype(dtype)
    check(a, b, product(a, LAYOUTS[b_layout](b)), rounding=2.0**-8 if name == "bfloat16" else None)


# the innermost loop of each target, by its multiply-add: as many as the register tile has
# accumulators, and nothing of it in memory
INNER_LOOPS = [
    ("avx512", 512, r"vfmadd\d+ps\s.*zmm", 28), ("avx2", 256, r"vfmadd\d+ps\s.*ymm", 12),
    ("aarch64", 128, r"fmla\s+v\d+\.4s", 24),
]  # fmt: skip


@pytest.mark.parametrize("target, vector_bits, pattern, count", INNER_LOOPS)
@pytest.mark.parametrize("a_layout", ["packed", "along", "other"])
def test_the_inner_loop_stays_in_registers(target, vector_bits, pattern, count, a_layout):
    variant = Variant(f32, f32, f32, f32, a_layout, "across", 0, False, False)
    kernel = matmul_tiled.make_kernel(variant, tiles(f32, vector_bits), None)
    blocks = re.split(r"\n\.LBB\w+:", kernel.assembly(target))
    inner = max(blocks, key=lambda block: len(re.findall(pattern, block)))
    assert len(re.findall(pattern, inner)) == count
    vector_spills = r"(vmov\w+\s.*\(%rsp\).*[yz]mm|[yz]mm.*\(%rsp\)|\bq\d+.*\[sp)"
    assert a_layout != "packed" or not re.search(vector_spills, inner)


def test_the_cut_fits_the_registers():
    for vector_bits, registers in ((512, 32), (256, 16), (128, 32)):
        for accumulate in (f32, f64, i32, i64):
            cut = tiles(accumulate, vector_bits)
            assert cut.rows * cut.vectors + cut.vectors + 1 <= registers
            assert cut.depth % cut.lanes == 0
            assert cut.rows > cut.tail_rows
            assert cut.tail_rows * cut.vectors >= 8


PATHS = {
    "skinny": {},
    "direct": {"MAX_ROWS": 0},
    "packed": dict.fromkeys(("MAX_ROWS", "SMALL", "PANELS", "CLOSE_BYTES"), 0)
    | {"CLASH_BYTES": 1, "OWN_TILES": 1},
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("a_layout", LAYOUTS)
@pytest.mark.parametrize("b_layout", LAYOUTS)
@pytest.mark.parametrize("name", ["float32", "bfloat16", "bfloat16 in pairs", "int8 in fours"])
def test_kernels_read_and_write_nothing_outside(path, a_layout, b_layout, name, monkeypatch):
    name, _, words = name.partition(" ")
    monkeypatch.setattr(matmul_lower, "goes_in_pairs", lambda _: words == "in pairs")
    monkeypatch.setattr(matmul_lower, "goes_by_bytes", lambda *_: words == "in fours")
    for setting, value in PATHS[path].items():
        monkeypatch.setattr(
            matmul_skinny if setting == "MAX_ROWS" else matmul_lower, setting, value
        )
    monkeypatch.setattr(matmul_lower, "tiles", lambda t: tiles(t, 128))
    monkeypatch.setattr(matmul_lower, "_kernels", {})
    dtype = dtypes.BY_NAME[name].numpy
    a = LAYOUTS[a_layout](numbers(26, 11, 11).astype(dtype))
    b = LAYOUTS[b_layout](numbers(27, 11, 13).astype(dtype))
    interpreted(a, b)


def interpreted(a, b):
    """The product by the interpreter, which refuses what lies outside of the operands."""
    out = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    launcher = Launcher((a, b), out)
    arena = launcher.arena.array(np.uint8, (launcher.arena_bytes,))
    for launch, (task,) in zip(launcher.launches, launcher.regions, strict=True):
        words = np.array([launcher.value(word) for word in task.words], np.int64)
        launch.kernel.interpret(words, 0, launch.items, 0, memory=[*launcher.bases, arena])
    check(a, b, out, rounding=2.0**-8 if out.dtype == "bfloat16" else None)


@pytest.mark.parametrize("bits", [128, 512])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("b_layout", ["rows", "columns", "flipped"])
@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "bfloat16 in pairs", "int8"])
def test_few_rows_read_and_write_nothing_outside(rows, bits, b_layout, name, monkeypatch):
    name, _, words = name.partition(" ")
    monkeypatch.setattr(matmul_lower, "goes_in_pairs", lambda _: words == "in pairs")
    monkeypatch.setattr(matmul_lower, "tiles", lambda t: tiles(t, bits))
    monkeypatch.setattr(matmul_lower, "_kernels", {})
    dtype = dtypes.BY_NAME[name].numpy
    # a square or two of columns and what is left; a step of vectors across and what is left
    lanes = tiles(matmul_lower.accumulator(dtypes.BY_NAME[name]), bits).lanes
    depth, columns = 2 * lanes + 3, 4 * lanes + 5
    a = numbers(28, rows, depth).astype(dtype)
    b = LAYOUTS[b_layout](numbers(29, depth, columns).astype(dtype))
    interpreted(a, b)


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "float16", "int32"])
def test_one_row_has_the_same_bits_wherever_its_columns_begin(name):
    dtype = dtypes.BY_NAME[name].numpy
    depth, columns = 1040, 21
    a, b = (
        numbers(n, *shape).astype(dtype) for n, shape in ((1, (1, depth)), (2, (depth, columns)))
    )
    expected = product(a, b)
    memory = np.zeros(columns * depth + 128, dtype)
    line = -memory.ctypes.data % 64 // memory.itemsize
    for first in range(line, line + 64 // memory.itemsize + 1, 3):
        moved = memory[first : first + columns * depth].reshape(columns, depth)
        moved[:] = b.T
        assert product(a, moved.T).tobytes() == expected.tobytes()
