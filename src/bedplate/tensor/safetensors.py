"""The safetensors file format, read and written in NumPy, with files treated as hostile.

A file is: 8 bytes, the length n of the header (little-endian); n bytes of JSON; the data.
The JSON maps each name to {"dtype", "shape", "data_offsets": [begin, end)}, offsets counted
from the end of the header, and "__metadata__" to a table of strings. A reader that believes
the header can be made to allocate or read anything; this one checks every claim first, and
maps the file instead of reading it. A writer that dies half-way must not leave half a file:
this one writes beside the target and renames.
"""

from __future__ import annotations

import json
import math
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from bedplate.errors import CheckpointError

HEADER_LIMIT_BYTES = 100_000_000  # as in the format's own reader
ALIGNMENT_BYTES = 8

NUMPY_DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "I8": np.dtype(np.int8),
    "I16": np.dtype(np.int16),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "U8": np.dtype(np.uint8),
    "U16": np.dtype(np.uint16),
    "U32": np.dtype(np.uint32),
    "U64": np.dtype(np.uint64),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "C64": np.dtype(np.complex64),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
}
NAMES = {dtype: name for name, dtype in NUMPY_DTYPES.items()}


@dataclass(frozen=True)
class Entry:
    """Where one tensor lies: bytes `begin` to `end` of the data behind the header."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """What a file says of itself, checked against its size."""

    entries: dict[str, Entry]
    metadata: dict[str, str]
    data_start: int


def _fail(path: Path, rule: str) -> CheckpointError:
    return CheckpointError(f"read: {rule}\n  file  {path}\n  copy or download the file again")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} stands in it twice")
    return table


def _header_text(path: Path, file: BinaryIO, size_bytes: int) -> tuple[bytes, int]:
    start = file.read(8)
    if len(start) < 8:
        raise _fail(path, f"the file is truncated: {size_bytes} bytes hold no safetensors header")
    length = int.from_bytes(start, "little")
    if length > HEADER_LIMIT_BYTES or 8 + length > size_bytes:
        raise _fail(
            path,
            f"the header claims {length} bytes, the file has {size_bytes}: "
            "it is truncated, or not a safetensors file",
        )
    return file.read(length), 8 + length


def _entry(path: Path, name: str, claim: Any) -> Entry:
    try:
        dtype = NUMPY_DTYPES[claim["dtype"]]
        shape = tuple(claim["shape"])
        begin, end = claim["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise _fail(path, f"{name}: the entry is malformed: {str(claim)[:200]}") from None
    numbers = (*shape, begin, end)
    if not all(type(n) is int and 0 <= n < 1 << 62 for n in numbers):
        raise _fail(path, f"{name}: sizes and offsets must be whole and not negative: {numbers}")
    wanted = math.prod(shape) * dtype.itemsize
    if end - begin != wanted:
        raise _fail(
            path, f"{name}: {shape} of {dtype} takes {wanted} bytes, the entry has {end - begin}"
        )
    return Entry(dtype, shape, begin, end)


def _check_cover(path: Path, entries: dict[str, Entry], data_bytes: int) -> None:
    """The entries must cover the data without hole or overlap."""
    position = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != position:
            kind = "overlaps another" if entry.begin < position else "leaves a hole before it"
            raise _fail(path, f"{name}: its bytes {entry.begin} to {entry.end}: {kind}")
        position = entry.end
    if position != data_bytes:
        kind = "is truncated" if position > data_bytes else "has bytes that belong to no tensor"
        raise _fail(path, f"the file {kind}: {data_bytes} data bytes, {position} are claimed")


def _metadata(path: Path, table: Any) -> dict[str, str]:
    if not isinstance(table, dict) or not all(isinstance(v, str) for v in table.values()):
        raise _fail(path, "__metadata__ must map names to strings")
    return table


def read_header(path: str | os.PathLike[str]) -> Header:
    """Read and check what the file says of itself, without touching the data.

    raises CheckpointError if the file is truncated, lies about its sizes, or is no such file
    """
    path = Path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would wait for its writer
            raise CheckpointError(f"read: {path} is no regular file\n  give a safetensors file")
        with path.open("rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            text, data_start = _header_text(path, file, size_bytes)
    except OSError as error:
        raise CheckpointError(f"read: cannot open {path}: {error.strerror or error}") from None
    try:
        claims = json.loads(text.decode("utf-8"), object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise _fail(path, f"the header is not valid JSON: {error}") from None
    if not isinstance(claims, dict):
        raise _fail(path, "the header is not a table of names")
    metadata = _metadata(path, claims.pop("__metadata__", {}))
    entries = {name: _entry(path, name, claim) for name, claim in claims.items()}
    _check_cover(path, entries, size_bytes - data_start)
    return Header(entries, metadata, data_start)


def read(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Every tensor of a file by name, as read-only views of the mapped file.

    returns  name -> array; nothing is read from disk before it is touched
    raises   CheckpointError as `read_header` does
    """
    header = read_header(path)
    data = _map(Path(path), header)
    return {
        name: data[entry.begin : entry.end].view(entry.dtype).reshape(entry.shape)
        for name, entry in header.entries.items()
    }


def _map(path: Path, header: Header) -> np.ndarray:
    if not any(entry.end > entry.begin for entry in header.entries.values()):
        return np.empty(0, np.uint8)  # an empty range cannot be mapped
    return np.asarray(np.memmap(path, np.uint8, "r", offset=header.data_start))


def write(
    path: str | os.PathLike[str],
    arrays: Mapping[str, np.ndarray],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write arrays by name, atomically: a crash leaves the old file or the new one.

    raises  CheckpointError for a dtype that the format does not have
    """
    # widest elements first keeps every tensor aligned to its own element size
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    claims: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    position = 0
    for name in order:
        array = arrays[name]
        if array.dtype not in NAMES:
            raise CheckpointError(f"save: {name} is {array.dtype}, which safetensors cannot hold")
        offsets = [position, position + array.nbytes]
        claims[name] = {
            "dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": offsets
        }  # fmt: skip
        position += array.nbytes
    text = json.dumps(claims, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT_BYTES)
    chunks = [len(text).to_bytes(8, "little"), text]
    write_atomically(path, [*chunks, *(_bytes_of(arrays[name]) for name in order)])


def _bytes_of(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def write_atomically(path: str | os.PathLike[str], chunks: list[Any]) -> None:
    """Write bytes beside `path`, flush them to the disk, then rename over it."""
    path = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
