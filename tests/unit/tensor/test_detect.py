"""detect_nan names the producer of the first NaN or infinity, forward and backward (B83)."""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import re
import threading
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate import nn
from bedplate.devices.registry import BACKENDS
from bedplate.graph.pending import LOCAL
from bedplate.nn import functional as F

NonFiniteError = bp.errors.NonFiniteError
DEVICES = sorted(BACKENDS)
# what a block does to its input, beside its linear layer
FAULTS: dict[str, Any] = {
    "divides by zero": lambda x: x / (x * 0),  # infinity
    "takes a negative root": lambda x: bp.sqrt(-1 - x * x),  # NaN
    "has a steep root": lambda x: x + bp.sqrt(x * 0),  # infinity in the gradient only
    "multiplies nothing by it": lambda x: x + bp.sqrt(x * 0) * 0,  # NaN in the gradient only
}


class Block(nn.Module):
    def __init__(self, fault: str) -> None:
        self.norm = nn.LayerNorm(4)
        self.fault = fault

    def forward(self, x: bp.Tensor) -> Any:
        x = self.norm(x)
        return FAULTS[self.fault](x) if self.fault else x


class Network(nn.Module):
    """Four blocks, the third of which has a fault; what follows passes it on."""

    def __init__(self, fault: str) -> None:
        self.blocks = nn.Sequential(Block(""), Block(""), Block(fault), Block(""))

    def forward(self, x: bp.Tensor) -> Any:
        return self.blocks(x)


def data(device: str = "cpu") -> bp.Tensor:
    return bp.Tensor(np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32), device)


def network(fault: str, device: str = "cpu") -> Network:
    return Network(fault).to(bp.Device(device))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("fault", "op", "what"),
    [("divides by zero", "divide", "an infinity"), ("takes a negative root", "sqrt", "a NaN")],
)
def test_forward(fault: str, op: str, what: str, device: str) -> None:
    """B83"""
    text = (
        rf"{op}: made {what} in the forward pass\n  module  Network.blocks.2\n"
        rf"  line    .*test_detect.py:\d+\n  a       \(2, 4\) float32, at \(0, 0\) is .*"
        rf"result  \(2, 4\) float32, at \(0, 0\) is -?(inf|nan), 8 of 8 elements"
    )
    with pytest.raises(NonFiniteError, match=re.compile(text, re.DOTALL)), bp.detect_nan():
        network(fault, device)(data(device))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    ("fault", "what"),
    [("has a steep root", "an infinity"), ("multiplies nothing by it", "a NaN")],
)
def test_backward(fault: str, what: str, create_graph: bool, device: str) -> None:
    """B83"""
    text = (
        rf"sqrt: its gradient made {what} in the backward pass.*"
        r"\n  module  Network.blocks.2\n  line    .*test_detect.py:\d+\n.*at \(0, 0\) is"
    )
    with pytest.raises(NonFiniteError, match=re.compile(text, re.DOTALL)), bp.detect_nan():
        loss = (network(fault, device)(data(device)) * data(device)).sum()
        loss.backward(create_graph=create_graph)


def test_a_sound_step_passes_and_nothing_is_left_behind() -> None:
    plain, watched = network(""), network("")
    watched.load_state_dict(plain.state_dict())
    plain(data()).sum().backward()
    with bp.detect_nan():
        watched(data()).sum().backward()
    assert LOCAL.state.watcher is None
    for a, b in zip(plain.parameters(), watched.parameters(), strict=True):
        assert a.grad is not None
        assert b.grad is not None
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(NonFiniteError, match="divide"), bp.detect_nan():
        network("divides by zero")(data())
    assert LOCAL.state.watcher is None


def test_masks_of_infinities_are_no_fault() -> None:
    scores, mask = data(), bp.tensor([[True, False, True, True]])
    with bp.detect_nan():
        weights = bp.softmax(bp.where(mask, scores, -float("inf")), -1)
        bias = bp.where(mask, 0.0, bp.full((1, 4), -float("inf")))
        again = bp.softmax(scores + bias, -1)
        padded = bp.pad(scores, [(0, 0), (1, 1)], value=-float("inf"))
    np.testing.assert_array_equal(weights.numpy(), again.numpy())
    assert padded.shape == (2, 6)
    huge = bp.tensor([[0.0, 2e38, 2e38, 0.0]])
    text = r"(?s)add: made an infinity.*at \(0, 2\) is"
    with bp.detect_nan(), pytest.raises(NonFiniteError, match=text):
        bp.add(bp.where(mask, huge, -float("inf")), huge)  # beside the mask


def test_infinities_that_mean_nothing_was_there_are_no_fault() -> None:
    x = bp.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    index = bp.tensor([[0, 0, 1]])
    logits = bp.tensor(np.random.default_rng(0).normal(size=(6, 1, 4)), requires_grad=True)
    with bp.detect_nan():
        for reduce in ("amax", "amin"):
            bp.scatter_reduce(x, 1, index, x, reduce, include_self=False).sum().backward()
        bags = bp.tensor([0, 0, 1])  # the first is empty
        F.embedding_bag(bp.tensor([0, 1]), bp.ones((2, 3)), bags, mode="max").realise()
        chances = F.log_softmax(logits, -1)
        labels = bp.tensor([[1, 1]]), bp.tensor([6]), bp.tensor([2])
        F.ctc_loss(chances, *labels).backward()
        with pytest.raises(NonFiniteError, match="scatter_reduce: made an infinity"):
            bp.scatter_reduce(x * 1e30, 1, index, x * 1e30, "prod")


def impossible(reduction: str = "mean") -> Any:
    """The CTC loss of three labels in three steps, two of them alike: no path has it."""
    steps = bp.tensor(np.zeros((3, 2, 4), np.float32), requires_grad=True)
    targets, lengths = bp.tensor([[1, 1, 1], [1, 2, 0]]), bp.tensor([3, 2])
    steps = F.log_softmax(steps, -1)
    return F.ctc_loss(steps, targets, bp.tensor([3, 3]), lengths, reduction=reduction)


TAKEN: dict[str, Any] = {
    "read": lambda y: y.item(),
    "differentiated": lambda y: y.backward(),
    "computed with": lambda y: y * 2,
    "taken out by the user": lambda y: bp.where(bp.isfinite(y), y, 0.0),
}


@pytest.mark.parametrize("how", TAKEN)
def test_what_leaves_its_function_infinite_is_a_fault(how: str) -> None:
    """B12: the inner steps of a function may be infinite, its result may not."""
    text = r"ctc_paths: made an infinity in the forward pass\n  line    .*test_detect.py"
    with bp.detect_nan():
        loss = impossible()
        with pytest.raises(NonFiniteError, match=text):
            TAKEN[how](loss)
        each = impossible("none")
        with pytest.raises(NonFiniteError, match=r"at \(0,\) is inf, 1 of 2 elements"):
            each.numpy()
    with bp.detect_nan(allow=["ctc_paths"]):
        TAKEN[how](impossible())
    with bp.detect_nan(infinity=False):
        assert impossible().item() == np.inf


def test_an_infinity_that_was_given_is_none_of_the_function() -> None:
    masked, index = bp.tensor([[-np.inf, 1.0, 2.0]]), bp.tensor([[1, 2, 2]])
    with bp.detect_nan():
        for source in (bp.tensor([[3.0, 1.0, 2.0]]), bp.tensor([[3.0, -np.inf, 2.0]])):
            y = bp.scatter_reduce(masked, 1, index, source, "amax", include_self=False)
            assert (y + 1).tolist() == [[-np.inf, 4.0, 3.0]]


def normal(*shape: int) -> Any:
    return bp.tensor(np.random.default_rng(1).normal(size=shape).astype(np.float32))


MASK = bp.tensor(np.tril(np.ones((5, 5), bool), -1))  # the first row sees nothing
LABELS = bp.tensor([0, 3, 1])


def attended(x: Any) -> Any:
    return F.scaled_dot_product_attention(x, x, x, MASK)


# finite of finite, with an infinity, a zero or nothing at all somewhere inside
FINITE: dict[str, Any] = {
    "ctc_loss": lambda x: F.ctc_loss(
        F.log_softmax(bp.expand_dims(x, 1), -1), bp.tensor([[1, 2]]), 3, 2
    ),
    "ctc_loss without labels": lambda x: F.ctc_loss(
        F.log_softmax(bp.expand_dims(x, 1), -1), bp.tensor([[1, 2]]), bp.tensor([3]),
        bp.tensor([0]),
    ),
    "zero_infinity": lambda x: F.ctc_loss(
        F.log_softmax(bp.expand_dims(x, 1), -1), bp.tensor([[1, 1, 1]]), 3, 3, zero_infinity=True
    ),
    "scatter_reduce amax": lambda x: bp.scatter_reduce(
        x, 1, bp.argsort(x * 0, 1) // 2, x, "amax", include_self=False
    ),
    "scatter_reduce amin": lambda x: bp.scatter_reduce(
        x, 1, bp.argsort(x * 0, 1) // 2, x, "amin", include_self=False
    ),
    "embedding_bag": lambda x: F.embedding_bag(LABELS[:2] % 3, x, bp.tensor([0, 1, 1]), mode="max"),
    "softmax of a mask": lambda x: bp.softmax(bp.masked_fill(x, x > 1, -float("inf")), 1),
    "logsumexp of nothing": lambda x: bp.exp(
        bp.logsumexp(bp.masked_fill(x, bp.tensor([[True], [False], [False]]), -float("inf")), 1)
    ),
    "max_pool1d": lambda x: F.max_pool1d(bp.expand_dims(x, 0), 3, 2, padding=1, ceil_mode=True),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(bp.expand_dims(x, 0), 2),
    "attention": lambda x: attended(bp.reshape(bp.concat([x, x[:2]]), (1, 1, 5, 5))),
    "cross_entropy": lambda x: F.cross_entropy(x, LABELS, ignore_index=3),
    "kl_div": lambda x: F.kl_div(F.log_softmax(x, 1), F.one_hot(LABELS, 5).astype(bp.float32)),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(
        bp.where(x > 0, 1.0, 0.0) + x * 0, bp.where(x > 0, 1.0, 0.0)
    ),
    "with_logits": lambda x: F.binary_cross_entropy_with_logits(
        x * 1000, bp.where(x > 0, 1.0, 0.0)
    ),
    "logcumsumexp": lambda x: bp.logcumsumexp(x, 1),
    "poisson_nll_loss": lambda x: F.poisson_nll_loss(x, bp.abs(x), full=True),
    "gaussian_nll_loss": lambda x: F.gaussian_nll_loss(x, x + 1, bp.abs(x) * 0),
    "cosine_similarity": lambda x: F.cosine_similarity(x * 0, x),
    "normalize": lambda x: F.normalize(x * 0),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x, hard=True),
    "median": lambda x: bp.median(x, axis=1),
    "cummax": lambda x: bp.cummax(x, axis=1).values,
}  # fmt: skip


@pytest.mark.parametrize("name", FINITE)
def test_finite_of_finite_gives_no_alarm(name: str) -> None:
    """B12"""
    x = normal(3, 5).requires_grad_()
    with bp.detect_nan():
        y = FINITE[name](x)
        y.sum().backward()
        assert np.isfinite(y.numpy()).all()
        assert x.grad is not None
        assert np.isfinite(x.grad.numpy()).all()


def examples() -> dict[str, Any]:
    """The example of each public function, and the names that it may use."""
    found: dict[str, Any] = {}
    for module in (bp, F, bp.special, bp.linalg, bp.fft, bp.random):
        for name in dir(module):
            function = inspect.unwrap(getattr(module, name))
            text = inspect.getdoc(function) or ""
            if inspect.isfunction(function) and ">>> " in text and not name.startswith("_"):
                found[f"{module.__name__}.{name}"] = text, dict(function.__globals__)
    return found


def test_examples_of_what_is_finite_give_no_alarm() -> None:
    """B12: whatever is public. An example that shows an infinity or a NaN may well give one."""
    alarms, seen = [], 0
    for name, (text, names) in examples().items():
        if re.search(r"\b(nan|inf|detect_nan|explain|math\.inf)\b", text.partition(">>> ")[2]):
            continue
        seen += 1
        try:
            with contextlib.redirect_stdout(io.StringIO()), bp.detect_nan():
                for example in doctest.DocTestParser().get_examples(text):
                    if example.exc_msg is None:
                        exec(compile(example.source, name, "single"), names)
        except NonFiniteError as error:
            alarms.append(f"{name}: {error}")
    assert seen > 300
    assert alarms == []


def test_infinities_may_be_let_through() -> None:
    x = bp.tensor([1.0, 0.0])
    with bp.detect_nan(infinity=False):
        y = 1 / x
        with pytest.raises(NonFiniteError, match="subtract: made a NaN"):
            bp.subtract(y, y)
    with bp.detect_nan(allow=["divide"]):
        y = 1 / x
        z = y * 2 + 1
    assert z.tolist() == [3.0, float("inf")]
    with bp.detect_nan():
        with bp.detect_nan(False):
            y = bp.log(x - 1)
        with pytest.raises(NonFiniteError, match="exp: made an infinity"):
            bp.exp(x + 99)


def test_what_comes_in_from_outside_is_said_so() -> None:
    x = bp.tensor([1.0, float("nan")])
    with bp.detect_nan(), pytest.raises(NonFiniteError, match=r"add: a NaN came in from outside"):
        bp.add(x, 1)
    y = bp.tensor([1.0, 2.0], requires_grad=True)
    z = y * 2
    with bp.detect_nan(), pytest.raises(NonFiniteError, match="came in from outside, in the back"):
        z.backward(x)


def test_operations_of_a_user_and_several_outputs() -> None:
    class Root(bp.Operation):
        def forward(self, x: Any) -> Any:
            self.x = x
            return bp.abs(x) * 1, x * 2

        def grad_fn(self, first: Any, second: Any) -> Any:
            return first / (self.x * 0) + second

    x = bp.tensor([1.0, 2.0], requires_grad=True)
    with bp.detect_nan():
        a, b = Root.apply(x)
        with pytest.raises(NonFiniteError, match=r"Root: its gradient made an infinity.*by divide"):
            (a + b).sum().backward()


def test_a_fault_that_was_caught_leaves_nothing_behind() -> None:
    x = bp.tensor([0.0], requires_grad=True)
    with bp.detect_nan():
        y = bp.sqrt(x)
        with pytest.raises(NonFiniteError, match="in the backward pass"):
            y.backward()
        with pytest.raises(NonFiniteError, match="log: made an infinity in the forward pass"):
            bp.log(x)


def test_a_step_under_jit_runs_uncaptured_and_cannot_look_into_itself() -> None:
    step = bp.jit(lambda x: bp.log(x).sum())
    good = bp.tensor([1.0, 2.0])
    assert [step(good).item() for _ in range(3)] == [bp.log(good).sum().item()] * 3
    with bp.detect_nan(), pytest.raises(NonFiniteError, match="log: made an infinity"):
        step(bp.tensor([1.0, 0.0]))

    def inside(x: bp.Tensor) -> Any:
        with bp.detect_nan():
            return x + 1

    with pytest.raises(bp.errors.CaptureError, match="detect_nan: it cannot look into a captured"):
        bp.jit(inside)(good)


def test_other_threads_are_left_alone() -> None:
    found: list[Any] = []
    with bp.detect_nan():
        thread = threading.Thread(target=lambda: found.append((bp.ones(1) / 0).item()))
        thread.start()
        thread.join()
    assert found == [float("inf")]


@pytest.mark.parametrize("dtype", [bp.float16, bp.bfloat16, bp.float64])
def test_every_float_dtype(dtype: Any) -> None:
    x = bp.tensor([1.0, 0.0]).astype(dtype)
    with (
        bp.detect_nan(),
        pytest.raises(NonFiniteError, match=rf"(?s)a NaN.*{dtype.name}, at \(1,\)"),
    ):
        bp.divide(x, x)
