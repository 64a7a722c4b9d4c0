"""MemoryManager: three tiers, buffers that are used, freed, dropped and misused."""

import gc
import itertools
import threading

import numpy as np
import pytest

import bedplate as bp
from bedplate.config import config
from bedplate.errors import DTypeError, MemoryUseError, OutOfMemoryError, SettingError, ShapeError
from bedplate.memory import readable
from bedplate.memory.mapping import ACCOUNT

MIB = 1 << 20
# elements of float32 -> tier
SIZES = {0: "small", 1: "small", MIB // 4: "small", MIB // 4 + 1: "medium", 25 * MIB: "medium",
         25 * MIB + 1: "large"}  # fmt: skip


@pytest.fixture
def manager():
    return bp.MemoryManager()


@pytest.mark.parametrize("elements", SIZES)
def test_tiers_by_size(manager, elements):
    buffer = manager.allocate(elements)
    assert buffer.tier == SIZES[elements]
    assert buffer.array.shape == buffer.shape == (elements,)
    assert buffer.array.ctypes.data % 64 == 0
    buffer.array[...] = 3
    assert (buffer.array == 3).all()
    manager.free(buffer)
    assert manager.leaks() == []


@pytest.mark.parametrize("dtype", [bp.float64, bp.bfloat16, bp.bool_, "int16", np.complex64, float])
def test_dtypes(manager, dtype):
    buffer = manager.allocate((2, 3), dtype)
    assert buffer.array.dtype == buffer.dtype.numpy
    assert buffer.nbytes == 6 * buffer.dtype.itemsize
    assert buffer.array.flags.writeable


def test_bounds_are_settings():
    with config(small_bound=2, medium_bound=3):
        manager = bp.MemoryManager()
    tiers = [manager.allocate(n, bp.int8).tier for n in (2 * MIB, 2 * MIB + 1, 3 * MIB + 1)]
    assert tiers == ["small", "medium", "large"]
    manager = bp.MemoryManager(small_bound=0, medium_bound="64 KiB")
    tiers = [manager.allocate(n, bp.int8).tier for n in (1, 65_536, 65_537)]
    assert tiers == ["medium", "medium", "large"]
    for bounds in ({"small_bound": "2 GiB"}, {"small_bound": "x"}, {"medium_bound": -1}):
        if bounds == {"small_bound": "2 GiB"}:
            assert bp.MemoryManager(**bounds).allocate(200 * MIB).tier == "small"
        else:
            with pytest.raises(SettingError, match="is no size"):
                bp.MemoryManager(**bounds)
    with pytest.raises(SettingError, match=r"small_bound \(2\.0 MiB\) is above medium_bound"):
        bp.MemoryManager(2 * MIB, MIB)


@pytest.mark.parametrize(
    ("shape", "message"),
    [(-1, "negative size"), ((2, -3), "negative size"), (1.5, "whole numbers"),
     ((1 << 62, 0), "NumPy has no array"), ((1,) * 65, "64 axes"),
     ("ab", "whole numbers"), (None, "whole numbers"), (((1, 2),), "whole numbers")],
)  # fmt: skip
def test_shapes_that_are_none(manager, shape, message):
    with pytest.raises(ShapeError, match=message):
        manager.allocate(shape)


@pytest.mark.parametrize("dtype", [object, "S3", "float128x", np.dtype([("a", "f4")]), 3])
def test_dtypes_that_are_none(manager, dtype):
    with pytest.raises(DTypeError, match="unknown dtype"):
        manager.allocate(3, dtype)


@pytest.mark.parametrize("shape", [1 << 62, 1 << 70, (1 << 31, 1 << 31, 1 << 31)])
def test_more_than_there_is(manager, shape):
    with pytest.raises(OutOfMemoryError, match=r"no memory for .*, asked for at .*test_manager.py"):
        manager.allocate(shape)
    assert manager.allocate(10).array.shape == (10,)


@pytest.mark.parametrize("elements", [10, MIB, 30 * MIB])
def test_after_free(manager, elements):
    buffer = manager.allocate(elements)
    view = buffer.array
    view[:] = 7
    buffer.free()
    assert buffer.is_freed
    with pytest.raises(MemoryUseError, match=r"array: the buffer .* was freed before"):
        buffer.array
    with pytest.raises(MemoryUseError, match=r"made at .*test_manager\.py:\d+, was freed before"):
        buffer.free()
    with pytest.raises(MemoryUseError, match="free each buffer once"):
        manager.free(buffer)
    # the memory is not used again while a view of it lives
    others = [manager.allocate(elements) for _ in range(3)]
    for other in others:
        other.array[:] = 9
    assert (view == 7).all()
    address = view.ctypes.data
    del view
    assert elements > 25 * MIB or manager.allocate(elements).array.ctypes.data == address


def test_foreign_buffers(manager):
    buffer = bp.MemoryManager().allocate(3)
    with pytest.raises(MemoryUseError, match="was made by another manager"):
        manager.free(buffer)
    with pytest.raises(TypeError, match="expected a Buffer, got ndarray"):
        manager.free(buffer.array)
    buffer.free()


def test_a_context_frees_and_large_memory_goes_back_at_once(manager):
    before = ACCOUNT.mapped
    with manager.allocate(30 * MIB) as buffer:
        buffer.array[0] = 1
        assert ACCOUNT.mapped == before + 120 * MIB
    assert ACCOUNT.mapped == before
    with manager.allocate(30 * MIB) as buffer:
        buffer.free()
    assert manager.leaks() == []


def test_a_large_buffer_that_is_dropped_is_a_leak(manager):
    before = ACCOUNT.mapped
    buffer = manager.allocate((30, MIB))
    del buffer
    assert ACCOUNT.mapped == before
    manager.allocate(MIB), manager.allocate(10)  # these go with their last reference
    (leak,) = manager.leaks()
    assert (leak.shape, leak.bytes, leak.tier) == ((30, MIB), 120 * MIB, "large")
    assert "test_manager.py:" in leak.line
    assert f"leaked: (30, {MIB}), 120.0 MiB, large, made at" in str(manager.report())


def test_medium_memory_is_cut_and_joined(manager):
    first = [manager.allocate(2 * MIB, bp.int8) for _ in range(12)]
    mapped = ACCOUNT.mapped
    first.clear()
    again = [manager.allocate(n * MIB, bp.int8) for n in (3, 4, 5)]
    assert ACCOUNT.mapped == mapped
    spans = sorted((b.array.ctypes.data, b.array.ctypes.data + b.nbytes) for b in again)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


def test_report_and_release(manager):
    assert manager.release() == 0
    buffers = [manager.allocate(n) for n in (1000, MIB, 30 * MIB)]
    report = manager.report()
    assert report.tiers["small"].in_use_bytes == 4096
    assert report.tiers["medium"].in_use_bytes >= 4 * MIB
    assert report.tiers["large"].in_use_bytes == 120 * MIB
    in_use = sum(tier.in_use_bytes for tier in report.tiers.values())
    assert repr(manager).startswith(f"<MemoryManager: {readable(in_use)} in use, ")
    assert all(buffer.array.size for buffer in buffers)
    for buffer in buffers:
        buffer.free()
    assert repr(manager).endswith(" kept, 0 leaked>") and "120.0 MiB" not in repr(manager)
    report = manager.report()
    assert [tier.in_use_bytes for tier in report.tiers.values()] == [0, 0, 0]
    kept = sum(tier.kept_bytes for tier in report.tiers.values())
    before = ACCOUNT.mapped
    assert manager.release() == before - ACCOUNT.mapped >= kept
    assert sum(tier.kept_bytes for tier in manager.report().tiers.values()) == 0
    assert manager.allocate(1000).array.size == 1000


def test_memory_goes_with_the_manager_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        before = ACCOUNT.mapped, ACCOUNT.free
        manager = bp.MemoryManager()
        array = manager.allocate(1000).array
        medium = manager.allocate(MIB).array
        del manager
        array[:], medium[:] = 1, 2  # they keep what they stand on
        del array, medium
        assert (ACCOUNT.mapped, ACCOUNT.free) == before
    finally:
        gc.enable()


def test_buffers_cross_threads(manager):
    """Made here, freed there: what is small comes home, and nothing is handed out twice."""
    wrong, made = [], []

    def make(number):
        for turn in range(200):
            buffer = manager.allocate((1 + number, 500 + turn))
            buffer.array[:] = number * 1000 + turn
            made.append((buffer, number * 1000 + turn))

    def free():
        while not done.is_set() or made:
            try:
                buffer, value = made.pop()
            except IndexError:
                continue
            if not (buffer.array == value).all():
                wrong.append(value)
            buffer.free()

    done = threading.Event()
    makers = [threading.Thread(target=make, args=(n,)) for n in range(3)]
    freers = [threading.Thread(target=free) for _ in range(2)]
    for thread in makers + freers:
        thread.start()
    for thread in makers:
        thread.join()
    done.set()
    for thread in freers:
        thread.join()
    assert not wrong
    assert manager.report().tiers["small"].in_use_bytes == 0
    assert manager.release() > 0


def test_a_list_for_each_thread():
    pool, other, seen = bp.ThreadLocalPool(), bp.ThreadLocalPool(), []
    pool.pool.append(1)
    thread = threading.Thread(target=lambda: seen.append((pool.pool, pool.pool is pool.pool)))
    thread.start()
    thread.join()
    assert pool.pool == [1] and other.pool == [] and seen == [([], True)]
