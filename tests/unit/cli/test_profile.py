"""`bedplate profile`: the report comes and the script's status is kept, however the script ends."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bedplate.cli.main import main
from bedplate.inspect import report
from bedplate.inspect.limits import Bandwidth, Limits, Machine

STEP = "import bedplate as bp\nx = bp.ones((64, 64))\ny = (x @ x).numpy()\n"
COMMAND = [sys.executable, "-m", "bedplate", "profile"]


@pytest.fixture(autouse=True)
def made_up_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(1, {4: 1e11, 8: 5e10}, [Bandwidth(1 << 20, 5e10, 5e10)])
    monkeypatch.setattr(report, "measure", lambda: Machine(limits, limits))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "step.py"
    path.write_text(STEP)
    return path


def leave(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        main(["profile", *map(str, arguments)])
    return int(left.value.code or 0)


def test_a_script_is_run_and_reported(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.write_text(STEP + "import sys\nprint('arguments', sys.argv[1:], __name__)\n")
    assert leave(script, "--top", "3", "-m") == 0
    shown = capsys.readouterr().out
    assert "arguments ['--top', '3', '-m'] __main__" in shown
    assert "matmul" in shown
    assert "step.py:3" in shown
    assert "by line" in shown


def test_the_script_sees_its_own_folder(script: Path) -> None:
    (script.parent / "beside_the_script.py").write_text("VALUE = 7\n")
    script.write_text("import beside_the_script\nraise SystemExit(beside_the_script.VALUE)\n")
    before = sys.argv, list(sys.path)
    assert leave(script) == 7
    assert before == (sys.argv, sys.path)


@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        ("raise SystemExit", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('no more')", 1, "no more\n"),
        ("raise ValueError('on purpose')", 1, "ValueError: on purpose"),
        ("raise KeyboardInterrupt", 130, "interrupted"),
        ("1 +", 1, "SyntaxError"),
    ],
)
def test_the_status_is_the_scripts(
    script: Path, end: str, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script.write_text(STEP + end + "\n")
    assert leave(script) == status
    shown = capsys.readouterr()
    assert said in shown.err
    assert "runpy" not in shown.err
    assert ("matmul" in shown.out) == (end != "1 +")
    assert "time  " in shown.out


def test_a_module(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(script.parent)
    assert leave("-m", "step") == 0
    assert "step.py:3" in capsys.readouterr().out


def test_threads_are_waited_for(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.write_text(
        "import threading, time\nimport bedplate as bp\n"
        "def late():\n    time.sleep(0.1)\n    (bp.ones((8, 8)) @ bp.ones((8, 8))).numpy()\n"
        "threading.Thread(target=late).start()\n"
    )
    assert leave(script) == 0
    assert "matmul" in capsys.readouterr().out


def test_a_page_of_memory(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = script.parent / "memory.html"
    assert leave("--memory", page, script) == 0
    text = page.read_text()
    assert "<svg" in text and script.name in text
    assert "kernels, by time" in capsys.readouterr().out


def test_trace_and_json(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, numbers = script.parent / "trace.json", script.parent / "report.json"
    assert leave("--trace", trace, "--json", numbers, script) == 0
    assert json.loads(trace.read_text())["traceEvents"]
    found = json.loads(numbers.read_text())
    assert [row["launches"] for row in found["kernels"] if row["name"] == "matmul"] == [1]
    capsys.readouterr()
    assert leave("--json", "-", script) == 0
    assert json.loads(capsys.readouterr().out)["peak"]["nbytes"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such.py"], "profile: there is no script no_such.py"),
        (["-m", "no_such_module"], "profile: there is no module no_such_module"),
        (["-m", "no_such.module"], "profile: there is no module no_such.module"),
        (["--trace", "/no/such/t.json", __file__], "profile: there is no folder /no/such"),
        (["--memory", "/no/such/m.html", __file__], "profile: there is no folder /no/such"),
        (["--trace", "/dev/full", __file__], "/dev/full is there, and is no regular file"),
        (["--trace", "/proc/version", __file__], "profile: /proc takes no file"),
        (["--json", "/proc/version", __file__], "profile: /proc takes no file"),
        (["--top", "0", __file__], "Invalid value for '--top'"),
        ([], "Missing argument 'SCRIPT'"),
    ],
)
def test_mistakes_are_told_before_anything_runs(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert leave(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert shown.err.count("\n") == 1


def test_the_report_comes_though_a_file_cannot_be_written(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = script.parent / "trace.json"
    assert leave("--json", "/dev/full", "--trace", trace, script) == 1
    shown = capsys.readouterr()
    assert "matmul" in shown.out
    assert "No space left" in shown.err
    assert trace.exists()


def test_a_file_that_fails_leaves_the_old_one(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = script.parent / "report.json"
    numbers.write_text("old")

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left")

    monkeypatch.setattr(Path, "write_text", full)
    assert leave("--json", numbers, script) == 1
    assert "matmul" in capsys.readouterr().out
    assert numbers.read_bytes() == b"old"
    assert sorted(each.name for each in script.parent.iterdir()) == ["report.json", "step.py"]


def test_the_script_may_put_another_output_in_place(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.write_text(STEP + "import io, sys\nsys.stdout = io.StringIO()\n")
    assert leave(script) == 0
    assert "matmul" in capsys.readouterr().out


def test_a_closed_output_and_a_large_status(script: Path) -> None:
    end = "import sys\nsys.stdout.close()\nsys.exit(2**70)\n"
    script.write_text(STEP + end)
    found = subprocess.run([*COMMAND, str(script)], capture_output=True, text=True)
    plain = subprocess.run([sys.executable, "-c", end])
    assert found.returncode == plain.returncode
    assert "matmul" in found.stderr and "Traceback" not in found.stderr


def start(script: Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([*COMMAND, str(script)], stdout=pipe, stderr=pipe, text=True)


def test_a_reader_that_goes_ends_it_silently(script: Path) -> None:
    script.write_text(STEP + "raise SystemExit(3)\n")
    with start(script) as run:
        assert run.stdout is not None and run.stderr is not None
        run.stdout.close()
        assert run.stderr.read() == ""
    assert run.returncode == 3


def test_ctrl_c_reports_what_ran(script: Path) -> None:
    script.write_text(STEP + "print('ready', flush=True)\nimport time\ntime.sleep(60)\n")
    with start(script) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        time.sleep(0.1)  # into the sleep
        run.send_signal(signal.SIGINT)
        shown, errors = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "matmul" in shown
    assert errors == "bedplate: interrupted\n"
