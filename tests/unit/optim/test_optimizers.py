"""Optimisers against their formulas in float64, master weights, states, skipped steps."""

import math

import numpy as np
import pytest

import bedplate as bp
from bedplate.dtypes import bfloat16, float64
from bedplate.errors import CheckpointError
from bedplate.nn import Parameter
from bedplate.optim import SGD, Adam, AdamW, SkipStepAdamW
from bedplate.tensor import tensor

STEPS = 5


def run(optimizer, parameter, grads):
    for grad in grads:
        parameter.grad = tensor(grad).astype(parameter.dtype)
        optimizer.step()
    return parameter.astype("float64").numpy()


def grads_and_weight():
    rng = np.random.default_rng(0)
    return rng.normal(size=(STEPS, 3)), rng.normal(size=3)


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adam(decoupled, weight_decay):
    grads, weight = grads_and_weight()
    parameter = Parameter(tensor(weight))
    kind = AdamW if decoupled else Adam
    settings = {"lr": 0.01, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": weight_decay}
    found = run(kind([parameter], **settings), parameter, grads)
    m = v = np.zeros(3)
    for t, g in enumerate(grads, 1):
        if decoupled:
            weight = weight * (1 - 0.01 * weight_decay)
        else:
            g = g + weight_decay * weight
        m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
        root = np.sqrt(v / (1 - 0.95**t)) + 1e-8
        weight = weight - 0.01 / (1 - 0.9**t) * m / root
    assert found == pytest.approx(weight, rel=1e-13)


@pytest.mark.parametrize(
    ("momentum", "nesterov", "weight_decay"), [(0, False, 0), (0.9, False, 0.1), (0.9, True, 0)]
)
def test_sgd(momentum, nesterov, weight_decay):
    grads, weight = grads_and_weight()
    parameter = Parameter(tensor(weight))
    optimizer = SGD([parameter], 0.1, momentum, weight_decay, nesterov)
    found = run(optimizer, parameter, grads)
    m = np.zeros(3)
    for g in grads:
        g = g + weight_decay * weight
        m = momentum * m + g
        weight = weight - 0.1 * (g + momentum * m if nesterov else m)
    assert found == pytest.approx(weight, rel=1e-13)


def test_small_steps_do_not_vanish_in_bfloat16():
    """B62"""
    parameter = Parameter(tensor([1.0]).astype(bfloat16))
    optimizer = AdamW([parameter], lr=6e-4, weight_decay=0.0)
    found = run(optimizer, parameter, [[1.0]] * 100)
    assert optimizer.state[0]["master"].item() == pytest.approx(0.94, abs=1e-4)
    assert found == pytest.approx([0.9414], abs=1e-3)


def test_decay_alone():
    """B62"""
    parameter = Parameter([1.0])
    found = run(AdamW([parameter], lr=0.1, weight_decay=0.5), parameter, [[0.0]])
    assert found == pytest.approx([0.95], abs=1e-7)


def test_a_parameter_without_gradient_stays():
    moved, still = Parameter([1.0]), Parameter([1.0])
    run(AdamW([moved, still], lr=0.1), moved, [[1.0]])
    assert still.tolist() == [1.0]
    assert moved.tolist() != [1.0]


def test_groups_have_settings_of_their_own():
    first, second = Parameter([1.0]), Parameter([1.0])
    groups = [{"params": [first]}, {"params": [second], "lr": 1.0}]
    optimizer = SGD(groups, lr=0.1)
    second.grad = tensor([1.0])
    run(optimizer, first, [[1.0]])
    assert first.tolist() == pytest.approx([0.9])
    assert second.tolist() == pytest.approx([0.0])


def test_the_rate_can_be_set():
    parameter = Parameter([1.0])
    optimizer = SGD([parameter], lr=0.1)
    held = optimizer.param_groups[0]["lr"]
    optimizer.param_groups[0]["lr"] = 0.5
    assert held.item() == 0.5
    assert run(optimizer, parameter, [[1.0]]) == pytest.approx([0.5])
    with pytest.raises(ValueError, match="'momentum' is fixed once"):
        optimizer.param_groups[0]["momentum"] = 0.9


def test_state_goes_round():
    grads, weight = grads_and_weight()
    straight = Parameter(tensor(weight))
    wanted = run(AdamW([straight], lr=0.01), straight, grads)
    parameter = Parameter(tensor(weight))
    first = AdamW([parameter], lr=0.01)
    run(first, parameter, grads[:2])
    second = AdamW([parameter], lr=7.0)
    second.load_state_dict({name: value.numpy() for name, value in first.state_dict().items()})
    assert (run(second, parameter, grads[2:]) == wanted).all()


def test_a_state_that_does_not_fit():
    optimizer = AdamW([("w", Parameter([1.0]))])
    state = dict(optimizer.state_dict())
    del state["state.w.exp_avg"]
    with pytest.raises(CheckpointError, match=r"state\.w\.exp_avg is missing"):
        optimizer.load_state_dict(state)
    wrong = {**optimizer.state_dict(), "state.w.exp_avg": tensor([1.0, 2.0])}
    with pytest.raises(CheckpointError, match=r"state\.w\.exp_avg is \(2,\), expected \(1,\)"):
        optimizer.load_state_dict(wrong)


REFUSED = [
    (lambda: AdamW([]), "got no parameters"),
    (lambda: AdamW([Parameter([1.0])], betas=(1.0, 0.9)), r"betas = \(1.0, 0.9\) are not"),
    (lambda: AdamW([Parameter([1.0])], eps=-1.0), "eps = -1.0 is negative"),
    (lambda: SGD([Parameter([1.0])], momentum=1.0), r"momentum = 1.0 is not in \[0, 1\)"),
    (lambda: SGD([Parameter([1.0])], nesterov=True), "nesterov needs a momentum"),
    (lambda: SGD([{"params": [Parameter([1.0])], "speed": 1}]), "unknown setting 'speed'"),
    (lambda: SkipStepAdamW([Parameter([1.0])], window=1), "window = 1 holds no spread"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_parameter_in_two_groups():
    parameter = Parameter([1.0])
    with pytest.raises(ValueError, match="comes twice"):
        SGD([{"params": [parameter]}, {"params": [parameter]}])
    with pytest.raises(ValueError, match="parameter 1 comes twice"):
        SGD([parameter, parameter])


def test_what_is_no_parameter():
    with pytest.raises(TypeError, match="parameter 0 is a int, not a tensor"):
        AdamW([3])


@pytest.mark.parametrize("rates", [{"lr": -1.0}, {"lr": math.nan}, {"weight_decay": -0.1}])
def test_rates_are_not_negative(rates):
    (key,) = rates
    with pytest.raises(ValueError, match=f"optimizer: {key} = .* is not 0 or more"):
        AdamW([Parameter([1.0])], **rates)


# ---- the AdamW that leaves out bad steps


def skipping(window=8):
    parameter = Parameter(tensor([1.0, -1.0]))
    return parameter, SkipStepAdamW([parameter], lr=0.01, window=window)


def one_step(parameter, optimizer, loss, grad=(1.0, 1.0), norm=1.0):
    parameter.grad = tensor(list(grad))
    optimizer.step(tensor(loss, dtype=float64), tensor(norm, dtype=float64))


def test_usual_steps_are_those_of_adamw():
    parameter, optimizer = skipping()
    other = Parameter(tensor([1.0, -1.0]))
    plain = AdamW([other], lr=0.01)
    for loss in (3.0, 2.9, 2.8, 2.85, 2.7, 2.75, 2.6):
        one_step(parameter, optimizer, loss)
        other.grad = tensor([1.0, 1.0])
        plain.step()
    assert parameter.tolist() == other.tolist()
    assert optimizer.n_skipped.item() == 0


@pytest.mark.parametrize(
    "bad", [{"loss": 50.0}, {"loss": 2.5, "norm": 50.0}, {"loss": math.nan}, {"loss": math.inf}]
)
def test_outliers_are_left_out(bad):
    parameter, optimizer = skipping()
    for loss, norm in zip(
        (3.0, 2.9, 2.8, 2.7, 2.65, 2.6), (1.0, 1.1, 0.9, 1.0, 1.2, 1.0), strict=True
    ):
        one_step(parameter, optimizer, loss, norm=norm)
    before = {name: value.tolist() for name, value in optimizer.state_dict().items()}
    weight = parameter.tolist()
    one_step(parameter, optimizer, grad=(math.nan, math.inf), **bad)
    assert parameter.tolist() == weight
    after = {name: value.tolist() for name, value in optimizer.state_dict().items()}
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= {
        "optimizer.n_skipped", "optimizer.n_seen", "optimizer.losses", "optimizer.grad_norms"
    }  # fmt: skip
    assert optimizer.n_skipped.item() == 1
    one_step(parameter, optimizer, 2.5)
    assert parameter.tolist() != weight


def test_what_is_not_finite_is_left_out_from_the_first_step():
    parameter, optimizer = skipping()
    one_step(parameter, optimizer, math.nan, grad=(math.nan, 1.0))
    assert parameter.tolist() == [1.0, -1.0]
    assert optimizer.n_seen.item() == 0


def test_it_needs_loss_and_norm():
    parameter, optimizer = skipping()
    parameter.grad = tensor([1.0, 1.0])
    with pytest.raises(ValueError, match="step needs the step's loss and grad_norm"):
        optimizer.step()


@pytest.mark.parametrize("kind", [SGD, AdamW])
def test_the_parts_of_complex_weights_are_stepped_like_real_weights(kind):
    start = np.array([1 + 2j, -0.5j, 3.0])
    whole = Parameter(bp.tensor(start))
    pairs = Parameter(bp.as_real(bp.tensor(start)))
    for weight in (whole, pairs):
        optimizer = kind([weight], lr=0.1, weight_decay=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            z = weight if weight is whole else bp.as_complex(weight)
            bp.sum(bp.abs(z - (1 + 1j)) ** 2).backward()
            optimizer.step()
    assert whole.dtype is bp.complex128
    np.testing.assert_array_equal(bp.as_real(whole).numpy(), pairs.numpy())
