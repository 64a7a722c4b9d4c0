"""Corpus: which files, in which order, and what is held out."""

import pytest

from bedplate.data import load_corpus, standard_library, text_files
from bedplate.errors import DataError


@pytest.fixture
def folder(tmp_path):
    for number in range(40):
        place = tmp_path / f"part{number % 3}"
        place.mkdir(exist_ok=True)
        (place / f"{number:02}.txt").write_text(f"text {number:02}\n")
    (tmp_path / "picture.png").write_bytes(b"\x00")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "secret.txt").write_text("secret")
    return tmp_path


def test_files_are_sorted_and_text(folder):
    files = text_files(folder)
    assert len(files) == 40
    assert files == sorted(files)


def test_one_file_in_twenty_is_held_out(folder):
    corpus = load_corpus(folder)
    files = text_files(folder)
    held_out = [files[19], files[39]]
    assert bytes(corpus.held_out) == b"".join(file.read_bytes() + b"\0" for file in held_out)
    assert corpus.held_out_bytes == len(corpus.held_out)
    assert corpus.n_files == 40
    assert len(corpus.train) == 38 * len("text 00\n\0")


def test_the_end_of_a_single_file_is_held_out(tmp_path):
    lines = [f"line {number:03}\n" for number in range(200)]
    (tmp_path / "a.md").write_text("".join(lines))
    corpus = load_corpus(tmp_path / "a.md")
    assert bytes(corpus.train[:-1]) == "".join(lines[:190]).encode()
    assert bytes(corpus.held_out[:-1]) == "".join(lines[190:]).encode()


def test_nothing_to_read(tmp_path):
    with pytest.raises(DataError, match="no text files at"):
        load_corpus(tmp_path)


def test_the_standard_library():
    files = standard_library()
    assert any(file.name == "argparse.py" for file in files)
    assert not any("site-packages" in file.parts for file in files)
    assert all(file.suffix == ".py" for file in files)
