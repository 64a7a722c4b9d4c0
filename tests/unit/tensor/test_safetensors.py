"""Safetensors: what is written is read, lazily, and a lying file is an error, never a crash."""

import json
import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import bedplate as bp
from bedplate.errors import CheckpointError
from bedplate.tensor import safetensors as ours

ARRAYS = {
    "float": np.arange(6, dtype=np.float32).reshape(2, 3),
    "half": np.ones((3,), ml_dtypes.bfloat16),
    "empty": np.zeros((0, 4), np.float64),
    "scalar": np.array(7, np.int64),
    "flags": np.array([True, False, True]),
    "pairs": np.array([1 + 2j], np.complex64),
    "turned": np.arange(6, dtype=np.uint16).reshape(2, 3).T,
}


@pytest.fixture
def path(tmp_path):
    ours.write(tmp_path / "a.safetensors", ARRAYS, {"note": "text"})
    return tmp_path / "a.safetensors"


def equal(found, wanted=ARRAYS):
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), name
        assert found[name].tobytes() == array.tobytes(), name


def test_round_trip(path):
    file = ours.File(path)
    equal(file)
    assert file.metadata == {"note": "text"}
    assert len(file) == len(ARRAYS)
    assert "float" in file
    with pytest.raises(KeyError, match="absent"):
        file["absent"]


def test_the_package_reads_what_we_write(path):
    equal(safetensors.numpy.load_file(path))


def test_we_read_what_the_package_writes(tmp_path):
    arrays = {name: np.ascontiguousarray(ARRAYS[name]) for name in ("float", "empty", "flags")}
    safetensors.numpy.save_file(arrays, tmp_path / "a.safetensors", {"format": "np"})
    equal(ours.File(tmp_path / "a.safetensors"), arrays)


@pytest.mark.parametrize("bits", [0x3F80, 0x7F80, 0x8000, 0x0001, 0x7FC1])
def test_bits_are_kept(tmp_path, bits):
    array = np.array([bits], np.uint16).view(ml_dtypes.bfloat16)
    ours.write(tmp_path / "a.safetensors", {"x": array})
    assert ours.File(tmp_path / "a.safetensors")["x"].view(np.uint16).tolist() == [bits]


def test_shapes_are_known_before_values_are_read(path):
    stored = ours.File(path).stored["float"]
    assert (stored.shape, stored.dtype, stored.nbytes) == ((2, 3), bp.float32, 24)
    assert stored.read().tolist() == ARRAYS["float"].tolist()


def test_lazy_tensors(path):
    table = bp.load(path, lazy=True, device="reference")
    assert set(table) == set(ARRAYS)
    assert table.metadata == {"note": "text"}
    assert table["half"].dtype is bp.bfloat16
    assert table["half"].device == bp.Device("reference")
    assert "7 tensors of" in repr(table)
    with pytest.raises(ValueError, match=r"a \.npz file is read whole"):
        bp.save({"x": bp.ones(1)}, path.with_suffix(".npz"))
        bp.load(path.with_suffix(".npz"), lazy=True)


def test_a_file_that_is_cut_short_meanwhile(path):
    table = bp.load(path, lazy=True)
    os.truncate(path, path.stat().st_size - 100)
    with pytest.raises(CheckpointError, match="cut short since it was opened"):
        dict(table)


def test_a_file_that_is_replaced_meanwhile(path):
    table = bp.load(path, lazy=True)
    bp.save({"other": bp.ones(1)}, path)
    assert table["float"].tolist() == ARRAYS["float"].tolist()


# ---------------------------------------------------------------------------- hostile files


def write_header(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
ONE = json.dumps(ENTRY).encode()
LIES = {
    "other size": ({"a": {**ENTRY, "shape": [3]}}, "take other bytes"),
    "overflow": ({"a": {**ENTRY, "shape": [1 << 40, 1 << 40]}}, "overflow"),
    "empty and huge": (
        {"a": ENTRY, "z": {**ENTRY, "shape": [0, 1 << 62], "data_offsets": [8, 8]}},
        "no tensor has the shape",
    ),
    "many axes": ({"a": {**ENTRY, "shape": [1] * 100 + [2]}}, "no tensor has the shape"),
    "negative": ({"a": {**ENTRY, "shape": [-2]}}, "invalid value: integer `-2`"),
    "bool": ({"a": {**ENTRY, "shape": [True]}}, "invalid type: boolean"),
    "float": ({"a": {**ENTRY, "shape": [2.0]}}, "invalid type: floating point"),
    "unknown dtype": ({"a": {**ENTRY, "dtype": "F128"}}, "unknown variant `F128`"),
    "float8": ({"a": {**ENTRY, "dtype": "F8_E4M3", "shape": [8]}}, "F8_E4M3, which no tensor"),
    "incomplete": ({"a": {"dtype": "F32"}}, "missing field `shape`"),
    "hole": ({"a": {**ENTRY, "data_offsets": [8, 16]}}, "leaves a hole"),
    "backwards": ({"a": {**ENTRY, "data_offsets": [8, 0]}}, "invalid offset"),
    "overlap": ({"a": ENTRY, "b": {**ENTRY, "data_offsets": [4, 12]}}, "overlaps another"),
    "behind the end": ({"a": ENTRY, "b": {**ENTRY, "data_offsets": [8, 16]}}, "is truncated"),
    "nothing claimed": ({}, "bytes that belong to no tensor"),
    "list": ([1], "invalid JSON"),
    "metadata": ({"__metadata__": {"a": 1}, "b": ENTRY}, "expected a string"),
    "deep": (b"{" * 50_000, "invalid JSON"),
    "deeper": (b'{"a":' + b"[" * 50_000, "invalid JSON"),
    "not UTF-8": (b"\xff\xfe", "invalid UTF-8"),
    "more behind": (b'{"a":' + ONE + b"} {}", "trailing characters"),
    "twice": (b'{"a":' + ONE + b',"a":' + ONE + b"}", "the name 'a' stands in the header twice"),
    "twice escaped": (b'{"a":' + ONE + b',"\\u0061":' + ONE + b"}", "stands in the header twice"),
    "key twice": (b'{"a":{"dtype":"F32","dtype":"I32"}}', "duplicate field"),
    "metadata twice": (
        b'{"__metadata__":{},"__metadata__":{},"a":' + ONE + b"}",
        "duplicate|twice",
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_lies(tmp_path, name):
    header, message = LIES[name]
    write_header(tmp_path / "a.safetensors", header, bytes(8))
    with pytest.raises(CheckpointError, match=message) as caught:
        bp.load(tmp_path / "a.safetensors")
    assert "a.safetensors" in str(caught.value)


@pytest.mark.parametrize("length", [1 << 62, 1 << 63, (1 << 64) - 1, 99_000_000, 200_000_000])
def test_a_huge_header_is_not_believed(tmp_path, length):
    (tmp_path / "a.safetensors").write_bytes(length.to_bytes(8, "little") + b"{}")
    with pytest.raises(CheckpointError, match="no safetensors file"):
        bp.load(tmp_path / "a.safetensors")


@pytest.mark.parametrize("content", [b"", b"abc", bytes(8)], ids=len)
def test_files_of_nothing(tmp_path, content):
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="load: "):
        bp.load(tmp_path / "a.safetensors")


@pytest.mark.parametrize("ending", ["safetensors", "npy", "npz"])
def test_what_is_no_file(tmp_path, ending):
    place = tmp_path / f"a.{ending}"
    with pytest.raises(FileNotFoundError, match=place.name):
        bp.load(place)
    place.mkdir()
    with pytest.raises(CheckpointError, match="is a folder"):
        bp.load(place)
    with pytest.raises(CheckpointError, match="is no regular file"):
        bp.save(bp.ones(1) if ending == "npy" else {"x": bp.ones(1)}, place)
    place.rmdir()
    os.mkfifo(place)
    with pytest.raises(CheckpointError, match="is no regular file"):
        bp.load(place)
    place.unlink()
    place.symlink_to(place.name)
    with pytest.raises(CheckpointError, match="Too many levels"):
        bp.load(place)
    with pytest.raises(CheckpointError, match="null"):
        bp.load(f"a\0.{ending}")


def test_a_header_is_read_once_it_is_there(tmp_path):
    with pytest.raises(CheckpointError, match="cannot open"):
        ours.File(tmp_path / "nothing")


def test_links_are_followed(path, tmp_path):
    link = tmp_path / "link.safetensors"
    link.symlink_to(path)
    assert bp.load(link)["scalar"].item() == 7
    bp.save({"x": bp.ones(1)}, link)
    assert link.is_symlink()
    assert list(bp.load(path)) == ["x"]


# ----------------------------------------------------------------------------------- writing


def test_what_cannot_be_written(tmp_path):
    place = tmp_path / "a.safetensors"
    with pytest.raises(CheckpointError, match="a is complex128, which safetensors cannot hold"):
        ours.write(place, {"a": np.zeros(2, np.complex128)})
    with pytest.raises(CheckpointError, match="keeps the name __metadata__"):
        ours.write(place, {"__metadata__": np.zeros(2)})
    with pytest.raises(TypeError, match="names and metadata are strings, got 3"):
        ours.write(place, {"a": np.zeros(2)}, {"step": 3})
    with pytest.raises(TypeError, match="names and metadata are strings, got 1"):
        ours.write(place, {1: np.zeros(2)})
    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
        ours.write(place, {"\ud800": np.zeros(2)})
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file(path, monkeypatch):
    before = path.read_bytes()

    def full(*arguments):
        Path(arguments[1]).write_bytes(b"half of it")
        raise safetensors.SafetensorError("no space left on device")

    monkeypatch.setattr(ours, "save_file", full)
    with pytest.raises(OSError, match="no space left"):
        ours.write(path, {"x": np.zeros(3)})
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_files_have_the_usual_mode(path):
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
