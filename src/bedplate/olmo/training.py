"""Training: from text to a checkpoint, by steps or by time, resumable to the bit.

The recipe is that of OLMo 3 in small: AdamW that leaves out bad steps, warm-up and cosine,
gradients clipped by their norm, a z-loss, no weight decay on norms and embeddings. One step is
captured once and replayed. A run's folder holds

    checkpoint/     what `load` takes, and training.safetensors, which `--resume` takes
    metrics.jsonl   a line a step
    loss.svg        the loss curve
"""

from __future__ import annotations

import itertools
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from bedplate.data import (
    Batches,
    ByteCodec,
    Corpus,
    TextCodec,
    TokenizerCodec,
    load_corpus,
    windows_in_order,
)
from bedplate.errors import SettingError
from bedplate.olmo import run_state
from bedplate.olmo.config import Config
from bedplate.olmo.curve import write_curve
from bedplate.olmo.model import Olmo3
from bedplate.olmo.presets import PRESETS, Preset
from bedplate.olmo.settings import DEFAULT_MINUTES, Progress, TrainResult, TrainSettings
from bedplate.optim import SkipStepAdamW, clip_grad_norm_, warmup_cosine
from bedplate.tensor import Tensor, jit, manual_seed, no_grad, random, tensor

Z_LOSS = 1e-5  # OLMo 2 and 3
MAX_GRAD_NORM = 1.0
BETAS = (0.9, 0.95)
WEIGHT_DECAY = 0.1
WARMUP = 0.05  # of the run
FINAL_RATE = 0.05  # of the peak
SAVE_EVERY_SECONDS = 30.0
EVALUATIONS = 8  # on a part of the held-out text, while training
EVALUATION_TOKENS = 1 << 16
RATE_SECONDS = 5.0  # the window over which tokens per second are told


def train(
    settings: TrainSettings, on_progress: Callable[[Progress], None] | None = None
) -> TrainResult:
    """Train a model; see TrainSettings.

    on_progress   called after each step; if it raises KeyboardInterrupt the run is saved and
                  ends, as it does on Ctrl-C
    raises        SettingError if `out` holds a run and neither resume nor overwrite is given, or
                  if there is none to resume; CheckpointError if what it holds is damaged
    """
    has_run = (settings.out / run_state.CHECKPOINT / run_state.STATE).exists()
    if settings.resume and not has_run:
        raise SettingError(f"train: {settings.out} holds no run to resume; leave out --resume")
    if has_run and not settings.resume and not settings.overwrite:
        raise SettingError(
            f"train: {settings.out} holds a run; give --resume to go on with it, --overwrite to "
            "start anew, or another --out"
        )
    trainer = Trainer(settings)
    with _interrupts() as interrupted:
        trainer.run(on_progress or (lambda progress: None), interrupted)
    return trainer.finish()


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """An event that Ctrl-C and a polite kill set; the second time they raise.

    Outside the main thread, which signals do not reach, it is never set.
    """
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def note(number: int, frame: Any) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Trainer:
    """One run: model, optimiser, data, and how far it has come."""

    def __init__(self, settings: TrainSettings) -> None:
        self.settings = settings
        state = run_state.read(settings.out) if settings.resume else None
        if state is not None:
            _check_same_run(settings, state)
        self.origin = state.origin if state else _origin(settings)
        self.codec = _codec(self.origin["tokenizer"])
        self.config = Config(**state.config) if state else _config(settings, self.codec)
        self.corpus: Corpus = load_corpus(self.origin["data"], self.codec)
        recipe: Preset = PRESETS[self.origin["preset"]]
        self.peak_rate = recipe.learning_rate
        self.seq_len = min(recipe.seq_len, self.config.seq_len)
        self.batch_size = recipe.batch_size
        self.batches = Batches(
            self.corpus.train, self.batch_size, self.seq_len, self.origin["seed"]
        )
        manual_seed(self.origin["seed"])
        self.model = Olmo3(self.config)
        self.model.rematerialise = settings.rematerialise
        for parameter in self.model.parameters():
            parameter.realise()
        self.optimizer = SkipStepAdamW(
            _groups(self.model), lr=self.peak_rate, betas=BETAS, weight_decay=WEIGHT_DECAY
        )
        self.step = 0
        self.seconds = 0.0
        self.interrupted = False
        if state is not None:
            self._restore(state)
        self._captured = jit(self._one_step)
        self._measured = jit(self._one_measurement)

    # ---- the run

    def run(self, on_progress: Callable[[Progress], None], stop: threading.Event) -> None:
        """Train until the budget is spent or `stop` is set, saving now and then."""
        settings = self.settings
        settings.out.mkdir(parents=True, exist_ok=True)
        if self.step == 0:
            self.save()  # so that a crash at any time leaves a run to resume
        metrics = run_state.Metrics(settings.out, self.step)
        rates = _Rates(self.batch_size * self.seq_len)
        saved, evaluated = time.monotonic(), self._n_evaluated()
        with metrics:
            while self.fraction() < 1 and not self.interrupted:
                record = self.train_step()
                rates.add(record["seconds"])
                held_out = None
                if self._n_evaluated() > evaluated:
                    evaluated = self._n_evaluated()
                    held_out = record["held_out"] = self.held_out_loss(EVALUATION_TOKENS)
                metrics.add({k: v for k, v in record.items() if k != "seconds"})
                self.interrupted = stop.is_set() or _raised(
                    on_progress, self._progress(record, rates, held_out)
                )
                if time.monotonic() - saved > SAVE_EVERY_SECONDS:
                    self.save()
                    saved = time.monotonic()
        self.save()

    def train_step(self) -> dict[str, Any]:
        """One step; returns what the metrics say of it."""
        start = time.monotonic()
        rate = self.peak_rate * warmup_cosine(self._next_fraction(), WARMUP, FINAL_RATE)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        inputs, targets = next(self.batches)
        loss, norm = self._captured(tensor(inputs), tensor(targets))
        self.step += 1
        record = {
            "step": self.step,
            "loss": loss.item(),
            "grad_norm": norm.item(),
            "learning_rate": rate,
            "tokens": self.step * self.batch_size * self.seq_len,
        }
        record["seconds"] = time.monotonic() - start
        self.seconds += record["seconds"]
        return record

    def _one_step(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Forward, backward and update; captured, so nothing is read in it."""
        self.optimizer.zero_grad()
        loss = self.model.loss(inputs, targets, z_loss=Z_LOSS)
        loss.backward()
        norm = clip_grad_norm_(self.model.parameters(), MAX_GRAD_NORM, error_if_nonfinite=False)
        self.optimizer.step(loss, norm)
        self.optimizer.zero_grad()
        return loss.detach(), norm

    # ---- budget

    def fraction(self) -> float:
        """How much of the budget is spent, 0 to 1."""
        if self.settings.steps is not None:
            return self.step / self.settings.steps
        return min(1.0, self.seconds / self._budget_seconds())

    def _next_fraction(self) -> float:
        """The same for the schedule, which counts the step that is to come."""
        if self.settings.steps is not None:
            return (self.step + 1) / self.settings.steps
        return self.fraction() + 1e-3

    def _budget_seconds(self) -> float:
        return 60.0 * (self.settings.minutes or DEFAULT_MINUTES)

    def _n_evaluated(self) -> int:
        return int(self.fraction() * EVALUATIONS)

    def _progress(self, record: dict[str, Any], rates: _Rates, held_out: float | None) -> Progress:
        fraction = self.fraction()
        left = self.seconds * (1 - fraction) / max(fraction, 1e-9)
        if self.settings.steps is None:
            left = self._budget_seconds() - self.seconds
        return Progress(
            self.step, self.settings.steps, record["loss"], rates.tokens_per_second(),
            self.seconds, fraction, max(0.0, left), record["learning_rate"], held_out,
        )  # fmt: skip

    # ---- measuring

    def held_out_loss(self, max_tokens: int | None = None) -> float:
        """Nats a byte on the held-out text, or on about `max_tokens` tokens spread over it.

        It is cut into windows as long as the model is meant for, which may be longer than those
        it is trained on; the first tokens of a window have little before them.
        """
        tokens, length = self.corpus.held_out, self.config.seq_len
        batch_size = max(1, self.batch_size * self.seq_len // length)
        stride = 1 if max_tokens is None else math.ceil(len(tokens) / max_tokens)
        batches = itertools.islice(windows_in_order(tokens, batch_size, length), 0, None, stride)
        self.model.eval()
        losses = [
            self._measured(tensor(inputs), tensor(targets)).item() for inputs, targets in batches
        ]
        self.model.train()
        if not losses:
            return math.nan
        return float(np.mean(losses)) / self.corpus.bytes_per_token

    def _one_measurement(self, inputs: Tensor, targets: Tensor) -> Tensor:
        with no_grad():
            return self.model.loss(inputs, targets)

    # ---- saving

    def save(self) -> None:
        """Write the checkpoint, with all that a resumed run needs."""
        run_state.write(
            self.settings.out,
            self.model,
            self.optimizer,
            {
                "step": self.step,
                "seconds": self.seconds,
                "batches": self.batches.state_dict(),
                "random": random.get_state().tolist(),
                "origin": self.origin,
                "config": self.config.to_dict(),
            },
            self.origin["tokenizer"],
        )

    def _restore(self, state: run_state.RunState) -> None:
        self.model.load_state_dict(state.parameters)
        self.optimizer.load_state_dict(state.optimizer)
        self.batches.load_state_dict(state.batches)
        random.set_state(tensor(np.array(state.random, np.uint32)))
        self.step, self.seconds = state.step, state.seconds

    def finish(self) -> TrainResult:
        """Measure on the whole held-out text and draw the curve."""
        out = self.settings.out
        held_out = self.held_out_loss(EVALUATION_TOKENS if self.interrupted else None)
        metrics_path = out / run_state.METRICS
        curve_path = write_curve(out / "loss.svg", run_state.read_metrics(metrics_path))
        tokens = self.step * self.batch_size * self.seq_len
        return TrainResult(
            out / run_state.CHECKPOINT, held_out, tokens / max(self.seconds, 1e-9),
            curve_path, metrics_path, self.step, self.interrupted,
        )  # fmt: skip


class _Rates:
    """Tokens per second over the last seconds."""

    def __init__(self, tokens_per_step: int) -> None:
        self._tokens_per_step = tokens_per_step
        self._seconds: list[float] = []

    def add(self, seconds: float) -> None:
        self._seconds.append(seconds)
        while len(self._seconds) > 1 and sum(self._seconds) - self._seconds[0] > RATE_SECONDS:
            self._seconds.pop(0)

    def tokens_per_second(self) -> float:
        return len(self._seconds) * self._tokens_per_step / max(1e-9, sum(self._seconds))


def _raised(on_progress: Callable[[Progress], None], progress: Progress) -> bool:
    try:
        on_progress(progress)
    except KeyboardInterrupt:
        return True
    return False


def _origin(settings: TrainSettings) -> dict[str, Any]:
    """What a run keeps for good: where it came from."""
    return {
        "preset": settings.preset,
        "data": None if settings.data is None else str(settings.data.resolve()),
        "tokenizer": None if settings.tokenizer is None else str(settings.tokenizer.resolve()),
        "seed": settings.seed,
    }


def _check_same_run(settings: TrainSettings, state: run_state.RunState) -> None:
    """Refuse to resume with what the run does not have; what was not given is what it has."""
    given, default = _origin(settings), _origin(TrainSettings())
    for name, value in given.items():
        if value not in (default[name], state.origin[name]):
            raise SettingError(
                f"train: --resume goes on with {name} = {state.origin[name]!r}, not {value!r}; "
                "leave it out, or start another run with another --out"
            )
    if settings.config is not None and Config.read(settings.config) != Config(**state.config):
        raise SettingError(
            f"train: --resume goes on with the model of the run, and {settings.config} is "
            "another; leave it out, or start another run with another --out"
        )


def _codec(tokenizer: str | None) -> TextCodec:
    return ByteCodec() if tokenizer is None else TokenizerCodec(tokenizer)


def _config(settings: TrainSettings, codec: TextCodec) -> Config:
    if settings.config is not None:
        config = Config.read(settings.config)
    else:
        config = PRESETS[settings.preset].config(vocab_size=codec.vocab_size)
    if config.vocab_size < codec.vocab_size:
        raise SettingError(
            f"train: vocab_size = {config.vocab_size} is too small for text of "
            f"{codec.vocab_size} different tokens"
        )
    return config


def _groups(model: Olmo3) -> list[dict[str, Any]]:
    """Matrices decay; norms and the embedding do not."""
    plain, decaying = [], []
    for name, parameter in model.named_parameters():
        still = parameter.ndim < 2 or name == "model.embed_tokens.weight"
        (plain if still else decaying).append((name, parameter))
    return [{"params": decaying}, {"params": plain, "weight_decay": 0.0}]
