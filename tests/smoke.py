"""Everything once, under a minute: before each commit (`make smoke`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bedplate as bp
import bedplate.nn.functional as F
from bedplate import nn, optim
from bedplate.kernel import f32, i64, kernel, load, loop, ptr, store
from bedplate.olmo import Config, Olmo3, save
from bedplate.olmo import load as load_model


@kernel
def double(n: i64, source: ptr(f32), target: ptr(f32)):  # type: ignore[valid-type]
    for i in loop(n):
        store(target + i, load(source + i) * 2.0)


@pytest.fixture(scope="module")
def model() -> Olmo3:
    bp.manual_seed(3)
    return Olmo3(Config(vocab_size=64, d_model=32, n_heads=2, n_layers=2, intermediate_size=48))


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_a_kernel_compiles_and_is_interpreted() -> None:
    source = normal(37)
    compiled, interpreted = np.zeros(37, np.float32), np.zeros(37, np.float32)
    double(37, source, compiled)
    double.interpret(37, source, interpreted)
    np.testing.assert_array_equal(compiled, source * 2)
    np.testing.assert_array_equal(interpreted, compiled)


def test_a_fused_expression() -> None:
    a, b = normal(5, 700), normal(700)
    y = ((bp.tensor(a) + bp.tensor(b)) * 2).relu().sum(axis=1)
    np.testing.assert_allclose(y.numpy(), np.maximum((a + b) * 2, 0).sum(1), rtol=1e-5)


@pytest.mark.parametrize("sizes", [(3, 4, 5), (65, 130, 67)])
def test_a_product(sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b = normal(m, k), normal(k, n)
    expected = a.astype(np.float64) @ b
    np.testing.assert_allclose((bp.tensor(a) @ bp.tensor(b)).numpy(), expected, atol=1e-4)


def test_gradients() -> None:
    x = bp.tensor(normal(4, 9), requires_grad=True)
    (F.softmax(x, -1) * bp.tensor(normal(4, 9))).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.sum(axis=1).numpy(), 0, atol=1e-6)
    assert bp.gradcheck(lambda x: (x.tanh() ** 2).sum(), [bp.tensor(normal(5).astype(np.float64))])


def test_an_own_operation() -> None:
    class Square(bp.Operation):
        def forward(self, x: bp.Tensor) -> bp.Tensor:
            self.x = x
            return x * x

        def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
            return grad * 2.0 * self.x

    x = bp.tensor([3.0], requires_grad=True)
    Square.apply(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [6.0]


def test_attention_with_a_window() -> None:
    q, k, v = (bp.tensor(normal(1, 2, 40, 16)) for _ in range(3))
    y = F.attention(q, k, v, causal=True, window=8).numpy()
    np.testing.assert_allclose(y[:, :, 0], v.numpy()[:, :, 0], rtol=1e-5)


def test_a_captured_step_learns_and_equals_the_uncaptured() -> None:
    def losses(captured: bool) -> list[float]:
        bp.manual_seed(0)
        network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        optimiser = optim.AdamW(network.parameters(), lr=0.01)
        x, targets = bp.tensor(normal(12, 8)), bp.tensor(np.arange(12) % 4)

        def step() -> bp.Tensor:
            optimiser.zero_grad()
            loss = F.cross_entropy(network(x), targets)
            loss.backward()
            optimiser.step()
            return loss.detach()

        run = bp.jit(step) if captured else step
        return [run().item() for _ in range(8)]

    plain = losses(captured=False)
    assert losses(captured=True) == plain
    assert plain[-1] < plain[0]


def test_a_model_is_saved_loaded_and_writes_the_same(model: Olmo3, tmp_path: Path) -> None:
    save(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    ids = bp.tensor([[1, 2, 3]])
    np.testing.assert_array_equal(again(ids).numpy(), model(ids).numpy())
    first = model.generate([[1, 2, 3]], max_new_tokens=5).tolist()
    assert again.generate([[1, 2, 3]], max_new_tokens=5).tolist() == first
    assert len(first[0]) == 8


def test_a_model_learns(model: Olmo3) -> None:
    optimiser = optim.AdamW(model.parameters(), lr=0.01)
    ids = bp.tensor(np.random.default_rng(0).integers(0, 64, (2, 17)))
    losses = []
    for _ in range(5):
        optimiser.zero_grad()
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_errors_name_the_rule() -> None:
    with pytest.raises(bp.errors.ShapeError, match="matmul"):
        bp.zeros((2, 3)) @ bp.zeros((4, 5))
    with pytest.raises(IndexError, match="index 7 is out of range"):
        bp.zeros((3,))[bp.tensor([7])].numpy()


def test_the_command_line_trains_and_writes(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog\n" * 400)
    command = [sys.executable, "-m", "bedplate.cli.main"]
    train = ["train", "--data", str(text), "--steps", "3", "--out", str(tmp_path / "run")]
    done = subprocess.run([*command, *train], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("held-out loss ")
    checkpoint = last.rsplit("checkpoint ", 1)[1]
    generate = ["generate", "--checkpoint", checkpoint, "--prompt", "the ", "--seed", "1"]
    done = subprocess.run([*command, *generate], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the ")
