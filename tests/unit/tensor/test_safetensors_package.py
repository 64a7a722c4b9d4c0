"""Our safetensors files against the package that defines the format, both ways."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from bedplate.tensor import safetensors as ours

ARRAYS = {
    "weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "half": np.arange(5, dtype=np.float16),
    "count": np.array(7, np.int64),
    "mask": np.array([True, False]),
    "empty": np.zeros((0, 3), np.float64),
    "bytes": np.arange(256, dtype=np.uint8),
}


def equal(found: dict[str, np.ndarray]) -> None:
    assert set(found) == set(ARRAYS)
    for name, expected in ARRAYS.items():
        assert found[name].dtype == expected.dtype, name
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


def test_the_package_reads_what_we_write(tmp_path: Path) -> None:
    ours.write(tmp_path / "a.safetensors", ARRAYS)
    equal(safetensors.numpy.load_file(tmp_path / "a.safetensors"))


def test_we_read_what_the_package_writes(tmp_path: Path) -> None:
    safetensors.numpy.save_file(ARRAYS, tmp_path / "a.safetensors", {"format": "np"})
    equal(dict(ours.read(tmp_path / "a.safetensors")))


@pytest.mark.parametrize("bits", [0x3F80, 0x7F80, 0x8000, 0x0001])
def test_bfloat16_goes_both_ways(tmp_path: Path, bits: int) -> None:
    array = np.array([bits], np.uint16).view(ml_dtypes.bfloat16)
    ours.write(tmp_path / "a.safetensors", {"x": array})
    found = safetensors.numpy.load_file(tmp_path / "a.safetensors")["x"]
    assert found.dtype == array.dtype
    assert found.view(np.uint16).tolist() == [bits]
