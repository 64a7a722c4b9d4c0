"""What a training run is asked for, what it says of itself, and what it leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from bedplate.errors import SettingError
from bedplate.olmo.presets import PRESETS

DEFAULT_MINUTES = 1.5
LARGEST_SEED = 1 << 64


@dataclass(frozen=True)
class TrainSettings:
    """What to train, on what, for how long.

    data        a file or a folder; None: the sources of Python's standard library
    preset      sizes and recipe by name; see PRESETS
    config      a config.json with other sizes, over the preset's
    tokenizer   a tokenizer.json; None: bytes
    steps       end after so many steps in all, or
    minutes     end after so many minutes in all; 1.5 if neither is given
    out         folder of the run
    resume      go on with the run in `out`, with the model, the data and the seed it has;
                to give others is an error
    overwrite   start anew where `out` holds a run
    seed        of the weights and of the order of the text
    rematerialise  compute what the gradients need again in place of keeping it: less memory,
                more time, the same numbers
    raises      SettingError for what makes no sense
    """

    data: Path | None = None
    preset: str = "demo"
    config: Path | None = None
    tokenizer: Path | None = None
    steps: int | None = None
    minutes: float | None = None
    out: Path = Path("runs/demo")
    resume: bool = False
    overwrite: bool = False
    seed: int = 0
    rematerialise: bool = False

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            names = ", ".join(PRESETS)
            raise SettingError(f"train: there is no preset {self.preset!r}; there are {names}")
        if self.steps is not None and self.minutes is not None:
            raise SettingError("train: give steps or minutes, not both")
        if self.steps is not None and self.steps < 1:
            raise SettingError(f"train: steps = {self.steps} is not positive")
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise SettingError(f"train: minutes = {self.minutes} is not positive")
        if self.resume and self.overwrite:
            raise SettingError("train: resume keeps a run, overwrite throws it away; give one")
        if self.seed < 0:
            raise SettingError(f"train: seed = {self.seed} is negative")
        if self.seed >= LARGEST_SEED:
            raise SettingError(f"train: seed = {self.seed} is not below 2**64")


@dataclass(frozen=True)
class Progress:
    """Where a run stands, after each step.

    steps               in all, or None if time ends the run
    loss                of this step, nats a token
    tokens_per_second   over the last seconds
    seconds             of training so far
    fraction            of the budget, 0 to 1
    held_out            nats a byte on a part of the held-out text, when just measured
    """

    step: int
    steps: int | None
    loss: float
    tokens_per_second: float
    seconds: float
    fraction: float
    seconds_left: float
    learning_rate: float
    held_out: float | None = None


@dataclass(frozen=True)
class TrainResult:
    """What a run leaves.

    checkpoint                    a folder that `load` takes
    held_out_nats_per_byte        on the whole held-out text; on a part if interrupted
    tokens_per_second             of training alone, without measuring and saving
    """

    checkpoint: Path
    held_out_nats_per_byte: float
    tokens_per_second: float
    curve_path: Path
    metrics_path: Path
    steps: int
    interrupted: bool
