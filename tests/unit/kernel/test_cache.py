"""The cache of objects on disk: hits, verification, other writers, bounds, bad disks."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bedplate.config import config
from bedplate.kernel import cache, codegen, give_back, i64, kernel
from bedplate.kernel.lower import symbol_of
from bedplate.kernel.native import load_code
from bedplate.kernel.target import find_target


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """An empty cache of this test's own."""
    with config(cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache" / "kernels"


def text_of(number: int) -> str:
    @kernel
    def add(x: i64) -> i64:
        give_back(x + number)

    return add.llvm()


def image_of(text: str) -> bytes:
    return codegen.make_object(text, find_target(None))


def test_a_miss_writes_and_a_hit_reads(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(8101)
    load_code(text, symbol_of("add"), find_target(None))
    (path,) = place.iterdir()
    assert path.name == cache.key_of(text) + cache.SUFFIX
    monkeypatch.setattr("bedplate.kernel.native._loaded", {})
    monkeypatch.setattr(codegen, "make_object", None)  # compiling would now fail
    address, _keep = load_code(text, symbol_of("add"), find_target(None))
    assert address


def test_key_depends_on_text_version_and_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    first = cache.key_of("text")
    assert cache.key_of("texts") != first
    monkeypatch.setattr(cache, "PIPELINE", "another")
    second = cache.key_of("text")
    monkeypatch.setattr(cache.llvmlite, "__version__", "99")
    assert len({first, second, cache.key_of("text")}) == 3


def test_folder_is_private(place: Path) -> None:
    cache.write("0" * 64, b"image")
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "foreign", "renamed"])
def test_damaged_files_are_not_loaded(place: Path, damage: str) -> None:
    key = cache.key_of("some text")
    cache.write(key, b"image" * 100)
    path = place / (key + cache.SUFFIX)
    content = path.read_bytes()
    assert cache.read(key) == b"image" * 100
    if damage == "renamed":
        key = cache.key_of("other text")
        path = path.rename(place / (key + cache.SUFFIX))
    else:
        flipped = content[:60] + bytes([content[60] ^ 1]) + content[61:]
        path.write_bytes(
            {"truncated": content[:-7], "flipped": flipped, "empty": b"",
             "foreign": b"\x7fELF" + content}[damage]
        )  # fmt: skip
    assert cache.read(key) is None
    assert not path.exists()
    cache.write(key, b"again")
    assert cache.read(key) == b"again"


@pytest.mark.parametrize("kind", ["pipe", "folder", "endless", "dangling", "huge"])
def test_what_is_no_plain_file_is_not_read(place: Path, kind: str) -> None:
    key = cache.key_of("some text")
    cache.write(key, b"image")
    path = place / (key + cache.SUFFIX)
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        path.touch()
        os.truncate(path, 1 << 40)
    else:
        path.symlink_to("/dev/zero" if kind == "endless" else "/nonexistent")
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert cache.read(key) is None
    assert not before or len(os.listdir("/proc/self/fd")) == before
    if kind != "folder":
        cache.write(key, b"again")
        assert cache.read(key) == b"again"


def test_a_hit_counts_though_its_time_cannot_be_renewed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write("4" * 64, b"image")
    os.utime(place / ("4" * 64 + cache.SUFFIX), (1000, 1000))
    monkeypatch.setattr(os, "utime", _no_space)
    assert cache.read("4" * 64) == b"image"


def test_a_folder_that_others_can_write_to_is_not_used(place: Path) -> None:
    cache.write("1" * 64, b"image")
    place.chmod(0o777)
    assert cache.read("1" * 64) is None
    cache.write("2" * 64, b"image")
    assert len(list(place.iterdir())) == 1


def test_eviction_removes_what_was_unused_for_longest(place: Path) -> None:
    for i in range(20):
        cache.write(f"{i:064x}", bytes(1000))
        os.utime(place / f"{i:064x}{cache.SUFFIX}", (1000 + i, 1000 + i))
    cache.evict(place, 10 * 1100)
    left = sorted(int(path.stem, 16) for path in place.iterdir())
    assert left == list(range(20 - len(left), 20))
    assert sum(path.stat().st_size for path in place.iterdir()) <= 9 * 1100


def test_eviction_sweeps_up_after_writers_that_died(place: Path) -> None:
    cache.write("3" * 64, b"image")
    old, fresh = place / "new-old", place / "new-fresh"
    old.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(old, (1000, 1000))
    cache.evict(place, 1 << 20)
    assert not old.exists() and fresh.exists()


def test_writing_evicts_now_and_then(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_STORES_PER_SCAN", 1)
    with config(cache_size=1):
        for i in range(5):
            cache.write(f"{i:064x}", bytes(400_000))
    assert sum(path.stat().st_size for path in place.iterdir()) <= 1 << 20


@pytest.mark.parametrize("where", ["file in the way", "no folder", "full disk"])
def test_a_bad_disk_means_compiling(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "cache")
    if where == "file in the way":
        (tmp_path / "cache").write_text("not a folder")
    elif where == "no folder":
        folder = ""
    else:
        monkeypatch.setattr(os, "replace", _no_space)
    with config(cache_dir=folder):
        address, _keep = load_code(text_of(hash(where)), symbol_of("add"), find_target(None))
    assert address
    if where == "full disk":
        assert not list((tmp_path / "cache" / "kernels").iterdir())


def _no_space(*_: Any) -> None:
    raise OSError(28, "No space left on device")


def test_several_processes_share_a_cache(tmp_path: Path) -> None:
    script = (
        "from bedplate.kernel import give_back, i64, kernel\n"
        "def make(n):\n"
        "    @kernel\n"
        "    def add(x: i64) -> i64:\n"
        "        give_back(x + n)\n"
        "    return add\n"
        "assert [make(n)(1) for n in range(20)] == list(range(1, 21))\n"
    )
    environment = {**os.environ, "BEDPLATE_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", script]
    children = [subprocess.Popen(command, env=environment) for _ in range(3)]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0]
    names = [path.name for path in (tmp_path / "kernels").iterdir()]
    assert len(names) == 20 and all(name.endswith(cache.SUFFIX) for name in names)
