"""OLMo 3 on the OpenCL device: the reference cases, and training steps with the bits of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import SWEEP

import bedplate as bp
from bedplate.nn import Conv2d, Flatten, Linear, MaxPool2d, ReLU, Sequential
from bedplate.olmo import Config, Olmo3, load
from bedplate.optim import AdamW, clip_grad_norm_
from bedplate.tensor import manual_seed

pytestmark = pytest.mark.sweep
CASES = Path(__file__).parents[1] / "data" / "olmo3"
LOGITS_TOLERANCE, GRADIENT_TOLERANCE = 2e-5, 1e-4  # as tests/unit/olmo/test_cases.py


@pytest.fixture(autouse=True)
def _optimised_in_sweeps() -> Iterator[None]:
    """The driver's optimiser takes most of the time: it works in `make sweep`."""
    with bp.config(opencl_options="" if SWEEP == "full" else "-cl-opt-disable"):
        yield


@pytest.fixture(params=["plain", "sliding", "gqa_yarn", "tied"])
def case(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    folder = CASES / request.param
    return load(folder).to("opencl"), np.load(folder / "expected.npz")


def test_logits_gradients_and_greedy_tokens(case: tuple[Any, Any]) -> None:
    model, expected = case
    ids = expected["input_ids"]
    logits = model(ids)
    assert logits.device == bp.Device("opencl")
    largest = np.abs(expected["logits"]).max()
    assert np.abs(logits.numpy() - expected["logits"]).max() < LOGITS_TOLERANCE * largest
    loss = model.loss(ids[:, :-1], ids[:, 1:])
    assert loss.item() == pytest.approx(expected["loss"].item(), rel=1e-5)
    loss.backward()
    for name, parameter in model.named_parameters():
        wanted = expected[f"grad/{name}"]
        error = np.abs(parameter.grad.numpy() - wanted).max()
        assert error < GRADIENT_TOLERANCE * np.abs(wanted).max(), name
    tokens = model.generate(expected["greedy"][:, :5], max_new_tokens=20)
    assert tokens.tolist() == expected["greedy"].tolist()


def small_olmo(dtype: str) -> Any:
    kinds = ["sliding_attention", "full_attention"]
    return Olmo3(
        Config(
            vocab_size=64, d_model=32, intermediate_size=48, n_layers=2, n_heads=4, n_kv_heads=2,
            seq_len=64, sliding_window=3, layer_types=kinds, rope_theta=10000.0,
        ),
        dtype,
    )  # fmt: skip


def trained(model: Any, device: str, loss: Any, captured: bool) -> list[np.ndarray[Any, Any]]:
    """The losses of three steps, and all parameters after them."""
    model = model.to(device)
    optimiser = AdamW(model.parameters(), lr=1e-2)

    def step() -> Any:
        optimiser.zero_grad()
        total = loss(model, device)
        total.backward()
        clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=False)
        optimiser.step()
        return total

    run = bp.jit(step) if captured else step
    losses = [run().numpy().copy() for _ in range(3)]
    return [*losses, *(parameter.numpy() for parameter in model.parameters())]


def assert_same_training(make: Any, loss: Any, captured: bool) -> None:
    results = []
    for device in ("opencl", "cpu"):
        manual_seed(3)
        results.append(trained(make(), device, loss, captured))
    for got, wanted in zip(*results, strict=True):
        assert got.tobytes() == wanted.tobytes()
    assert results[0][2] < results[0][0]


KINDS = [("float32", True), ("bfloat16", False)]


@pytest.mark.parametrize(("dtype", "captured"), KINDS[: 2 if SWEEP == "full" else 1])
def test_training_olmo3_has_the_bits_of_the_cpu(dtype: str, captured: bool) -> None:
    ids = np.random.default_rng(0).integers(0, 64, (2, 17))

    def loss(model: Any, device: str) -> Any:
        return model.loss(ids[:, :-1], ids[:, 1:], z_loss=1e-5)

    assert_same_training(lambda: small_olmo(dtype), loss, captured)


def test_training_a_convolutional_net_has_the_bits_of_the_cpu() -> None:
    generator = np.random.default_rng(1)
    images = generator.normal(size=(4, 3, 12, 12)).astype(np.float32)
    classes = generator.integers(0, 5, 4)

    def make() -> Any:
        return Sequential(
            Conv2d(3, 8, 3, padding=1), ReLU(), MaxPool2d(2), Conv2d(8, 8, 3), ReLU(), Flatten(),
            Linear(8 * 4 * 4, 5),
        )  # fmt: skip

    def loss(model: Any, device: str) -> Any:
        scores = model(bp.Tensor(images, device))
        return bp.cross_entropy(scores, bp.Tensor(classes, device))

    assert_same_training(make, loss, False)
