"""Killed in the middle of a save, or out of disk: the old file is whole, or the new one."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import bedplate as bp
from bedplate import olmo
from bedplate.olmo.run_state import STATE

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX")

# Saves turn after turn what tells its turn in every element, and says when a turn begins.
PROGRAM = """
import resource, signal, sys
from pathlib import Path
import numpy as np
import bedplate as bp
from bedplate import olmo

kind, path, first, most_bytes = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])

def table(turn):
    return {f"x{i}": bp.full((1 << 19,), float(turn)) for i in range(8)}

def save(turn):
    if kind == "weights":
        config = olmo.Config(vocab_size=512, hidden_size=128, num_hidden_layers=4,
            num_attention_heads=2, num_key_value_heads=2, intermediate_size=256)
        model = olmo.Olmo3(config)
        for parameter in model.parameters():
            with bp.no_grad():
                parameter.assign(bp.full(parameter.shape, float(turn)))
        olmo.save(model, path)
    elif kind == ".npy":
        bp.save(bp.full((1 << 22,), float(turn)), path)
    else:
        bp.save(table(turn), path)

if most_bytes:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    try:
        save(first)
    except OSError as error:
        print("refused", error.errno, flush=True)
else:
    for turn in range(first, 1 << 20):
        print("turn", turn, flush=True)
        save(turn)
"""
KINDS = [".safetensors", ".npz", ".npy", "weights"]


def start(kind, path, first, most_bytes=0):
    command = [sys.executable, "-c", PROGRAM, kind, str(path), str(first), str(most_bytes)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def turns_in(kind, path):
    """The turns that the elements of a file or folder tell."""
    if kind == "weights":
        arrays = [p.detach().numpy() for p in olmo.load(path).parameters()]
    elif kind == ".npy":
        arrays = [bp.load(path).numpy()]
    else:
        arrays = [x.numpy() for x in bp.load(path).values()]
        assert len(arrays) == 8
    return set(np.unique(np.concatenate([a.ravel() for a in arrays])).tolist())


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_any_moment(kind, tmp_path):
    path = tmp_path / ("model" if kind == "weights" else f"x{kind}")
    draw, last = random.Random(kind), -1.0
    for first in (0, 1000, 2000):
        process = start(kind, path, first)
        for _ in range(2):  # one is saved
            process.stdout.readline()
        time.sleep(draw.uniform(0, 0.06))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        (turn,) = turns_in(kind, path)
        assert turn > last
        last = turn


@pytest.mark.parametrize("kind", KINDS)
def test_no_room_on_the_disk(kind, tmp_path):
    path = tmp_path / ("model" if kind == "weights" else f"x{kind}")
    process = start(kind, path, 7)
    for _ in range(2):
        process.stdout.readline()
    process.kill()
    process.communicate(timeout=60)
    (before,) = turns_in(kind, path)
    names = set(os.listdir(tmp_path))
    answer = start(kind, path, 5, most_bytes=1 << 18).communicate(timeout=60)[0]
    assert answer.startswith("refused")
    assert turns_in(kind, path) == {before}
    assert set(os.listdir(tmp_path)) == names  # nothing half-written is left


TRAINING = """
import resource, signal, sys
from pathlib import Path
from bedplate.olmo import TrainSettings
from bedplate.olmo.training import Trainer

root, resume, most_bytes = Path(sys.argv[1]), sys.argv[2] == "resume", int(sys.argv[3])
trainer = Trainer(TrainSettings(
    data=root / "text", config=root / "config.json", out=root / "run", steps=100_000, resume=resume
))
if most_bytes:
    trainer.train_step()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    try:
        trainer.save()
    except OSError as error:
        print("refused", error.errno, flush=True)
else:
    while True:
        trainer.train_step()
        print("step", flush=True)
        trainer.save()
"""


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_text("def f(x):\n    return x + 1\n" * 200)
    config = {
        "vocab_size": 256, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 2, "max_position_embeddings": 32, "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"], "rope_theta": 10000.0,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def start_training(root, resume, most_bytes=0):
    command = [sys.executable, "-c", TRAINING, str(root), "resume" if resume else "", "0"]
    command[-1] = str(most_bytes)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_run_that_is_killed_while_it_saves_or_has_no_room(corpus):
    draw = random.Random(3)
    state = corpus / "run" / "checkpoint" / STATE
    for turn in range(4):
        process = start_training(corpus, turn > 0)
        for _ in range(3):  # two were saved
            assert process.stdout.readline() == "step\n"
        time.sleep(draw.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        assert all(np.isfinite(x.numpy()).all() for x in bp.load(state).values())
        olmo.load(state.parent)
    before = state.read_bytes()
    answer = start_training(corpus, True, most_bytes=1 << 16).communicate(timeout=60)[0]
    assert answer.startswith("refused")
    assert state.read_bytes() == before
    with start_training(corpus, True) as process:
        assert process.stdout.readline() == "step\n"
        process.kill()
