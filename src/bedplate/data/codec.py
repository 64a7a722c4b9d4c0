"""Codecs: text to token ids and back, and a decoder for ids that arrive one at a time.

Encoding normalises nothing: what is decoded is what was encoded. The name of a special token
in a user's text is text, unless the caller says that it may be special. A character whose
bytes come in several tokens is held back until it is whole.
"""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tokenizers import Tokenizer

from bedplate.errors import CheckpointError, DataError
from bedplate.tensor.atomic import read_text

REPLACEMENT = "�"


class TextCodec(Protocol):
    """What a corpus, generation and the command line need of a tokenizer."""

    vocab_size: int
    end_token_id: int | None

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]: ...
    def encode_bytes(self, text: bytes) -> np.ndarray: ...
    def decode(self, ids: Iterable[int]) -> str: ...
    def stream(self) -> StreamDecoder: ...


class StreamDecoder(Protocol):
    """Ids in, text out; the pieces joined are what `decode` gives for all ids."""

    def push(self, token_id: int) -> str: ...
    def finish(self) -> str: ...


def _checked(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"encode: character {error.start} of the text is a lone surrogate "
            f"(U+{ord(text[error.start]):04X}), which is no character\n"
            "  read the text as UTF-8, or replace what does not decode"
        ) from None
    return text


class ByteCodec:
    """Bytes of UTF-8 as tokens 0 to 255; the byte 0, which no text has, ends a text.

    >>> ByteCodec().decode(ByteCodec().encode("Grüße"))
    'Grüße'
    """

    vocab_size = 256
    end_token_id: int | None = 0

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        return list(_checked(text).encode("utf-8"))

    def encode_bytes(self, text: bytes) -> np.ndarray:
        return np.frombuffer(text, np.uint8)

    def decode(self, ids: Iterable[int]) -> str:
        return b"".join(self.bytes_of(i) for i in ids).decode("utf-8", "replace")

    def stream(self) -> StreamDecoder:
        return ByteStreamDecoder(self)

    def bytes_of(self, token_id: int) -> bytes:
        """The bytes of one token; none for the end and for ids beyond the bytes."""
        return bytes((token_id,)) if 0 < token_id < 256 else b""


class ByteLevelSource(Protocol):
    """A codec each of whose tokens stands for certain bytes."""

    def bytes_of(self, token_id: int) -> bytes: ...


class ByteStreamDecoder:
    """Decodes tokens that stand for bytes; holds back an unfinished character."""

    def __init__(self, codec: ByteLevelSource) -> None:
        self._codec = codec
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        return self._decoder.decode(self._codec.bytes_of(token_id))

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


class TokenizerCodec:
    """A `tokenizer.json` of the tokenizers library.

    path             the file, or a folder that has one
    end_token_id     the token that ends a text, if any
    raises           CheckpointError if it cannot be read
    """

    def __init__(self, path: str | os.PathLike[str], end_token_id: int | None = None) -> None:
        path = Path(path)
        path = path / "tokenizer.json" if path.is_dir() else path
        try:
            self._tokenizer = Tokenizer.from_str(read_text(path))
        except Exception as error:  # the library raises bare Exception
            raise CheckpointError(f"tokenizer: cannot read {path}: {error}") from None
        self.vocab_size: int = self._tokenizer.get_vocab_size(with_added_tokens=True)
        self.end_token_id = end_token_id
        added = self._tokenizer.get_added_tokens_decoder()
        self._special = frozenset(i for i, token in added.items() if token.special)
        self._added = {i: token.content for i, token in added.items()}
        self._bytes = _byte_table(self._tokenizer)

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        """Token ids of a text; special tokens' names in it are text unless allowed."""
        self._tokenizer.encode_special_tokens = not allow_special
        return self._tokenizer.encode(_checked(text), add_special_tokens=False).ids

    def encode_bytes(self, text: bytes) -> np.ndarray:
        return np.array(self.encode(text.decode("utf-8", "replace")), np.uint32)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids, without special tokens."""
        kept = [i for i in ids if i not in self._special]
        if self._bytes is not None:
            return b"".join(self.bytes_of(i) for i in kept).decode("utf-8", "replace")
        return self._tokenizer.decode(kept, skip_special_tokens=True)

    def stream(self) -> StreamDecoder:
        return ByteStreamDecoder(self) if self._bytes is not None else TextStreamDecoder(self)

    def bytes_of(self, token_id: int) -> bytes:
        """The bytes of one token of a byte-level tokenizer; none for a special token."""
        if token_id in self._special:
            return b""
        if token_id in self._added:
            return self._added[token_id].encode("utf-8")
        token = self._tokenizer.id_to_token(token_id)
        if token is None or self._bytes is None:
            return b""
        return bytes(self._bytes[character] for character in token)


def _byte_table(tokenizer: Any) -> dict[str, int] | None:
    """Character -> byte of a byte-level tokenizer's alphabet; None for another kind."""
    if type(tokenizer.decoder).__name__ != "ByteLevel":
        return None
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    # GPT-2's alphabet: printable Latin-1 stands for itself, the rest for 256, 257, ...
    table = {chr(byte): byte for byte in printable}
    return table | {chr(256 + i): byte for i, byte in enumerate(others)}


class TextStreamDecoder:
    """Decodes tokens of any kind; holds back text that the next token may still change."""

    def __init__(self, codec: TextCodec) -> None:
        self._codec = codec
        self._ids: list[int] = []
        self._start = 0  # decoding starts here: one piece before what is new, for its context
        self._given = 0

    def push(self, token_id: int) -> str:
        self._ids.append(token_id)
        before = self._codec.decode(self._ids[self._start : self._given])
        text = self._codec.decode(self._ids[self._start :])
        if text.endswith(REPLACEMENT) or len(text) <= len(before):
            return ""
        self._start, self._given = self._given, len(self._ids)
        return text[len(before) :]

    def finish(self) -> str:
        before = self._codec.decode(self._ids[self._start : self._given])
        return self._codec.decode(self._ids[self._start :])[len(before) :]


def load_codec(folder: str | os.PathLike[str]) -> TextCodec:
    """The codec of a checkpoint: its `tokenizer.json`, or bytes if it has none.

    raises  CheckpointError if there is neither a tokenizer nor a vocabulary of bytes
    """
    folder = Path(folder)
    try:
        table = json.loads(read_text(folder / "config.json"))
        vocab_size, end = table.get("vocab_size"), table.get("eos_token_id")
    except (OSError, ValueError, AttributeError):
        raise CheckpointError(f"tokenizer: {folder} has no readable config.json") from None
    if (folder / "tokenizer.json").exists():
        return TokenizerCodec(folder, end[0] if isinstance(end, list) else end)
    if vocab_size != ByteCodec.vocab_size:
        raise CheckpointError(
            f"tokenizer: {folder} has no tokenizer.json, and its vocabulary of {vocab_size} is not "
            f"that of bytes ({ByteCodec.vocab_size})\n  copy tokenizer.json beside config.json"
        )
    return ByteCodec()
