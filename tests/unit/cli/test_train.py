"""What `bedplate train` says: progress, summary, and how it is stopped."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from bedplate.cli import train as command
from bedplate.cli.main import main
from bedplate.olmo import Progress, TrainResult, TrainSettings

RESULT = TrainResult(
    checkpoint=Path("runs/x/checkpoint"),
    held_out_nats_per_byte=1.43219,
    tokens_per_second=123456.7,
    curve_path=Path("runs/x/loss.svg"),
    metrics_path=Path("runs/x/metrics.jsonl"),
    steps=10,
    interrupted=False,
)
PROGRESS = Progress(
    step=10, steps=None, loss=2.5, tokens_per_second=1000.0, seconds=3.0, fraction=0.25,
    seconds_left=65.4, learning_rate=1e-3,
)  # fmt: skip


def test_the_last_line_is_for_programs() -> None:
    *others, last = command.summary(RESULT).splitlines()
    assert last == "held-out loss 1.432 nats/byte, 123457 tokens/s, checkpoint runs/x/checkpoint"
    assert others == ["loss curve  runs/x/loss.svg", "metrics     runs/x/metrics.jsonl"]


def test_an_interrupted_run_says_how_to_go_on() -> None:
    assert "--resume" in command.summary(replace(RESULT, interrupted=True))


def test_progress_names_step_loss_rate_and_time_left() -> None:
    text = command.progress_text(PROGRESS)
    assert all(part in text for part in ("step    10", "loss 2.500", "1,000 tokens/s", "1:05 left"))
    assert "held out 1.900" in command.progress_text(replace(PROGRESS, held_out=1.9))
    assert "measuring" in command.progress_text(replace(PROGRESS, fraction=1.0))


def test_a_terminal_gets_a_bar() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with command.Display(console) as display:
        display.show(PROGRESS)
    assert "25%" in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_file_gets_lines_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with command.Display(Console(file=io.StringIO(), force_terminal=False)) as display:
        for _ in range(3):
            display.show(PROGRESS)
        display.show(replace(PROGRESS, fraction=1.0))
    assert capsys.readouterr().err.count("\n") == 2


def test_options_become_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[TrainSettings] = []

    def train(settings: TrainSettings, on_progress: object) -> TrainResult:
        seen.append(settings)
        return RESULT

    monkeypatch.setattr(command, "train_model", train)
    with pytest.raises(SystemExit) as left:
        main(["train", "--data", str(tmp_path), "--steps", "7", "--out", "x", "--seed", "5"])
    assert not left.value.code
    assert seen == [TrainSettings(data=tmp_path, steps=7, out=Path("x"), seed=5)]
    assert capsys.readouterr().out.splitlines()[-1].startswith("held-out loss 1.432 nats/byte")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "1", "--minutes", "1"], "give steps or minutes, not both"),
        (["--resume", "--out", "/no/such/run"], "holds no run to resume"),
        (["--resume", "--overwrite"], "give one"),
    ],
)
def test_settings_that_make_no_sense(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["train", *arguments])
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
