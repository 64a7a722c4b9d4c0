"""What `bedplate generate` writes, and how it ends."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

import bedplate as bp
from bedplate.cli.main import main
from bedplate.olmo import Config, Olmo3, save

COMMAND = [sys.executable, "-m", "bedplate.cli.main", "generate"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of bytes with random weights."""
    bp.manual_seed(1)
    folder = tmp_path_factory.mktemp("model")
    sizes = {"d_model": 32, "n_heads": 2, "n_layers": 2, "intermediate_size": 48}
    save(Olmo3(Config(vocab_size=256, **sizes)), folder)
    return folder


def write(capsys: pytest.CaptureFixture[str], checkpoint: Path, *more: str) -> str:
    with pytest.raises(SystemExit) as left:
        main(["generate", "--checkpoint", str(checkpoint), "--max-new-tokens", "12", *more])
    assert not left.value.code
    return capsys.readouterr().out


def test_the_prompt_comes_first_and_a_seed_repeats(
    capsys: pytest.CaptureFixture[str], checkpoint: Path
) -> None:
    first = write(capsys, checkpoint, "--prompt", "héllo ", "--seed", "7")
    assert first.startswith("héllo ")
    assert first.endswith("\n")
    assert write(capsys, checkpoint, "--prompt", "héllo ", "--seed", "7") == first
    assert write(capsys, checkpoint, "--prompt", "héllo ", "--seed", "8") != first


def test_temperature_zero_needs_no_seed(
    capsys: pytest.CaptureFixture[str], checkpoint: Path
) -> None:
    texts = {write(capsys, checkpoint, "--prompt", "a", "--temperature", "0") for _ in range(2)}
    assert len(texts) == 1


def test_a_prompt_from_standard_input(
    capsys: pytest.CaptureFixture[str], checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("from a pipe"))
    text = write(capsys, checkpoint, "--prompt", "-", "--temperature", "0")
    assert text.startswith("from a pipe")


def test_no_prompt_starts_from_the_end_of_a_text(
    capsys: pytest.CaptureFixture[str], checkpoint: Path
) -> None:
    assert write(capsys, checkpoint, "--seed", "1")


def test_a_closed_pipe_ends_it_without_a_traceback(checkpoint: Path) -> None:
    options = ["--checkpoint", str(checkpoint), "--max-new-tokens", "5000", "--prompt", "x"]
    with subprocess.Popen(
        [*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.wait(60) == 1
        assert process.stderr.read() == b""


def test_a_folder_without_a_model_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["generate", "--checkpoint", str(tmp_path)])
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("bedplate: ")
    assert str(tmp_path) in said


def test_weights_are_rounded_first_if_asked(
    capsys: pytest.CaptureFixture[str], checkpoint: Path
) -> None:
    text = write(capsys, checkpoint, "--prompt", "a", "--quantise", "int8", "--temperature", "0")
    assert text == write(
        capsys, checkpoint, "--prompt", "a", "--quantise", "int8", "--temperature", "0"
    )
    with pytest.raises(SystemExit) as left:
        main(["generate", "--checkpoint", str(checkpoint), "--quantise", "int5"])
    assert left.value.code
    assert "there are 'int8', 'int4'" in capsys.readouterr().err
