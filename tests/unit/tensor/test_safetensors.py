"""Safetensors: what is written is read, and a lying file is an error, never a crash."""

import json

import ml_dtypes
import numpy as np
import pytest

from bedplate.errors import CheckpointError
from bedplate.tensor import safetensors

ARRAYS = {
    "float": np.arange(6, dtype=np.float32).reshape(2, 3),
    "half": np.ones((3,), ml_dtypes.bfloat16),
    "empty": np.zeros((0, 4), np.float64),
    "scalar": np.array(7, np.int64),
    "flags": np.array([True, False, True]),
}


@pytest.fixture
def path(tmp_path):
    safetensors.write(tmp_path / "a.safetensors", ARRAYS, {"note": "text"})
    return tmp_path / "a.safetensors"


def test_round_trip(path):
    found = safetensors.read(path)
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()
    assert safetensors.read_header(path).metadata == {"note": "text"}


def test_the_library_reads_it(path):
    from_library = pytest.importorskip("safetensors").safe_open(path, "numpy")
    assert set(from_library.keys()) == ARRAYS.keys()
    assert np.array_equal(from_library.get_tensor("float"), ARRAYS["float"])


def test_what_is_read_cannot_be_written(path):
    with pytest.raises(ValueError, match="read-only"):
        safetensors.read(path)["float"][0] = 1.0


def write_header(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
LIES = [
    ({"a": {**ENTRY, "shape": [3]}}, "takes 12 bytes, the entry has 8"),
    ({"a": {**ENTRY, "shape": [1 << 40, 1 << 40]}}, "takes"),
    ({"a": {**ENTRY, "shape": [-2]}}, "must be whole and not negative"),
    ({"a": {**ENTRY, "shape": [True]}}, "must be whole and not negative"),
    ({"a": {**ENTRY, "shape": [2.0]}}, "must be whole and not negative"),
    ({"a": {**ENTRY, "dtype": "F128"}}, "the entry is malformed"),
    ({"a": {"dtype": "F32"}}, "the entry is malformed"),
    ({"a": {**ENTRY, "data_offsets": [8, 16]}}, "leaves a hole"),
    ({"a": ENTRY, "b": {**ENTRY, "data_offsets": [4, 12]}}, "overlaps another"),
    ({"a": ENTRY, "b": {**ENTRY, "data_offsets": [8, 16]}}, "is truncated"),
    ({}, "bytes that belong to no tensor"),
    ([1], "not a table"),
    ({"__metadata__": {"a": 1}, "b": ENTRY}, "must map names to strings"),
    (b"{" * 50_000, "not valid JSON"),
    (b"[" * 50_000, "not valid JSON"),
    (b"\xff\xfe", "not valid JSON"),
    (b'{"a": 1, "a": 1}', "stands in it twice"),
]


@pytest.mark.parametrize(("header", "message"), LIES)
def test_lies(tmp_path, header, message):
    write_header(tmp_path / "a", header, bytes(8))
    with pytest.raises(CheckpointError, match=message):
        safetensors.read(tmp_path / "a")


def test_a_huge_header_is_not_believed(tmp_path):
    (tmp_path / "a").write_bytes((1 << 62).to_bytes(8, "little") + b"{}")
    with pytest.raises(CheckpointError, match="the header claims"):
        safetensors.read(tmp_path / "a")


def test_a_missing_file(tmp_path):
    with pytest.raises(CheckpointError, match="cannot open"):
        safetensors.read(tmp_path / "nothing")


def test_a_dtype_that_the_format_lacks(tmp_path):
    with pytest.raises(CheckpointError, match="complex128"):
        safetensors.write(tmp_path / "a", {"a": np.zeros(2, np.complex128)})
    assert list(tmp_path.iterdir()) == []
