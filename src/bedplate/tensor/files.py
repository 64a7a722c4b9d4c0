"""`save` and `load`: tensors in files, by the ending of the name.

| ending         | holds                   | written                                      |
|----------------|-------------------------|----------------------------------------------|
| `.safetensors` | tensors by name         | every dtype                                  |
| `.npz`         | tensors by name         | NumPy's dtypes, not compressed               |
| `.npy`         | one tensor              | NumPy's dtypes                               |

Files are hostile: nothing is unpickled, every size is checked against the file before memory
is asked for, and what is wrong is a `CheckpointError` that names the file. Writing is atomic:
a crash leaves the old file or the new one.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bedplate.dtypes import as_dtype
from bedplate.errors import CheckpointError, DTypeError
from bedplate.later import Later
from bedplate.memory import readable
from bedplate.memory.mapping import machine_bytes
from bedplate.tensor.atomic import PathLike, replacing, require_regular
from bedplate.tensor.tensor import Tensor

safetensors: Any = Later("bedplate.tensor.safetensors")
zipfile: Any = Later("zipfile")
zlib: Any = Later("zlib")
ENDINGS = (".safetensors", ".npy", ".npz")
# a compressed archive may not claim more than this: deflate reaches 1032 to 1
LARGEST_RATIO = 1032
# of the .npy format: bytes of the header's length, by version; NumPy writes headers of 128 bytes
LENGTH_BYTES = {(1, 0): 2, (2, 0): 4}
LARGEST_HEADER = 1 << 16
PLAIN_DTYPE = re.compile(r"[<>|=]?[biufc]\d{1,2}")


def save(tensors: Any, path: PathLike, metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors to a file, in the format that its ending names.

    tensors   a table from names to tensors, or one tensor for `.npy`
    path      ends in .safetensors, .npz or .npy
    metadata  a table of strings, for .safetensors
    raises    ValueError for another ending; TypeError for what is no tensor; DTypeError for
              bfloat16 in NumPy's formats, CheckpointError for complex128 in .safetensors
    >>> import bedplate as bp, tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     bp.save({"w": bp.ones(2)}, os.path.join(folder, "a.safetensors"))
    ...     bp.load(os.path.join(folder, "a.safetensors"))["w"].tolist()
    [1.0, 1.0]
    """
    if isinstance(tensors, str | os.PathLike) and not isinstance(path, str | os.PathLike):
        tensors, path = path, tensors
    ending = _ending(path)
    if metadata is not None and ending != ".safetensors":
        raise ValueError(f"save: a {ending} file holds no metadata; use .safetensors")
    if ending == ".npy":
        if not isinstance(tensors, Tensor):
            raise TypeError(f"save: a .npy file holds one tensor, got {type(tensors).__name__}")
        array = _for_numpy(tensors)
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.lib.format.write_array(file, array, allow_pickle=False)
        return
    arrays = _arrays(tensors, ending)
    if ending == ".safetensors":
        safetensors.write(path, arrays, metadata)
    else:
        _write_npz(path, arrays)


def _arrays(tensors: Any, ending: str) -> dict[str, np.ndarray[Any, Any]]:
    """The values of a table of tensors."""
    if not isinstance(tensors, Mapping):
        raise TypeError(
            f"save: a {ending} file holds a table of tensors, got {type(tensors).__name__}"
        )
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            found = f"{name!r}: {type(tensor).__name__}"
            raise TypeError(f"save: the table maps names to tensors, got {found}")
    shown = _for_numpy if ending == ".npz" else (lambda tensor: tensor.numpy(copy=False))
    return {name: shown(tensor) for name, tensor in tensors.items()}


class TensorFile(Mapping[str, Tensor]):
    """The tensors of a safetensors file, each read anew when it is asked for: see `load`.

    metadata   the file's table of strings
    """

    def __init__(self, path: PathLike, device: Any = None) -> None:
        self._file = safetensors.File(path)
        self._device = device
        self.metadata = self._file.metadata

    def __getitem__(self, name: str) -> Tensor:
        return Tensor(self._file[name], self._device)

    def __iter__(self) -> Iterator[str]:
        return iter(self._file)

    def __len__(self) -> int:
        return len(self._file)

    def __repr__(self) -> str:
        first = itertools.islice(self._file.stored.items(), 5)
        shown = (f"{name}: {stored.dtype} {stored.shape}" for name, stored in first)
        more = ", ..." if len(self) > 5 else ""
        return f"<{len(self)} tensors of {self._file.path}: {', '.join(shown)}{more}>"


def load(path: PathLike, device: Any = None, lazy: bool = False) -> Any:
    """The tensors of a file: a table from names to tensors, or one tensor for `.npy`.

    device   where the tensors are put
    lazy     a `.safetensors` file as a mapping that reads a tensor when it is asked for it, and
             has the file's `metadata`
    raises   FileNotFoundError; CheckpointError for a file that is damaged, incomplete or lies,
             and for what is no regular file; ValueError for another ending
    path     ends in .safetensors, .npz or .npy
    >>> import bedplate as bp, tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.safetensors")
    ...     bp.save({"w": bp.ones(2), "b": bp.zeros(1)}, path, {"step": "7"})
    ...     file = bp.load(path, lazy=True)
    ...     file.metadata, sorted(file), file["w"].tolist()
    ({'step': '7'}, ['b', 'w'], [1.0, 1.0])
    """
    place = Path(path)
    ending = _ending(place)
    require_regular(place)
    if ending == ".safetensors":
        table = TensorFile(place, device)
        return table if lazy else dict(table)
    if lazy:
        raise ValueError(f"load: a {ending} file is read whole; lazy=True is for .safetensors")
    with place.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            if ending == ".npy":
                return Tensor(_read_npy(file, size), device)
            arrays = _read_npz(file, size)
        except (ValueError, EOFError, OSError, KeyError, RuntimeError, TypeError,
                zipfile.BadZipFile, zlib.error, DTypeError) as error:  # fmt: skip
            raise CheckpointError(
                f"load: {error or 'the file is damaged'}\n  file  {place}\n"
                "  copy or download the file again"
            ) from None
    return {name: Tensor(array, device) for name, array in arrays.items()}


def _ending(path: PathLike) -> str:
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"the name {os.fspath(path)!r} must end in one of {', '.join(ENDINGS)}")
    return ending


def _for_numpy(tensor: Tensor) -> np.ndarray[Any, Any]:
    if tensor.dtype.name == "bfloat16":
        raise DTypeError(
            f"save: NumPy's file formats cannot hold {tensor.dtype}; "
            "use .safetensors, or convert it with .astype(bp.float32)"
        )
    return tensor.numpy(copy=False)


def _write_npz(path: PathLike, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in arrays.items():
            # a fixed date: equal tensors make equal files
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _read_npy(file: Any, size_bytes: int) -> np.ndarray[Any, Any]:
    """One array, after its header was checked against the bytes that there are."""
    shape, fortran, dtype = _npy_header(file)
    wanted = dtype.itemsize
    for length in shape:
        wanted *= length
    left = size_bytes - file.tell()
    if wanted != left:
        raise ValueError(f"shape {shape} of {dtype} takes {wanted} bytes, but there are {left}")
    array = np.frombuffer(file.read(wanted), dtype)
    return array.reshape(shape, order="F" if fortran else "C")


def _npy_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and dtype: a literal, read as nothing else.

    source   https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
    """
    magic, version = file.read(6), tuple(file.read(2))
    if magic != b"\x93NUMPY":
        raise ValueError("the file is no .npy file")
    if version not in LENGTH_BYTES:
        raise ValueError(f"version {version} of the .npy format is not supported")
    length = int.from_bytes(file.read(LENGTH_BYTES[version]), "little")
    if length > LARGEST_HEADER:
        raise ValueError(f"a header of {length} bytes is too long")
    try:
        header = ast.literal_eval(file.read(length).decode("latin1").strip())
        shape, fortran, text = header["shape"], header["fortran_order"], header["descr"]
        if len(header) != 3 or not isinstance(text, str) or not isinstance(fortran, bool):
            raise ValueError
        if not all(type(size) is int and size >= 0 for size in tuple(shape)):
            raise ValueError
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError):
        raise ValueError("the header is damaged") from None
    if "O" in text:
        raise ValueError("the file holds Python objects, which are never loaded")
    if not PLAIN_DTYPE.fullmatch(text):
        raise ValueError(f"it holds {text[:40]!r}, which is no number")
    dtype = np.dtype(text)
    as_dtype(dtype.newbyteorder("="))
    return tuple(shape), fortran, dtype


def _read_npz(file: BinaryIO, size_bytes: int) -> dict[str, np.ndarray[Any, Any]]:
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        claimed = sum(member.file_size for member in members)
        if claimed > LARGEST_RATIO * size_bytes:
            raise ValueError(f"{size_bytes} bytes cannot hold the {claimed} that it claims")
        if claimed > machine_bytes():
            raise ValueError(f"it claims {readable(claimed)}, more than this machine has")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name == member.filename:
                raise ValueError(f"the member {member.filename!r} is no .npy file")
            if name in arrays:
                raise ValueError(f"the name {name!r} stands in it twice")
            with archive.open(member) as part:
                arrays[name] = _read_npy(part, member.file_size)
    return arrays
