"""The cache of compiled objects on disk, in `config.cache_dir`/kernels.

The name of a file is the digest of everything that its content depends on: the LLVM text (which
names processor and features), the version of LLVM and of the pass pipeline. A file is a mark, the
digest of name and content, and the object. It is written under another name and renamed, so
that readers in other processes see all of it or nothing; it is verified before it is loaded. A
folder that somebody else could write to is not used. Nothing here ever fails: a read-only or full
disk means compiling again, and so does anything but a plain file of sensible size.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from pathlib import Path

import llvmlite

from bedplate.config import config
from bedplate.kernel.codegen import PIPELINE

MARK = b"bedplate kernel 1\n"
SUFFIX = ".kernel"
_DIGEST_BYTES = 32
# A hit renews a file's time only when it is older than this, to spare the disk.
_RENEW_SECONDS = 3600.0
# One store in this many looks at the size of the folder.
_STORES_PER_SCAN = 64
# No object is larger by far: 12000 lines of LLVM text make one of 0.2 MiB.
_MAX_BYTES = 64 << 20


def key_of(text: str) -> str:
    """The name under which the object of an LLVM text is kept."""
    parts = (llvmlite.__version__, PIPELINE, text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def folder() -> Path | None:
    """The cache's folder, made if need be; None if there is none that is ours alone."""
    if not config.cache_dir:
        return None
    path = Path(config.cache_dir) / "kernels"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        return None
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return None
    return path


def read(key: str) -> bytes | None:
    """The object kept under a key, verified; None if there is none."""
    place = folder()
    if place is None:
        return None
    path = place / (key + SUFFIX)
    try:
        image = _verified(key, _content(path))
        if image is None:
            path.unlink()
    except OSError:
        return None
    if image is not None:
        _renew(path)
    return image


def _content(path: Path) -> bytes:
    """What a file holds; nothing if it is no plain file (a pipe would never end) or far too large.

    raises OSError if there is none
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
            return b""
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _renew(path: Path) -> None:
    """Note that a file was used, now and then; a disk that is read-only serves as well."""
    try:
        if time.time() - path.stat().st_mtime > _RENEW_SECONDS:
            os.utime(path)
    except OSError:
        return


def _verified(key: str, content: bytes) -> bytes | None:
    """The object in a file's content, if mark and digest are right."""
    start = len(MARK) + _DIGEST_BYTES
    if len(content) <= start or not content.startswith(MARK):
        return None
    image = content[start:]
    return image if content[len(MARK) : start] == _digest(key, image) else None


def _digest(key: str, image: bytes) -> bytes:
    return hashlib.sha256(key.encode() + image).digest()


def write(key: str, image: bytes) -> None:
    """Keep an object under a key, if the disk lets us."""
    place = folder()
    if place is None:
        return
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix="new-", dir=place)
        with os.fdopen(descriptor, "wb") as file:
            file.write(MARK + _digest(key, image) + image)
        os.replace(temporary, place / (key + SUFFIX))
        if int(key[:8], 16) % _STORES_PER_SCAN == 0:
            evict(place, config.cache_size << 20)
    except OSError:
        _remove(temporary)


def _remove(path: str) -> None:
    try:
        if path:
            os.unlink(path)
    except OSError:
        return


def evict(place: Path, bound_bytes: int) -> None:
    """Remove the files unused for longest until nine tenths of the bound are left.

    Also removes what writers that died left behind.
    """
    now = time.time()
    files = []
    for entry in os.scandir(place):
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:  # another process was faster
            continue
        if not entry.name.endswith(SUFFIX):
            if now - status.st_mtime > _RENEW_SECONDS:
                _remove(entry.path)
            continue
        files.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    if total <= bound_bytes:
        return
    for _, size, path in sorted(files):
        if total <= bound_bytes * 9 // 10:
            return
        _remove(path)
        total -= size
