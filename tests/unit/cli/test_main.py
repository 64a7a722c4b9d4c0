"""How the command line is left: exit status and what is said, for each kind of failure."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest

from bedplate.cli.main import main
from bedplate.errors import CheckpointError, DeviceError

MODULE = "bedplate.cli.main"


def leave(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave("--version") == 0
    assert capsys.readouterr().out == f"bedplate {version('bedplate')}\n"


@pytest.mark.parametrize("command", ["train", "generate", "doctor", "profile"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert leave(command, "--help") == 0
    shown = capsys.readouterr().out
    assert "Example" in shown
    assert f"bedplate {command}" in shown


def test_no_command_shows_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    leave()
    shown = capsys.readouterr()
    assert all(word in shown.out + shown.err for word in ("train", "generate", "doctor"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "No such command 'trian'"),
        (["train", "--stepz", "3"], "No such option: --stepz"),
        (["train", "--steps", "none"], "Invalid value for '--steps'"),
        (["train", "--steps", "0"], "Invalid value for '--steps'"),
        (["train", "--preset", "huge"], "there is no preset 'huge'; there are demo"),
        (["train", "--data", "/no/such/text"], "ath '/no/such/text' does not exist"),
        (["train", "--steps"], "Option '--steps' requires an argument"),
        (["generate", "--checkpoint", "/no/such"], "ath '/no/such' does not exist"),
        (["generate", "--top-p", "2"], "Invalid value for '--top-p'"),
        (["doctor", "now"], "unexpected extra argument"),
    ],
)
def test_wrong_arguments_are_one_line_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert leave(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert shown.err.startswith("bedplate: ")
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (CheckpointError("model.safetensors: cut short"), 2, "bedplate: model.safetensors: cut"),
        (DeviceError("Device: 'cuda' is absent"), 1, "bedplate: Device: 'cuda' is absent"),
        (KeyboardInterrupt(), 130, "bedplate: interrupted"),
        (FileNotFoundError(2, "No such file or directory", "x.txt"), 2, "directory: x.txt"),
    ],
)
def test_failures(
    error: BaseException,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(f"{MODULE}.app", fail)
    assert leave() == status
    assert said in capsys.readouterr().err


def test_a_fault_of_our_own_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(f"{MODULE}.app", fail)
    with pytest.raises(ZeroDivisionError):
        main([])


def test_a_closed_pipe_leaves_quietly() -> None:
    """The reader goes before anything is written: no traceback."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", MODULE, "train", "--help"],
        stdout=write, stderr=subprocess.PIPE, text=True, timeout=60,
    )  # fmt: skip
    os.close(write)
    assert done.stderr == ""
    assert done.returncode == 1


def run_say(writing: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, where a command runs `writing`."""
    code = (
        f"import sys; import {MODULE} as main\n"
        f"def app(*_, **__):\n    {writing}\n"
        "main.app = app\nmain.main([])"
    )
    options = {"stderr": subprocess.PIPE, "text": True, "timeout": 60, **options}
    return subprocess.run([sys.executable, "-c", code], **options)


def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = run_say("print('x' * 100000)", stdout=full)
    assert (done.returncode, done.stderr) == (1, "bedplate: No space left on device\n")


def test_closed_streams_are_no_fault() -> None:
    code = f'import {MODULE} as main; main.main(["--version"])'
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -c '{code}' >&- <&-"],
        stderr=subprocess.PIPE, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_text_that_the_terminal_cannot_show_is_replaced() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = run_say("print('a\\u019db')", stdout=subprocess.PIPE, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "a?b\n", "")
