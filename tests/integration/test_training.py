"""Training as a whole: resuming to the bit, interruption, crashes, memory, threads."""

import gc
import itertools
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bedplate.data import load_codec
from bedplate.errors import CheckpointError, SettingError
from bedplate.olmo import TrainSettings, load, train
from bedplate.olmo.run_state import STATE
from bedplate.olmo.training import Trainer
from bedplate.tensor import safetensors

SMALL = {
    "vocab_size": 256,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 32,
    "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_theta": 10000.0,
}


@pytest.fixture
def corpus(tmp_path):
    rng = np.random.default_rng(0)
    words = ["def", "return", "x", "(", ")", ":", "=", "1", "\n", "if", "else"]
    for number in range(20):
        text = " ".join(rng.choice(words, 120))
        (tmp_path / "text").mkdir(exist_ok=True)
        (tmp_path / "text" / f"{number:02}.txt").write_text(text)
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    return tmp_path


def settings(corpus, out, **changes):
    options = {
        "data": corpus / "text", "config": corpus / "config.json", "out": corpus / out, "steps": 12
    }  # fmt: skip
    return TrainSettings(**{**options, **changes})


def losses(path):
    lines = (path / "metrics.jsonl").read_text().splitlines()
    return [(record["step"], record["loss"]) for record in map(json.loads, lines)]


def interrupt_at(step):
    def on_progress(progress):
        if progress.step == step:
            raise KeyboardInterrupt

    return on_progress


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_resumed_run_leaves_no_trace(corpus, dropout):
    """B73"""
    (corpus / "config.json").write_text(json.dumps({**SMALL, "attention_dropout": dropout}))
    straight = train(settings(corpus, "a"))
    stopped = train(settings(corpus, "b"), interrupt_at(5))
    assert (stopped.interrupted, stopped.steps) == (True, 5)
    resumed = train(settings(corpus, "b", resume=True))
    assert (resumed.interrupted, resumed.steps) == (False, 12)
    assert losses(corpus / "a") == losses(corpus / "b")
    files = [corpus / run / "checkpoint" / "model.safetensors" for run in "ab"]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert straight.held_out_nats_per_byte == resumed.held_out_nats_per_byte


def test_resuming_over_the_end_of_an_epoch(corpus):
    """B73"""

    def few(out, **changes):
        trainer = Trainer(settings(corpus, out, steps=200, **changes))
        return trainer

    straight = few("a")
    n_batches = straight.batches.n_batches
    wanted = [straight.train_step()["loss"] for _ in range(n_batches + 4)]
    first = few("b")
    found = [first.train_step()["loss"] for _ in range(n_batches - 1)]
    first.save()
    second = few("b", resume=True)
    found += [second.train_step()["loss"] for _ in range(5)]
    assert found == wanted
    assert (second.batches.epoch, second.batches.offset) == (1, 4)


def test_it_learns_and_the_checkpoint_is_what_was_trained(corpus):
    result = train(settings(corpus, "run", steps=60))
    curve = [loss for _, loss in losses(corpus / "run")]
    assert curve[-1] < 0.7 * curve[0]
    assert result.held_out_nats_per_byte < 0.7 * curve[0]
    assert result.tokens_per_second > 0
    picture = result.curve_path.read_text()
    assert picture.startswith("<svg") and picture.rstrip().endswith("</svg>")
    model, codec = load(result.checkpoint), load_codec(result.checkpoint)
    text = codec.decode(model.generate(codec.encode("def "), max_new_tokens=8).tolist())
    assert text.startswith("def ")


def test_the_step_is_captured_once_and_replayed(corpus):
    trainer = Trainer(settings(corpus, "run"))
    for _ in range(4):
        trainer.train_step()
    lines = trainer._captured.report().splitlines()
    assert len(lines) == 2
    assert "replayed from now on" in lines[1]


def test_progress_says_where_a_run_stands(corpus):
    seen = []
    train(settings(corpus, "run"), seen.append)
    assert [progress.step for progress in seen] == list(range(1, 13))
    assert seen[-1].fraction == 1.0 and seen[-1].seconds_left == 0.0
    assert all(a.seconds < b.seconds for a, b in itertools.pairwise(seen))
    assert any(progress.held_out is not None for progress in seen)
    rates = [progress.learning_rate for progress in seen]
    assert rates[0] > rates[-1] > 0


def test_time_ends_a_run(corpus):
    seen = []
    result = train(settings(corpus, "run", steps=None, minutes=0.02), seen.append)
    assert not result.interrupted
    assert seen[-1].seconds >= 1.2
    assert seen[-1].fraction == 1.0


def test_metrics_of_steps_that_a_crash_threw_away_go(corpus):
    train(settings(corpus, "run"), interrupt_at(5))
    with (corpus / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "loss": 0.0}\n{"step": 7, "lo')
    train(settings(corpus, "run", resume=True))
    assert [step for step, _ in losses(corpus / "run")] == list(range(1, 13))


def test_a_crash_in_the_middle_of_saving_leaves_the_old_state(corpus, monkeypatch):
    train(settings(corpus, "run"), interrupt_at(5))
    state = corpus / "run" / "checkpoint" / STATE
    before = state.read_bytes()
    trainer = Trainer(settings(corpus, "run", resume=True))
    trainer.train_step()

    def fail(*arguments):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        trainer.save()
    monkeypatch.undo()
    assert state.read_bytes() == before
    assert train(settings(corpus, "run", resume=True)).steps == 12


def test_a_damaged_state_is_refused(corpus):
    train(settings(corpus, "run"), interrupt_at(5))
    state = corpus / "run" / "checkpoint" / STATE
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="truncated"):
        train(settings(corpus, "run", resume=True))
    safetensors.write(state, {"a": np.zeros(1)})
    with pytest.raises(CheckpointError, match="is no state of a run"):
        train(settings(corpus, "run", resume=True))


def test_runs_are_not_overwritten_by_chance(corpus):
    train(settings(corpus, "run", steps=1))
    with pytest.raises(SettingError, match="holds a run; give --resume"):
        train(settings(corpus, "run", steps=1))
    assert train(settings(corpus, "run", steps=2, overwrite=True)).steps == 2
    with pytest.raises(SettingError, match="holds no run to resume"):
        train(settings(corpus, "other", resume=True))


def test_a_run_is_not_resumed_with_what_it_does_not_have(corpus):
    train(settings(corpus, "run", steps=1))
    other = corpus / "other.json"
    other.write_text(json.dumps({**SMALL, "hidden_size": 64}))
    for changes, message in [
        ({"data": corpus / "config.json"}, "goes on with data = "),
        ({"preset": "small"}, "goes on with preset = 'demo', not 'small'"),
        ({"seed": 5}, "goes on with seed = 0, not 5"),
        ({"config": other}, "other.json is another"),
    ]:
        with pytest.raises(SettingError, match=re.escape(message)):
            train(settings(corpus, "run", resume=True, **changes))
    assert train(settings(corpus, "run", resume=True, data=None, config=None, steps=2)).steps == 2


REFUSED = [
    ({"preset": "huge"}, "there is no preset 'huge'; there are demo"),
    ({"minutes": 1.0}, "give steps or minutes, not both"),
    ({"steps": 0}, "steps = 0 is not positive"),
    ({"steps": None, "minutes": -1.0}, "minutes = -1.0 is not positive"),
    ({"resume": True, "overwrite": True}, "give one"),
    ({"seed": -1}, "seed = -1 is negative"),
    ({"seed": 1 << 64}, "is not below 2**64"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_refused_settings(corpus, changes, message):
    with pytest.raises(SettingError, match=re.escape(message)):
        settings(corpus, "run", **changes)


def test_a_vocabulary_that_is_too_small(corpus):
    (corpus / "config.json").write_text(json.dumps({**SMALL, "vocab_size": 100}))
    with pytest.raises(SettingError, match="vocab_size = 100 is too small"):
        train(settings(corpus, "run"))


SCRIPT = """
import sys
from pathlib import Path
from bedplate.olmo import TrainSettings, train
root = Path(sys.argv[1])
chosen = TrainSettings(
    data=root / "text", config=root / "config.json", out=root / sys.argv[2], steps=int(sys.argv[3])
)
result = train(chosen, lambda progress: print(progress.step, progress.loss.hex(), flush=True))
print("interrupted", result.interrupted)
"""


def start(corpus, out, steps, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(corpus), out, str(steps)],
        env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_killed_run_can_be_resumed(corpus):
    process = start(corpus, "run", 100_000)
    process.stdout.readline()
    process.kill()
    process.communicate(timeout=60)
    assert train(settings(corpus, "run", resume=True, steps=3)).steps == 3
    assert [step for step, _ in losses(corpus / "run")] == [1, 2, 3]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_control_c_saves_and_exits_cleanly(corpus, number):
    with start(corpus, "run", 100_000) as process:
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(number)
        lines += process.stdout.readlines()
    assert process.returncode == 0
    assert lines.pop() == "interrupted True\n"
    last = int(lines[-1].split()[0])
    resumed = train(settings(corpus, "run", resume=True, steps=last + 1))
    assert resumed.steps == last + 1


def test_one_and_two_threads_give_the_same_bits(corpus):
    outputs = []
    for threads in ("1", "2"):
        process = start(corpus, f"run{threads}", 6, BEDPLATE_NUM_THREADS=threads)
        outputs.append(process.communicate(timeout=120)[0])
        assert process.returncode == 0
    assert outputs[0] == outputs[1]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_memory_is_flat_without_the_garbage_collector(corpus):
    trainer = Trainer(settings(corpus, "run", steps=100_000))
    gc.collect()
    gc.disable()
    try:
        sizes = []
        for _ in range(4):
            for _ in range(75):
                trainer.train_step()
            sizes.append(resident_bytes())
    finally:
        gc.enable()
    assert sizes[-1] - sizes[0] < 1 << 20, sizes


def resident_bytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
