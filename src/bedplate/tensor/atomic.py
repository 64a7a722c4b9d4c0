"""Files on a disk that others use too: what may be opened, and how content is replaced whole."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bedplate.errors import CheckpointError
from bedplate.later import Later

secrets: Any = Later("secrets")
PathLike = str | os.PathLike[str]
LARGEST_TEXT = 1 << 26  # bytes; the largest published tokenizers take 1 << 25


@contextmanager
def replacing(path: PathLike) -> Iterator[Path]:
    """A temporary name beside `path`; the file that is written there takes its place.

    It is on the disk before it is renamed, and so is the new name before this ends. If the block
    raises, the old file stays and the temporary one goes. Through a link its target is replaced.

    raises  CheckpointError for what is there and is no regular file
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise CheckpointError(f"save: {path} is there, and is no regular file\n  give another name")
    temporary = path.with_name(f".{path.name[:40]}.{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    mode = stat.S_IMODE(os.fstat(handle).st_mode)  # what the user's mask leaves of it
    os.close(handle)
    try:
        yield temporary
        flush_to_disk(temporary)
        temporary.chmod(mode)  # whoever wrote it may have put another file there
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    flush_names(path.parent)


def write_atomically(path: PathLike, chunks: list[Any]) -> None:
    """Write bytes in the place of whatever `path` holds."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.writelines(chunks)


def require_regular(path: PathLike) -> int:
    """The size of a file in bytes.

    raises  FileNotFoundError; CheckpointError for a folder, a pipe (which would wait for its
            writer), a device, a circle of links, and what may not be read
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"load: {os.fspath(path)!r}: {reason}") from None
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "no regular file"
        raise CheckpointError(f"load: {os.fspath(path)} is {kind}\n  give the file itself")
    return found.st_size


def read_text(path: PathLike, most_bytes: int = LARGEST_TEXT) -> str:
    """The text of a file that is read whole.

    raises  OSError; UnicodeDecodeError; CheckpointError for what is no regular file, or too large
    """
    size_bytes = require_regular(path)
    if size_bytes > most_bytes:
        raise CheckpointError(f"load: {os.fspath(path)} has {size_bytes} bytes, too many to be it")
    return Path(path).read_text(encoding="utf-8")


def flush_to_disk(path: Path, flags: int = os.O_RDWR) -> None:
    """Return when the disk has a file's content."""
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_names(folder: Path) -> None:
    """Return when the disk has a folder's names, on file systems that can say so."""
    with contextlib.suppress(OSError):
        flush_to_disk(folder, os.O_RDONLY)
