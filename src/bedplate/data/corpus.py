"""Corpus: text files as one array of tokens to train on and one that is held out.

Files are taken in sorted order, so the same folder gives the same arrays. One file in twenty
is held out; of a single file, the last twentieth. Between files stands the codec's end token.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bedplate.data.codec import ByteCodec, TextCodec
from bedplate.errors import DataError

HELD_OUT_ONE_IN = 20
_SUFFIXES = """
.c .cfg .cpp .css .go .h .html .ini .java .js .json .md .py .rs .rst .sh .sql .tex .toml .ts .txt
.xml .yaml .yml
"""
TEXT_SUFFIXES = frozenset(_SUFFIXES.split())


@dataclass(frozen=True)
class Corpus:
    """Tokens to train on, tokens that are held out, and how many bytes of text those are.

    train, held_out    (n,) uint8, uint16 or uint32
    held_out_bytes     so that a loss per token can be told as a loss per byte
    """

    train: np.ndarray
    held_out: np.ndarray
    held_out_bytes: int
    n_files: int

    @property
    def bytes_per_token(self) -> float:
        return self.held_out_bytes / max(1, len(self.held_out))


def standard_library() -> list[Path]:
    """The Python sources of the running interpreter's standard library, sorted."""
    root = Path(sysconfig.get_paths()["stdlib"])
    return _walk(root, frozenset({".py"}), skip=frozenset({"site-packages", "dist-packages"}))


def text_files(path: str | os.PathLike[str]) -> list[Path]:
    """A file as it is, or the text files below a folder, sorted; hidden ones are left out.

    raises  DataError if there is none
    """
    path = Path(path)
    files = [path] if path.is_file() else _walk(path, TEXT_SUFFIXES, skip=frozenset())
    if not files:
        raise DataError(
            f"data: no text files at {path}\n"
            f"  give a file, or a folder with files that end in {', '.join(sorted(TEXT_SUFFIXES))}"
        )
    return files


def _walk(root: Path, suffixes: frozenset[str], skip: frozenset[str]) -> list[Path]:
    found: list[Path] = []
    for folder, names, files in os.walk(root):
        names[:] = [n for n in names if n not in skip and n[0] != "." and n != "__pycache__"]
        found += [Path(folder, f) for f in files if Path(f).suffix in suffixes and f[0] != "."]
    return sorted(found, key=lambda path: path.relative_to(root).as_posix())


def load_corpus(
    path: str | os.PathLike[str] | None = None, codec: TextCodec | None = None
) -> Corpus:
    """Read a corpus.

    path    a file, a folder, or None for the standard library's sources
    codec   text to tokens; bytes unless given
    raises  DataError if there is nothing to read
    """
    codec = codec or ByteCodec()
    files = standard_library() if path is None else text_files(path)
    texts = [file.read_bytes() for file in files]
    if len(texts) < HELD_OUT_ONE_IN:
        train, held_out = _split_bytes(texts)
    else:
        train = [t for i, t in enumerate(texts) if i % HELD_OUT_ONE_IN != HELD_OUT_ONE_IN - 1]
        held_out = texts[HELD_OUT_ONE_IN - 1 :: HELD_OUT_ONE_IN]
    held_out_bytes = sum(len(text) + 1 for text in held_out)
    return Corpus(_join(train, codec), _join(held_out, codec), held_out_bytes, len(files))


def _split_bytes(texts: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Hold out the last twentieth of each text, cut at the end of a line where there is one."""
    train, held_out = [], []
    for text in texts:
        cut = len(text) - len(text) // HELD_OUT_ONE_IN
        cut = text.rfind(b"\n", 0, cut) + 1 or cut
        train.append(text[:cut])
        held_out.append(text[cut:])
    return train, held_out


def _join(texts: Iterable[bytes], codec: TextCodec) -> np.ndarray:
    end = [] if codec.end_token_id is None else [codec.end_token_id]
    dtype = np.dtype(np.uint32)
    if codec.vocab_size <= 1 << 16:
        dtype = np.dtype(np.uint8 if codec.vocab_size <= 1 << 8 else np.uint16)
    pieces: list[np.ndarray] = []
    for text in texts:
        pieces += [codec.encode_bytes(text).astype(dtype), np.array(end, dtype)]
    return np.concatenate(pieces) if pieces else np.empty(0, dtype)
