"""Safetensors files, by the package that defines the format, with files treated as hostile.

A file is: 8 bytes, the length n of the header (little-endian); n bytes of JSON; the data. The
package checks every size and offset of the header against the file before it reads or allocates.
What it lets pass is refused here: names that stand twice, dtypes and shapes that no tensor has,
and what is no regular file. Data are read when they are asked for, by `pread` and not by mapping
the file: a file that is cut short meanwhile is then an error and not a signal.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from bedplate.dtypes import ALL, DType
from bedplate.errors import CheckpointError
from bedplate.tensor.atomic import PathLike, replacing, require_regular

ADVICE = "copy or download the file again"
MOST_AXES = 64  # of a NumPy array
# what the package says -> what that means for whoever has the file
MEANINGS = {
    "not fully covered": "the file is truncated, or has bytes that belong to no tensor",
    "header too small": "the file is truncated: it holds no safetensors header",
    "header too large": "the file is no safetensors file",
    "invalid header length": "the file is truncated, or no safetensors file",
    "invalid offset": "a tensor overlaps another, or leaves a hole before it",
    "invalid shape": "a tensor's shape and dtype take other bytes than the header gives it",
    "failed to fill": "the file was cut short since it was opened",
}
# the format's names of dtypes, as far as tensors have them: I64, BF16, C64, ...
CODES = {"bool": "BOOL", "bfloat16": "BF16", "complex64": "C64"} | {
    dtype.name: f"{dtype.kind.upper()}{8 * dtype.itemsize}"
    for dtype in ALL
    if dtype.kind in "iuf" and dtype.name != "bfloat16"
}
DTYPES: dict[str, DType] = {CODES[dtype.name]: dtype for dtype in ALL if dtype.name in CODES}


@dataclass(frozen=True)
class Stored:
    """One tensor of a file: what the header says of it, and a way to read it.

    shape, dtype   known without reading
    """

    file: File
    name: str
    shape: tuple[int, ...]
    dtype: DType

    @property
    def nbytes(self) -> int:
        """Bytes of its values."""
        return math.prod(self.shape) * self.dtype.itemsize

    def read(self) -> np.ndarray[Any, Any]:
        """The values, in memory of their own.

        raises  CheckpointError if the file was cut short or removed since it was opened
        """
        return self.file[self.name]


class File(Mapping[str, np.ndarray[Any, Any]]):
    """The tensors of a file by name, each read when it is asked for.

    path     of a safetensors file; the header is read and checked at once
    raises   CheckpointError if it is truncated, lies about its sizes, or is no such file
    >>> import bedplate as bp, tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.safetensors")
    ...     bp.save({"w": bp.ones(2)}, path, {"note": "text"})
    ...     file = File(path)
    ...     list(file), file.stored["w"].shape, file.metadata, file["w"].tolist()
    (['w'], (2,), {'note': 'text'}, [1.0, 1.0])
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        try:
            size_bytes = require_regular(path)
        except FileNotFoundError as error:
            raise CheckpointError(f"load: cannot open {path}: {error.strerror}") from None
        with self._refusing():
            self._handle = safe_open(os.fspath(self.path), "numpy", backend="pread")
            self.metadata: dict[str, str] = dict(self._handle.metadata() or {})
            self._check_names(size_bytes)
            names = self._handle.keys()
            self.stored = {name: self._stored(name) for name in names}

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        if name not in self.stored:
            raise KeyError(name)
        with self._refusing():
            return self._handle.get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    def _refusing(self) -> _Refusing:
        return _Refusing(self.path)

    def _stored(self, name: str) -> Stored:
        part = self._handle.get_slice(name)
        code, shape = part.get_dtype(), tuple(part.get_shape())
        if code not in DTYPES:
            raise ValueError(f"{name} is {code}, which no tensor holds")
        stored = Stored(self, name, shape, DTYPES[code])
        if len(shape) > MOST_AXES or math.prod(n for n in shape if n) >= 1 << 60:
            raise ValueError(f"{name}: no tensor has the shape {str(shape)[:100]}")
        return stored

    def _check_names(self, size_bytes: int) -> None:
        """The package takes the last of two entries with one name; no honest writer makes two."""
        with self.path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            text = file.read(min(length, size_bytes))
        json.loads(text, object_pairs_hook=_refuse_duplicates)


class _Refusing:
    """Turns whatever goes wrong with a file into a CheckpointError that names it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, SafetensorError | OSError | ValueError | RecursionError):
            rule = str(error).removeprefix("Error while deserializing header: ")
            meant = next((text for words, text in MEANINGS.items() if words in rule), None)
            rule = rule if meant is None else f"{meant} ({rule})"
            raise CheckpointError(f"load: {rule}\n  file  {self.path}\n  {ADVICE}") from None


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise ValueError(f"the name {name!r} stands in the header twice")
        seen.add(name)


def write(
    path: PathLike,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write arrays by name, atomically: a crash leaves the old file or the new one.

    raises  CheckpointError for a dtype that the format does not have, or the name "__metadata__";
            TypeError for names or metadata that are no strings; OSError
    """
    for name, array in arrays.items():
        if array.dtype.name not in CODES:
            raise CheckpointError(f"save: {name} is {array.dtype}, which safetensors cannot hold")
    if "__metadata__" in arrays:
        raise CheckpointError("save: the format keeps the name __metadata__ for itself")
    words = [*arrays, *(word for pair in (metadata or {}).items() for word in pair)]
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"save: names and metadata are strings, got {word!r}")
    # the package reads the memory of each array as it lies
    ordered = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with replacing(path) as temporary:
        try:
            save_file(ordered, temporary, dict(metadata) if metadata else None)
        except SafetensorError as error:
            raise OSError(f"save: {path}: {error}") from None
