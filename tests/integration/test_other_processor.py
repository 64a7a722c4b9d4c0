"""The whole stack on a lesser processor: made for AVX2 on a machine that has more."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

import bedplate as bp
from bedplate.kernel import host
from bedplate.kernel.target import find_target

SCRIPT = """
import sys
import numpy as np
import bedplate as bp
from bedplate.kernel import f32, host

x = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)
values = [bp.exp(bp.tensor(x)), bp.softmax(bp.tensor(x) @ bp.tensor(x.T)), bp.tensor(x).sum()]
sys.stdout.write(f"{host().lanes(f32)} " + " ".join(v.numpy().tobytes().hex() for v in values))
"""


def run(target: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "BEDPLATE_TARGET": target}
    command = [sys.executable, "-c", SCRIPT]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)


def test_avx2_gives_the_same_values() -> None:
    if not find_target("avx2").runs_here:
        return
    done = run("avx2")
    assert done.returncode == 0, done.stderr
    lanes, *texts = done.stdout.split(" ")
    assert lanes == "8"
    exponential, softmax, total = (np.frombuffer(bytes.fromhex(t), np.float32) for t in texts)
    x = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)
    assert exponential.tobytes() == bp.exp(bp.tensor(x)).numpy().tobytes()
    wanted = bp.softmax(bp.tensor(x) @ bp.tensor(x.T)).numpy()
    np.testing.assert_allclose(softmax.reshape(40, 40), wanted, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(total, x.sum(dtype=np.float64), rtol=1e-5)


def test_a_target_that_cannot_run_is_refused() -> None:
    other = "avx2" if host().triple.startswith("aarch64") else "aarch64"
    done = run(other)
    assert done.returncode != 0
    assert f"config.target='{other}': this machine cannot run its code" in done.stderr
