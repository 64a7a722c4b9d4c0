"""The benchmarks' own machinery: answers, checks, medians, tables, and one real run."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bedplate.olmo import PRESETS, Config
from benchmarks import case as case_of
from benchmarks import cases, harness, limits, model_cases, peer, report, worker
from benchmarks.peers import bedplate_models

ROOT = Path(__file__).resolve().parents[3]

CHAIN = next(case for case in cases.all_cases() if case.name == "elementwise/chain-1e3")


def measured(name: str, *rounds: float) -> harness.Measured:
    return harness.Measured(CHAIN, name, 0.5, "1.0", list(rounds))


def row(name: str, seconds: float, **more: object) -> dict:
    return {"case": CHAIN.name, "peer": name, "median_seconds": seconds, "spread": 0.01,
            "limit_seconds": 0.5, **more}  # fmt: skip


def test_names_are_unique() -> None:
    names = [case.name for case in cases.all_cases()]
    assert len(set(names)) == len(names)


def test_a_group_or_a_part_of_a_name_chooses() -> None:
    assert {case.name for case in cases.chosen("chain-1e6")} == {"elementwise/chain-1e6"}
    assert all("spine" in case.groups for case in cases.chosen("spine"))
    assert len(cases.chosen(None)) == len(cases.all_cases())
    assert cases.chosen("no such case") == []


def test_several_words_choose_what_each_chooses() -> None:
    names = [case.name for case in cases.chosen("chain-1e3, matmul/64,spine")]
    assert "elementwise/chain-1e3" in names and "matmul/64" in names
    assert {case.name for case in cases.chosen("spine")} <= set(names)
    assert names == [case.name for case in cases.all_cases() if case.name in names]


def test_a_case_may_be_for_eager_peers_or_for_those_that_compile() -> None:
    eager, jit = (case_of.Case("c", "add", {"calls": mode}) for mode in ("eager", "jit"))
    assert (eager.suits(True), eager.suits(False)) == (False, True)
    assert (jit.suits(True), jit.suits(False)) == (True, False)
    assert CHAIN.suits(True) and CHAIN.suits(False)


def test_every_kind_with_an_answer_is_a_product_of_its_inputs() -> None:
    seen = set()
    for case in cases.all_cases():
        if case.kind in seen or case.flops > 1e9 or sum(case.moved) > 1e8:
            continue
        seen.add(case.kind)
        answer = case.answer(case.inputs())
        assert answer is None or all(np.isfinite(array).all() for array in answer)
    assert {"matmul", "chain", "softmax", "mlp_step", "optimiser", "group_norm"} <= seen


def gradient_by_differences(case: case_of.Case, inputs: list[np.ndarray], which: int) -> np.ndarray:
    grad = inputs[-1]
    result = np.zeros(inputs[which].shape)
    for index in np.ndindex(*result.shape):
        values = []
        for step in (1e-6, -1e-6):
            moved = [array.astype(np.float64).copy() for array in inputs]
            moved[which][index] += step
            answer = case.answer(moved)
            assert answer is not None
            values.append((answer[0] * grad).sum())
        result[index] = (values[0] - values[1]) / 2e-6
    return result


@pytest.mark.parametrize(
    ("kind", "parameters", "n_leaves"),
    [
        ("softmax", {"rows": 2, "columns": 5, "backward": True}, 1),
        ("rms_norm", {"rows": 2, "columns": 5, "weight": True, "backward": True}, 2),
        ("attention", {"heads": 1, "time": 4, "dim": 3, "window": 2, "backward": True}, 3),
        ("attention", {"heads": 4, "kv_heads": 2, "time": 3, "dim": 2, "backward": True}, 3),
        ("group_norm", {"batch": 2, "channels": 4, "size": 2, "groups": 2, "backward": True}, 1),
    ],
)
def test_the_gradients_that_peers_are_held_to_are_right(
    kind: str, parameters: dict, n_leaves: int
) -> None:
    case = case_of.Case(kind, kind, parameters)
    inputs = case.inputs()
    answer = case.answer(inputs)
    assert answer is not None
    for leaf in range(n_leaves):
        expected = gradient_by_differences(case, inputs, leaf)
        np.testing.assert_allclose(answer[1 + leaf], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([[1.0, 2.0]], ""),
        ([[1.0, 2.1]], "off by 0.05"),
        ([[1.0, float("nan")]], "off by nan"),
        ([[1.0]], "1 values, expected 2"),
        ([], "0 results, expected 1"),
    ],
)
def test_a_wrong_result_is_told(found: list, message: str) -> None:
    told = harness.difference([np.array([1.0, 2.0])], found, 1e-3)
    assert message in told
    assert bool(told) == bool(message)


def test_samples_depend_on_the_size_alone() -> None:
    array = np.arange(100_000)
    np.testing.assert_array_equal(worker.sample(array), worker.sample(array.reshape(10, -1)))
    np.testing.assert_array_equal(worker.sample(np.arange(5)), np.arange(5))


def test_the_ratio_is_best_peer_over_our_best() -> None:
    rows = [row("bedplate", 2.0), row("bedplate-jit", 1.0), row("numpy", 3.0)]
    assert report.ratio(rows) == 3.0
    assert report.ratio(rows[:2]) is None
    assert report.reached(rows) == 0.5
    assert report.mean_ratio(rows) == (pytest.approx(3.0), 1)


def test_the_limit_is_the_larger_bound_with_the_faster_copy() -> None:
    rows = [
        measured("limit-arithmetic", 1.0),
        measured("limit-memory", 4.0),
        measured("limit-memory-nontemporal", 2.0),
        measured("numpy", 9.0),
    ]
    assert limits.limit_seconds(rows) == 2.0
    assert limits.limit_seconds(rows[3:]) is None


def test_spread_is_the_distance_of_the_quartiles() -> None:
    assert measured("numpy", 1.0, 1.0, 1.0).spread == 0.0
    assert measured("numpy", 1.0, 2.0, 3.0).spread == pytest.approx(1.0)
    assert measured("numpy", 1.0).spread == 0.0


def test_the_demo_case_is_the_demo_preset() -> None:
    preset = PRESETS["demo"]
    config = Config(**model_cases.DEMO["config"])
    expected = preset.config()
    for word in ("d_model", "n_layers", "n_heads", "intermediate_size", "vocab_size",
                 "sliding_window", "layer_types"):  # fmt: skip
        assert getattr(config, word) == getattr(expected, word), word
    assert (model_cases.DEMO["batch"], model_cases.DEMO["time"]) == (
        preset.batch_size,
        preset.seq_len,
    )


def test_children_have_no_blas_override(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    environment = peer.child_environment(3, {"EXTRA": "1"})
    assert "OPENBLAS_CORETYPE" not in environment
    assert environment["OMP_NUM_THREADS"] == environment["BEDPLATE_NUM_THREADS"] == "3"
    assert environment["EXTRA"] == "1"


def test_the_model_that_peers_are_held_to_is_the_products() -> None:
    p = {"config": model_cases.olmo_config(32, 4, 48, sliding_window=3), "batch": 2, "time": 7}
    case = case_of.Case("train", "train_step", p)
    inputs = case.inputs()
    answer = case.answer(inputs)
    assert answer is not None
    run = bedplate_models.train_step(p, inputs)
    np.testing.assert_allclose(run()[0].numpy(), answer[0], rtol=1e-5)


def test_a_run_writes_the_table_and_the_rows(tmp_path: Path) -> None:
    target = tmp_path / "rows.json"
    command = [sys.executable, "-m", "benchmarks", "--only", "chain-1e3", "--peers",
               "bedplate,numpy", "--rounds", "2", "--budget", "0.01", "--python", sys.executable,
               "--json", str(target)]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "elementwise/chain-1e3" in done.stdout
    rows = json.loads(target.read_text())
    assert {row["peer"] for row in rows} == {"bedplate", "numpy"}
    for row in rows:
        assert {"case", "peer", "median_seconds", "spread", "limit_seconds"} <= set(row)
        assert row["median_seconds"] > 0 and row["limit_seconds"] > 0
    command[command.index("chain-1e3")] = "chain-1e3,add8x8-eager"
    done = subprocess.run(
        [*command, "--resume"], cwd=ROOT, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert "elementwise/chain-1e3" not in done.stderr  # where what is measured is told
    again = json.loads(target.read_text())
    assert again[: len(rows)] == rows
    assert {row["case"] for row in again[len(rows) :]} == {"dispatch/add8x8-eager"}


def test_there_must_be_a_file_to_go_on_with(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--resume", "--json", str(tmp_path / "rows")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "--resume goes on with the file of --json" in done.stderr


def test_an_unknown_peer_is_refused() -> None:
    command = [sys.executable, "-m", "benchmarks", "--peers", "abacus"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "unknown peer abacus; there are bedplate" in done.stderr


def test_a_failing_peer_is_left_out_with_its_words() -> None:
    class Broken:
        name = "broken"

        def ask(self, do: str, **arguments: object) -> dict:
            raise peer.PeerError("a traceback\nout of memory")

    told: list[str] = []
    broken = harness.Harness([Broken()], 1, 0.01, told.append)  # type: ignore[list-item]
    assert broken.measure(replace(CHAIN)) == []
    assert told == ["elementwise/chain-1e3: broken: out of memory"]


def test_a_peer_that_ends_is_told_and_begun_anew() -> None:
    process = peer.Process("numpy", sys.executable, 1)
    process.process.kill()
    process.process.wait()
    with pytest.raises(peer.PeerError, match="numpy ended"):
        process.ask("versions")
    assert process.ask("versions")["version"] == np.__version__
    process.close()


def test_no_peer_keeps_a_case_not_even_one_that_was_wrong() -> None:
    class Wrong:
        name, version = "wrong", "1.0"
        dropped = restarted = 0

        def ask(self, do: str, **arguments: object) -> dict:
            if do == "drop":
                self.dropped += 1
                return {"resident_bytes": harness.RESIDENT_BYTES + self.dropped - 1}
            return {"first_seconds": 0.0, "samples": [[0.0]]}

        def restart(self) -> None:
            self.restarted += 1

    wrong, told = Wrong(), []
    runner = harness.Harness([wrong], 1, 0.01, told.append)  # type: ignore[list-item]
    assert runner.measure(CHAIN) == []
    assert len(told) == 1 and "is wrong" in told[0]
    assert (wrong.dropped, wrong.restarted) == (1, 0)
    runner.measure(CHAIN)
    assert (wrong.dropped, wrong.restarted) == (2, 1)


def test_what_a_process_holds_is_said_after_a_case_and_it_begins_anew() -> None:
    process = peer.Process("numpy", sys.executable, 1)
    first = process.process.pid
    process.ask("prepare", case=CHAIN.name)
    held = process.ask("drop")["resident_bytes"]
    assert 10e6 < held < harness.RESIDENT_BYTES
    process.restart()
    assert process.process.pid != first
    assert process.ask("prepare", case=CHAIN.name)["samples"]
    process.close()


def test_a_peer_that_takes_too_long_is_ended() -> None:
    process = peer.Process("numpy", sys.executable, 1)
    with pytest.raises(peer.PeerError, match="took more than 0 s"):
        process.ask("versions", limit=0.0)
    process.close()
