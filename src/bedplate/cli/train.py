"""`bedplate train`: train an OLMo 3, show progress, say where everything is."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich import progress as bars
from rich.console import Console

from bedplate.cli.generate import stream_text
from bedplate.olmo import PRESETS, Progress, TrainResult, TrainSettings
from bedplate.olmo import train as train_model

HELP = """Train an OLMo 3 on text and save it.

Without --data it learns the source of Python's own standard library, with a
twentieth of the files held out. Ctrl-C saves and stops; --resume goes on as if
nothing had happened.

\b
Examples:
  bedplate train                                the demo: 90 seconds
  bedplate train --data book.txt --minutes 10   your text
  bedplate train --data notes/ --preset small --steps 2000 --out runs/notes
  bedplate train --out runs/notes --resume --steps 4000
  bedplate train --config my-olmo/config.json --data corpus/
"""
LINE_SECONDS = 5.0


def train(
    data: Annotated[
        Path | None, typer.Option(exists=True, help="A text file or a folder of them.")
    ] = None,
    preset: Annotated[
        str, typer.Option(help=f"Model and schedule: {', '.join(PRESETS)}.")
    ] = "demo",
    config: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A model's config.json, over the preset's."),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A tokenizer.json; without it, bytes."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="End after so many steps in all.")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.0, help="End after so many minutes in all; 1.5 if neither is given."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("runs/demo"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start anew where --out holds a run.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of weights and of the order of the text.")] = 0,
    rematerialise: Annotated[
        bool, typer.Option("--rematerialise", help="Take less memory and more time.")
    ] = False,
    sample: Annotated[
        str | None, typer.Option(help="Generate from this prompt when training is done.")
    ] = None,
) -> None:
    settings = TrainSettings(
        data=data, preset=preset, config=config, tokenizer=tokenizer,
        steps=steps, minutes=minutes, out=out, resume=resume, overwrite=overwrite, seed=seed,
        rematerialise=rematerialise,
    )  # fmt: skip
    with Display(Console(stderr=True)) as display:
        result = train_model(settings, on_progress=display.show)
    if sample is not None:
        print(f"sample of what it writes after {sample!r}:\n")
        stream_text(result.checkpoint, sample, max_new_tokens=256, temperature=0.7, seed=seed)
        print()
    print(summary(result))


train.__doc__ = HELP


def summary(result: TrainResult) -> str:
    """What a finished run says; the last line is for programs to read."""
    state = "interrupted and saved; --resume goes on\n" if result.interrupted else ""
    return (
        f"{state}"
        f"loss curve  {result.curve_path}\n"
        f"metrics     {result.metrics_path}\n"
        f"held-out loss {result.held_out_nats_per_byte:.4g} nats/byte, "
        f"{result.tokens_per_second:.0f} tokens/s, checkpoint {result.checkpoint}"
    )


class Display:
    """A progress bar on a terminal, now and then a line of text anywhere else."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.last_line = 0.0
        self.bar = bars.Progress(
            bars.TextColumn("{task.fields[text]}"),
            bars.BarColumn(),
            bars.TaskProgressColumn(),
            console=console,
        )
        self.task = self.bar.add_task("train", total=1.0, text="preparing")

    def __enter__(self) -> Display:
        if self.console.is_terminal:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self.bar.stop()

    def show(self, progress: Progress) -> None:
        text = progress_text(progress)
        if self.console.is_terminal:
            self.bar.update(self.task, completed=progress.fraction, text=text)
        elif progress.fraction >= 1 or time.monotonic() - self.last_line > LINE_SECONDS:
            self.last_line = time.monotonic()
            print(text, file=sys.stderr, flush=True)


def progress_text(progress: Progress) -> str:
    """One line: step, loss, tokens per second, time left."""
    minutes, seconds = divmod(max(0, round(progress.seconds_left)), 60)
    done = progress.fraction >= 1
    left = "measuring on the held-out text" if done else f"{minutes}:{seconds:02d} left"
    held_out = "" if progress.held_out is None else f"  held out {progress.held_out:.3f}"
    return (
        f"step {progress.step:5d}  loss {progress.loss:.3f}{held_out}  "
        f"{progress.tokens_per_second:9,.0f} tokens/s  {left}"
    )
