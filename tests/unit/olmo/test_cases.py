"""The reference cases: logits, every gradient and greedy tokens as transformers has them."""

import numpy as np
import pytest

from bedplate.olmo import load

NAMES = ["plain", "sliding", "gqa_yarn", "tied"]
LOGITS_TOLERANCE = 2e-5  # of the largest |logit|
GRADIENT_TOLERANCE = 1e-4  # of the gradient's largest entry


@pytest.fixture(params=NAMES)
def case(request, cases):
    folder = cases / request.param
    return load(folder), np.load(folder / "expected.npz")


def test_logits(case):
    model, expected = case
    logits = model(expected["input_ids"]).numpy()
    tolerance = LOGITS_TOLERANCE * np.abs(expected["logits"]).max()
    assert np.abs(logits - expected["logits"]).max() < tolerance


def test_loss_and_every_gradient(case):
    model, expected = case
    ids = expected["input_ids"]
    loss = model.loss(ids[:, :-1], ids[:, 1:])
    assert loss.item() == pytest.approx(expected["loss"].item(), rel=1e-5)
    loss.backward()
    names = {key.removeprefix("grad/") for key in expected.files if key.startswith("grad/")}
    parameters = dict(model.named_parameters())
    assert parameters.keys() == names
    for name, parameter in parameters.items():
        wanted = expected[f"grad/{name}"]
        error = np.abs(parameter.grad.numpy() - wanted).max()
        assert error < GRADIENT_TOLERANCE * np.abs(wanted).max(), name


def test_greedy_tokens(case):
    model, expected = case
    tokens = model.generate(expected["greedy"][:, :5], max_new_tokens=20)
    assert tokens.tolist() == expected["greedy"].tolist()
