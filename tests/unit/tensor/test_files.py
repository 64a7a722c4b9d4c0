"""Tensors in files: there and back, and files that lie."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

import bedplate as bp
from bedplate.tensor import files


def tensors() -> dict[str, bp.Tensor]:
    return {
        "a": bp.tensor([[1.0, 2.0], [3.0, 4.0]]),
        "b.c": bp.tensor([1, 2, 3]),
        "empty": bp.zeros((0, 3)),
        "one": bp.tensor(True),
    }


@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_tables(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    bp.save(tensors(), path)
    found = bp.load(path)
    assert found.keys() == tensors().keys()
    for name, tensor in tensors().items():
        assert found[name].tolist() == tensor.tolist()
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)


@pytest.mark.parametrize("name", list(tensors()))
def test_single(tmp_path: Path, name: str) -> None:
    tensor = tensors()[name]
    bp.save(tensor, tmp_path / "x.npy")
    found = bp.load(tmp_path / "x.npy")
    assert (found.tolist(), found.dtype) == (tensor.tolist(), tensor.dtype)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), tensor.numpy())


def test_what_numpy_writes(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.save(tmp_path / "f.npy", array)
    np.testing.assert_array_equal(bp.load(tmp_path / "f.npy").numpy(), array)
    np.save(tmp_path / "big.npy", array.astype(">i4"))
    assert bp.load(tmp_path / "big.npy").dtype is bp.int32
    np.savez_compressed(tmp_path / "z.npz", x=np.zeros(10000))
    assert bp.load(tmp_path / "z.npz")["x"].shape == (10000,)


def test_bfloat16(tmp_path: Path) -> None:
    x = bp.tensor([1.5, -2.0], dtype=bp.bfloat16)
    bp.save({"x": x}, tmp_path / "x.safetensors")
    assert bp.load(tmp_path / "x.safetensors")["x"].dtype is bp.bfloat16
    with pytest.raises(bp.errors.DTypeError, match=r"cannot hold bfloat16; use \.safetensors"):
        bp.save(x, tmp_path / "x.npy")


def test_wrong_calls(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in one of \.safetensors, \.npy, \.npz"):
        bp.save(tensors(), tmp_path / "x.pt")
    with pytest.raises(TypeError, match="holds a table of tensors"):
        bp.save(bp.ones(1), tmp_path / "x.npz")
    with pytest.raises(TypeError, match="holds one tensor"):
        bp.save(tensors(), tmp_path / "x.npy")
    with pytest.raises(TypeError, match="maps names to tensors, got 3: Tensor"):
        bp.save({3: bp.ones(1)}, tmp_path / "x.npz")
    with pytest.raises(TypeError, match="maps names to tensors, got 'x': list"):
        bp.save({"x": [1.0]}, tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match=r"a \.npz file holds no metadata"):
        bp.save({"x": bp.ones(1)}, tmp_path / "x.npz", {"a": "b"})
    with pytest.raises(FileNotFoundError, match=r"absent\.npy"):
        bp.load(tmp_path / "absent.npy")


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    bp.save({"x": bp.ones(1)}, path)
    with pytest.raises(bp.errors.DTypeError, match="cannot hold bfloat16"):
        bp.save({"x": bp.zeros(1), "y": bp.ones(1, dtype=bp.bfloat16)}, path)
    assert bp.load(path)["x"].item() == 1.0
    assert [file.name for file in tmp_path.iterdir()] == ["x.npz"]


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def npy_header(text: str) -> bytes:
    raw = (text + "\n").encode()
    return b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw


HOSTILE = {
    "empty": b"",
    "not npy": b"hello, this is no array at all",
    "cut off": npy(np.arange(100))[:-8],
    "too long": npy(np.arange(3)) + b"more",
    "objects": npy(np.array([{}], dtype=object)),
    "huge": npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"),
    "negative": npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }"),
    "code": npy_header("__import__('os').getcwd()"),
    "strings": npy(np.array(["a", "b"])),
    "records": npy(np.zeros(2, [("a", "<f4"), ("b", "<i4")])),
    "old name": npy_header("{'descr': 'a5', 'fortran_order': False, 'shape': (1,), }"),
    "two fields": npy_header("{'descr': 'f4,f4', 'fortran_order': False, 'shape': (1,), }"),
    "long double": npy_header("{'descr': '<f16', 'fortran_order': False, 'shape': (0,), }"),
    "deep": npy_header("(" * 20000),
    "two minuses": npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1), }")
    + bytes(8),
    "version 9": b"\x93NUMPY\x09\x00" + bytes(100),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_npy(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(bp.errors.CheckpointError, match=r"load: (.|\n)*x\.npy"):
        bp.load(path)


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_member_of_npz(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", HOSTILE[name])
    with pytest.raises(bp.errors.CheckpointError, match="load: "):
        bp.load(path)


def test_hostile_npz(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(b"PK\x03\x04 nonsense")
    with pytest.raises(bp.errors.CheckpointError, match="load: "):
        bp.load(path)
    bp.save({"x": bp.ones(1000)}, path)
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)
    with pytest.raises(bp.errors.CheckpointError, match="CRC"):
        bp.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(bp.errors.CheckpointError, match=r"no \.npy file"):
        bp.load(path)


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors"])
def test_random_damage_is_refused_or_harmless(tmp_path: Path, ending: str) -> None:
    generator = np.random.default_rng(5)
    path = tmp_path / f"x.{ending}"
    bp.save(bp.arange(6) if ending == "npy" else tensors(), path)
    whole = path.read_bytes()
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        for place in generator.integers(0, len(whole), generator.integers(1, 4)):
            damaged[place] = generator.integers(0, 256)
        path.write_bytes(damaged[: generator.integers(1, 2 * len(whole))])
        try:
            bp.load(path)
        except bp.errors.CheckpointError:
            refused += 1
    assert refused > 75


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.zeros(1_000_000))
    assert bp.load(path)["x"].shape == (1_000_000,)
    monkeypatch.setattr(files, "machine_bytes", lambda: 1_000_000)
    with pytest.raises(bp.errors.CheckpointError, match=r"claims 7\.6 MiB, more than this machine"):
        bp.load(path)
    monkeypatch.undo()
    monkeypatch.setattr(files, "LARGEST_RATIO", 100)
    with pytest.raises(bp.errors.CheckpointError, match="cannot hold the 8000128 that it claims"):
        bp.load(path)


def test_equal_tensors_make_equal_files(tmp_path: Path) -> None:
    for ending in ("npz", "safetensors"):
        for name in "ab":
            bp.save(tensors(), tmp_path / f"{name}.{ending}")
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_what_is_written_numpy_reads(tmp_path: Path) -> None:
    bp.save({**tensors(), "turned": bp.arange(6).reshape(2, 3).T}, tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz", allow_pickle=False) as found:
        assert found["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]
        assert found["one"].dtype == np.bool_
