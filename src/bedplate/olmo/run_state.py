"""What a run keeps on disk: its checkpoint with the state to resume from, and its metrics."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import numpy as np

from bedplate.errors import CheckpointError
from bedplate.olmo.checkpoint import copy_tokenizer, put_in_place, write_files
from bedplate.olmo.model import Olmo3
from bedplate.optim import Optimizer
from bedplate.tensor import safetensors
from bedplate.tensor.atomic import read_text, write_atomically

CHECKPOINT = "checkpoint"
STATE = "training.safetensors"
METRICS = "metrics.jsonl"
_PARAMETERS = "parameters."
_OPTIMIZER = "optimizer."


@dataclass(frozen=True)
class RunState:
    """All that a resumed run needs, as it was saved."""

    parameters: dict[str, np.ndarray]
    optimizer: dict[str, np.ndarray]
    step: int
    seconds: float
    batches: dict[str, Any]
    random: list[int]
    origin: dict[str, Any]
    config: dict[str, Any]


def write(
    out: Path, model: Olmo3, optimizer: Optimizer, place: dict[str, Any], tokenizer: str | None
) -> None:
    """Write the checkpoint folder of a run.

    The file to resume from holds the parameters too: it is one file, replaced at once, so that
    a crash in the middle never leaves weights of one step beside moments of another.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".checkpoint.", dir=out) as temporary:
        folder = Path(temporary) / CHECKPOINT
        folder.mkdir()
        write_files(model, folder)
        if tokenizer is not None:
            copy_tokenizer(Path(tokenizer), folder)
        arrays = {_PARAMETERS + n: p.numpy(copy=False) for n, p in model.named_parameters()}
        arrays |= {_OPTIMIZER + n: t.numpy(copy=False) for n, t in optimizer.state_dict().items()}
        safetensors.write(folder / STATE, arrays, {"place": json.dumps(place)})
        put_in_place(folder, out / CHECKPOINT)


def read(out: Path) -> RunState:
    """Read what `write` wrote.

    raises  CheckpointError if it is damaged or was written by something else
    """
    path = out / CHECKPOINT / STATE
    arrays = safetensors.File(path)
    try:
        place = json.loads(arrays.metadata["place"])
        return RunState(
            _with_prefix(arrays, _PARAMETERS),
            _with_prefix(arrays, _OPTIMIZER),
            int(place["step"]),
            float(place["seconds"]),
            dict(place["batches"]),
            [int(word) for word in place["random"]],
            dict(place["origin"]),
            dict(place["config"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"resume: {path} is no state of a run: {error!r}") from None


def _with_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}


class Metrics:
    """A line of JSON a step. Lines of steps behind `step`, which a crash threw away, go."""

    def __init__(self, out: Path, step: int) -> None:
        self._path = out / METRICS
        kept = [r for r in read_metrics(self._path) if r["step"] <= step] if step else []
        lines = "".join(json.dumps(record) + "\n" for record in kept)
        write_atomically(self._path, [lines.encode()])
        self._file: TextIO | None = None

    def __enter__(self) -> Metrics:
        self._file = self._path.open("a", encoding="utf-8", buffering=1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, record: dict[str, Any]) -> None:
        """Append one line."""
        if self._file is not None:
            self._file.write(json.dumps(record) + "\n")


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a run; a last line that a crash cut short is left out."""
    records: list[dict[str, Any]] = []
    if not path.exists():
        return records
    for line in read_text(path, most_bytes=1 << 34).splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            break
    return records
