"""Module: finding parameters, states, moving, modes."""

import re

import numpy as np
import pytest

from bedplate import nn
from bedplate.dtypes import bfloat16, float64
from bedplate.errors import CheckpointError
from bedplate.tensor import no_grad, tensor


class Net(nn.Module):
    def __init__(self):
        self.first = nn.Linear(3, 4)
        self.body = nn.Sequential(nn.ReLU(), nn.Linear(4, 2, bias=False))
        self.scale = nn.Parameter([1.0, 2.0])
        self.register_buffer("seen", tensor([0.0]))
        self.layers = nn.ModuleList([nn.RMSNorm(2)])

    def forward(self, x):
        return self.layers[0](self.body(self.first(x)) * self.scale)


NAMES = ["scale", "first.weight", "first.bias", "body.1.weight", "layers.0.weight"]


def test_parameters_have_dotted_names():
    assert [name for name, _ in Net().named_parameters()] == NAMES
    assert all(parameter.requires_grad for parameter in Net().parameters())


def test_modules_have_dotted_names():
    names = [name for name, _ in Net().named_modules()]
    assert names == ["", "first", "body", "body.0", "body.1", "layers", "layers.0"]


def test_a_shared_parameter_comes_once():
    net = Net()
    net.other = nn.Linear(3, 4)
    net.other.weight = net.first.weight
    assert "other.weight" not in dict(net.named_parameters())
    assert "other.weight" in dict(net.named_parameters(remove_duplicate=False))


def test_a_module_that_holds_itself_ends():
    net = Net()
    net.myself = net
    assert len(list(net.parameters())) == len(NAMES)


def test_state_goes_round():
    first, second = Net(), Net()
    second.load_state_dict(first.state_dict())
    x = tensor(np.ones((2, 3), np.float32))
    assert second(x).tolist() == first(x).tolist()
    assert first.state_dict().keys() == {*NAMES, "seen"}


def test_state_of_arrays_is_cast():
    net = Net()
    state = {name: value.numpy().astype(np.float64) for name, value in net.state_dict().items()}
    net.load_state_dict(state)
    assert net.scale.dtype.name == "float32"


def test_a_state_that_does_not_fit_changes_nothing():
    net = Net()
    state = dict(net.state_dict())
    before = net.first.bias.tolist()
    state["first.bias"] = tensor([9.0, 9.0, 9.0, 9.0])
    state["extra"] = state.pop("scale")
    state["body.1.weight"] = tensor([[1.0]])
    with pytest.raises(CheckpointError) as caught:
        net.load_state_dict(state)
    for line in (
        "scale: missing from the state",
        "extra: no such name in the module",
        "body.1.weight: the module has (2, 4), the state (1, 1)",
    ):
        assert line in str(caught.value)
    assert net.first.bias.tolist() == before


def test_loose_loading_takes_what_fits():
    net = Net()
    net.load_state_dict({"scale": tensor([5.0, 6.0]), "extra": tensor([1.0])}, strict=False)
    assert net.scale.tolist() == [5.0, 6.0]


def test_modes_reach_every_part():
    net = Net()
    net.eval()
    assert not any(module.training for module in net.modules())
    assert all(module.training for module in net.train().modules())


def test_to_casts_floats():
    net = Net().to(float64)
    assert {parameter.dtype for parameter in net.parameters()} == {float64}
    assert net.seen.dtype is float64
    assert net(tensor(np.ones((1, 3)))).dtype is float64
    assert {p.dtype for p in Net().to(bfloat16).parameters()} == {bfloat16}


def test_apply_reaches_inner_modules_first():
    seen = []
    Net().apply(lambda module: seen.append(type(module).__name__))
    assert seen[-1] == "Net"
    assert len(seen) == 7


def test_gradients_come_and_go():
    net = Net()
    net(tensor(np.ones((2, 3), np.float32))).sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())
    net.zero_grad()
    assert all(parameter.grad is None for parameter in net.parameters())


def test_repr_shows_the_tree():
    text = repr(nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.1)))
    assert text == "Sequential(\n  0: Linear(2, 3)\n  1: Dropout(p=0.1)\n)"


def test_a_module_without_forward():
    with pytest.raises(TypeError, match="Module has no forward"):
        nn.Module()(1)


def test_a_parameter_shares_no_history():
    source = tensor([1.0], requires_grad=True) * 2.0
    parameter = nn.Parameter(source)
    (parameter * 3.0).sum().backward()
    assert parameter.grad.tolist() == [3.0]
    assert parameter.is_leaf


@pytest.mark.parametrize("p", [float("nan"), -0.1, 1.5])
def test_dropout_refuses_what_is_no_probability(p):
    with pytest.raises(ValueError, match=r"dropout: .*probability"):
        nn.functional.dropout(tensor([1.0, 2.0]), p)


def test_dropout_scales_and_rests_in_use():
    x = tensor(np.ones(10000, np.float32))
    dropout = nn.Dropout(0.25)
    kept = dropout(x).numpy()
    assert set(np.unique(kept)) == {0.0, np.float32(1 / 0.75)}
    assert kept.mean() == pytest.approx(1.0, abs=0.03)
    assert dropout.eval()(x) is x
    with pytest.raises(ValueError, match=re.escape("Dropout: p = 1.0 is not in [0, 1)")):
        nn.Dropout(1.0)


def test_layer_norm_and_rms_norm():
    x = np.array([[1.0, 2.0, 3.0, 40.0]], np.float32)
    rms = nn.RMSNorm(4, eps=0.0)(tensor(x)).numpy()
    assert rms[0] == pytest.approx([0.04978, 0.09957, 0.14935, 1.99131], abs=1e-5)
    layer = nn.LayerNorm(4)(tensor(x)).numpy()
    assert layer.mean() == pytest.approx(0.0, abs=1e-6)
    assert layer.std() == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rms_norm_survives_half_precision(dtype):
    big = nn.RMSNorm(64).to(dtype)(tensor(np.full((2, 64), 300.0, np.float32)).astype(dtype))
    assert big.astype("float32").numpy() == pytest.approx(1.0)
    zero = nn.Parameter(tensor(np.zeros((2, 64), np.float32)).astype(dtype))
    nn.RMSNorm(64).to(dtype)(zero).sum().backward()
    assert np.isfinite(zero.grad.astype("float32").numpy()).all()


def test_rms_norm_multiplies_before_it_narrows():
    rng = np.random.default_rng(0)
    x = tensor(rng.normal(size=(64, 64)).astype(np.float32)).astype(bfloat16)
    weight = tensor(rng.normal(size=64).astype(np.float32)).astype(bfloat16)
    norm = nn.RMSNorm(64, eps=1e-6).to(bfloat16)
    norm.load_state_dict({"weight": weight})
    wide, scale = x.astype("float32").numpy(), weight.astype("float32").numpy()
    exact = scale * (wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6))
    wanted = tensor(exact.astype(np.float32)).astype(bfloat16).astype("float32").numpy()
    with no_grad():
        found = norm(x).astype("float32").numpy()
    # the last bit of the float32 norm may tip a rounding here and there
    assert (found != wanted).mean() < 0.001
