"""Every distribution against its exact one; choices against their probabilities; refusals.

The Kolmogorov-Smirnov distance of n numbers, times sqrt(n), is above 1.95 once in a thousand times
if they have the distribution; seeds are fixed. Numbers that are 3 % too wide fail, which is tested.
A little long: each distribution has its table and refusals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.errors import CaptureError, DTypeError, GradientError, ShapeError
from bedplate.ops.random import draws as draws

COUNT = 200_000
BOUND = 1.95  # of the distance, at 0.1 %
CHI_SQUARE = 3.1  # standard deviations above the mean: 0.1 %
SQRT_2 = math.sqrt(2)
erf = np.vectorize(math.erf, otypes=[np.float64])


def distance(values: Any, cdf: Callable[[Any], Any]) -> float:
    """The largest difference between the shares below x and those that should be, times sqrt(n)."""
    shares = cdf(np.sort(np.asarray(values, np.float64).reshape(-1)))
    count = len(shares)
    steps = np.arange(count + 1) / count
    return float(max((steps[1:] - shares).max(), (shares - steps[:-1]).max()) * math.sqrt(count))


def chi_square(counts: Any, probabilities: Any) -> float:
    """How many standard deviations above its mean the statistic lies."""
    expected = np.asarray(probabilities) * np.sum(counts)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    freedom = len(expected) - 1
    # Wilson and Hilferty 1931: the cube root is nearly normal
    spread = 2 / (9 * freedom)
    return ((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


def phi(x: Any) -> Any:
    return 0.5 * (1 + erf(x / SQRT_2))


def truncated(low: float, high: float) -> Callable[[Any], Any]:
    return lambda x: (phi(x) - phi(low)) / (phi(high) - phi(low))


def tail(low: float) -> Callable[[Any], Any]:
    """The share below x of normal numbers above a far `low`."""
    upper = np.vectorize(lambda x: math.erfc(x / SQRT_2), otypes=[np.float64])
    return lambda x: 1 - upper(x) / upper(low)


DISTRIBUTIONS = {
    "uniform": (lambda g, t: g.uniform((COUNT,), -1.0, 3.0, t), lambda x: (x + 1) / 4),
    "normal": (lambda g, t: g.normal((COUNT,), 2.0, 3.0, t), lambda x: phi((x - 2) / 3)),
    "truncated": (lambda g, t: g.truncated_normal((COUNT,), dtype=t), truncated(-2, 2)),
    "truncated far": (
        lambda g, t: g.truncated_normal((COUNT,), 1.0, 2.0, 9.0, math.inf, t),
        lambda x: tail(4.0)((x - 1) / 2),
    ),
    "truncated one side": (
        lambda g, t: g.truncated_normal((COUNT,), 0.0, 1.0, -math.inf, 0.5, t),
        lambda x: phi(x) / phi(0.5),
    ),
    "exponential": (lambda g, t: g.exponential((COUNT,), 2.0, t), lambda x: 1 - np.exp(-x / 2)),
    "laplace": (
        lambda g, t: g.laplace((COUNT,), 1.0, 2.0, t),
        lambda x: 0.5 + 0.5 * np.sign(x - 1) * (1 - np.exp(-np.abs(x - 1) / 2)),
    ),
    "gumbel": (
        lambda g, t: g.gumbel((COUNT,), 1.0, 2.0, t),
        lambda x: np.exp(-np.exp(-(x - 1) / 2)),
    ),
}


@pytest.mark.parametrize("dtype", [bp.float32, bp.float64], ids=str)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_distribution_is_the_exact_one(name: str, dtype: Any) -> None:
    make, cdf = DISTRIBUTIONS[name]
    values = make(bp.Generator(11), dtype).numpy()
    assert values.dtype == dtype.numpy
    assert np.isfinite(values).all()
    assert distance(values, cdf) < BOUND
    centre = np.median(values)
    assert distance(centre + (values - centre) * 1.03, cdf) > BOUND, "the test sees nothing"


@pytest.mark.parametrize("dtype", [bp.float16, bp.bfloat16], ids=str)
@pytest.mark.parametrize("name", [name for name in DISTRIBUTIONS if name != "truncated far"])
def test_narrow_dtypes_are_rounded_once(name: str, dtype: Any) -> None:
    make, cdf = DISTRIBUTIONS[name]
    values = make(bp.Generator(11), dtype).numpy()
    assert values.dtype == dtype.numpy
    # a step of the dtype holds many numbers: the shares are off by half a step at most
    share = 2.0 ** -(8 if dtype is bp.bfloat16 else 11)
    assert distance(values, cdf) < BOUND + 2 * share * math.sqrt(COUNT)


def test_two_streams_and_two_draws_are_independent() -> None:
    a, b = bp.Generator(1), bp.Generator(2)
    streams = [g.normal((COUNT,)).numpy() for g in (a, b, a, b)]
    for i, one in enumerate(streams):
        for other in streams[:i]:
            assert abs(np.corrcoef(one, other)[0, 1]) * math.sqrt(COUNT) < 3.9
    for lag in (1, 2, 3, 4, 16):
        x = streams[0]
        assert abs(np.corrcoef(x[lag:], x[:-lag])[0, 1]) * math.sqrt(COUNT) < 3.9
    pairs = np.histogram2d(phi(streams[0]), phi(streams[2]), 8, [[0, 1], [0, 1]])[0]
    assert chi_square(pairs.reshape(-1), np.full(64, 1 / 64)) < CHI_SQUARE


@pytest.mark.parametrize("span", [3, 7, 1000, 2**33, 2**40 + 1, 2**63 + 5, 2**64])
def test_integers_are_uniform_in_any_range(span: int) -> None:
    wide = span > 2**63
    low, dtype = (0, bp.uint64) if wide else (-2, bp.int64)
    values = bp.Generator(3).randint(low, low + span, (COUNT,), dtype).numpy()
    offsets = [int(v) - low for v in values]
    assert min(offsets) >= 0
    assert max(offsets) < span
    cells = min(span, 50)
    counts = np.bincount([v * cells // span for v in offsets], minlength=cells)
    edges = [-(-cell * span // cells) for cell in range(cells + 1)]
    assert chi_square(counts, np.diff(np.array(edges, object)).astype(float) / span) < CHI_SQUARE


def test_integers_of_every_dtype() -> None:
    for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        dtype = getattr(bp, name)
        info = np.iinfo(dtype.numpy)
        values = bp.Generator(3).randint(int(info.min), int(info.max) + 1, (5000,), dtype)
        assert values.dtype is dtype
        spread = values.numpy().astype(np.float64)
        assert abs(spread.mean() / 2.0**info.bits - (0.5 if info.min == 0 else 0)) < 0.02
    assert bp.Generator(0).randint(7, 8, ()).item() == 7


def test_the_largest_uniform_number_is_below_its_bound() -> None:
    """B53: the all-ones word gives no 1, in any dtype, and log(1 - u) stays finite."""
    for dtype, most in (
        (bp.float32, 0.99999994), (bp.float16, 0.99951172), (bp.bfloat16, 0.99609375),
        (bp.float64, 1 - 2.0**-53),
    ):  # fmt: skip
        ones = tuple(bp.tensor(np.array([0xFFFFFFFF], np.uint32)) for _ in range(2))
        u = draws.unit(ones, dtype)
        assert float(u.item()) == pytest.approx(most, rel=1e-8)
        assert math.isfinite(bp.log(1 - u).item())
        assert bp.Generator(0).exponential((1000,), dtype=dtype).numpy().min() > 0
        x = bp.Generator(1).uniform((50_000,), 2.0, 3.0, dtype).numpy().astype(np.float64)
        assert x.min() >= 2
        assert x.max() < 3  # 2 + u would round to 3


def test_bernoulli_has_its_probability() -> None:
    for p in (0.0, 1e-3, 0.3, 1.0):
        share = bp.Generator(5).bernoulli((COUNT,), p).numpy().mean()
        assert abs(share - p) <= 4 * math.sqrt(p * (1 - p) / COUNT)
    p = bp.tensor([0.0, 0.25, 1.0])
    shares = bp.Generator(5).bernoulli((COUNT, 3), p).numpy().mean(0)
    np.testing.assert_allclose(shares, p.numpy(), atol=5e-3)
    assert shares[0] == 0
    assert shares[2] == 1


# ---- choices

WEIGHTS = np.array([0.05, 0.0, 0.5, 0.25, 0.2])
LIVE = WEIGHTS > 0


@pytest.mark.parametrize("dtype", [bp.float32, bp.float64, bp.float16], ids=str)
def test_categories_have_their_probabilities(dtype: Any) -> None:
    with np.errstate(divide="ignore"):
        logits = bp.tensor(np.log(WEIGHTS).astype(dtype.numpy))
    drawn = bp.Generator(4).categorical(logits + 3, (COUNT,)).numpy()
    assert drawn.dtype == np.int64
    counts = np.bincount(drawn, minlength=5)
    assert counts[1] == 0
    exact = np.exp(logits.numpy().astype(np.float64))
    assert chi_square(counts[LIVE], (exact / exact.sum())[LIVE]) < CHI_SQUARE
    rows = bp.Generator(4).categorical(bp.zeros((3, 4, 2)), (5,), axis=1)
    assert rows.shape == (5, 3, 2)
    assert set(np.unique(rows.numpy())) == {0, 1, 2, 3}


def test_samples_with_replacement_have_their_probabilities() -> None:
    for weights in (WEIGHTS * 7, (WEIGHTS * 20).astype(np.int64)):
        drawn = bp.Generator(4).multinomial(bp.tensor(weights), COUNT, replacement=True).numpy()
        counts = np.bincount(drawn, minlength=5)
        assert counts[1] == 0
        assert chi_square(counts[LIVE], WEIGHTS[LIVE]) < CHI_SQUARE
    rows = bp.tensor([[1.0, 0.0], [0.0, 2.0]])
    assert bp.random.multinomial(rows, 3, replacement=True).tolist() == [[0] * 3, [1] * 3]


def test_samples_without_replacement_come_as_if_drawn_one_after_the_other() -> None:
    rows = bp.broadcast_to(bp.tensor(WEIGHTS), (COUNT // 4, 5))
    drawn = bp.Generator(4).multinomial(rows, 2).numpy()
    first, second = drawn.T
    assert not (first == second).any()
    assert chi_square(np.bincount(first, minlength=5)[LIVE], WEIGHTS[LIVE]) < CHI_SQUARE
    pairs = np.zeros((5, 5))
    np.add.at(pairs, (first, second), 1)
    exact = WEIGHTS[:, None] * WEIGHTS[None] / (1 - WEIGHTS[:, None])
    allowed = LIVE[:, None] & LIVE[None] & ~np.eye(5, dtype=bool)
    assert pairs[~allowed].sum() == 0
    assert chi_square(pairs[allowed], exact[allowed]) < CHI_SQUARE


def test_orders_are_uniform() -> None:
    g = bp.Generator(9)
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(2400):
        key = tuple(g.permutation(4).tolist())
        seen[key] = seen.get(key, 0) + 1
    assert len(seen) == 24
    assert chi_square(np.array(list(seen.values())), np.full(24, 1 / 24)) < CHI_SQUARE
    long = g.permutation(COUNT).numpy()
    np.testing.assert_array_equal(np.sort(long), np.arange(COUNT))
    assert abs(np.corrcoef(long, np.arange(COUNT))[0, 1]) * math.sqrt(COUNT) < 3.9


def test_slices_in_random_order() -> None:
    x = bp.tensor(np.arange(12.0).reshape(3, 4), requires_grad=True)
    rows = bp.Generator(2).permutation(x, axis=1)
    np.testing.assert_array_equal(np.sort(rows.numpy(), 1), x.numpy())
    (rows * rows).sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), 2 * x.numpy())
    y = bp.arange(100)
    assert bp.random.shuffle(y) is y
    assert sorted(y.tolist()) == list(range(100))
    assert y.tolist() != list(range(100))
    assert bp.random.permutation(0).shape == bp.random.randperm(0).shape == (0,)


def test_elements_are_chosen() -> None:
    g = bp.Generator(0)
    x = bp.tensor([10.0, 20.0, 30.0, 40.0, 50.0])
    assert set(g.choice(x, (2, 50)).numpy().reshape(-1).tolist()) == set(x.tolist())
    assert sorted(g.choice(5, (5,), replace=False).tolist()) == [0, 1, 2, 3, 4]
    assert g.choice(x, (0, 3)).shape == (0, 3)
    assert g.choice(x).shape == ()
    counts = np.bincount(g.choice(5, (COUNT,), p=WEIGHTS).numpy(), minlength=5)
    assert chi_square(counts[LIVE], WEIGHTS[LIVE]) < CHI_SQUARE
    assert sorted(g.choice(5, (4,), replace=False, p=WEIGHTS).tolist()) == [0, 2, 3, 4]


# ---- the promises that all share

MAKERS: dict[str, Callable[[bp.Generator], Any]] = {
    "uniform": lambda g: g.uniform((1000,), -1, 1),
    "normal": lambda g: g.normal((1000,)),
    "truncated_normal": lambda g: g.truncated_normal((1000,)),
    "exponential": lambda g: g.exponential((1000,)),
    "laplace": lambda g: g.laplace((1000,)),
    "gumbel": lambda g: g.gumbel((1000,)),
    "randint": lambda g: g.randint(-5, 100, (1000,)),
    "bernoulli": lambda g: g.bernoulli((1000,), 0.4),
    "categorical": lambda g: g.categorical(bp.zeros(7), (1000,)),
    "multinomial": lambda g: g.multinomial(bp.ones(2000), 1000),
    "permutation": lambda g: g.permutation(1000),
    "choice": lambda g: g.choice(99, (1000,)),
    "dropout": lambda g: g.dropout(bp.ones(1000)),
}


@pytest.mark.parametrize("name", MAKERS)
def test_values_depend_on_seed_and_creation_order_alone(name: str) -> None:
    """B52: not on reading order, threads, fusion or on what was drawn from others."""
    make = MAKERS[name]
    g = bp.Generator(6)
    first, second = make(g), make(g)
    wanted = [first.numpy(), second.numpy()]
    assert not np.array_equal(*wanted)
    for threads in (1, 2):
        with bp.config(num_threads=threads, fusion=threads == 1):
            g = bp.Generator(6)
            first, second = make(g), make(g)
            bp.random.normal((3,)).realise()
            late = second.numpy()
            np.testing.assert_array_equal(first.numpy(), wanted[0])
            np.testing.assert_array_equal(late, wanted[1])
    assert not np.array_equal(make(bp.Generator(7)).numpy(), wanted[0])


@pytest.mark.parametrize("name", MAKERS)
def test_the_reference_device_draws_the_same(name: str) -> None:
    values = []
    for device in ("cpu", "reference"):
        with bp.default_device(device):
            values.append(MAKERS[name](bp.Generator(8)).numpy())
    if name in ("normal", "truncated_normal", "exponential", "laplace", "gumbel"):
        # the bits are the same, the logarithms of NumPy are rounded otherwise
        np.testing.assert_allclose(*values, rtol=3e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(*values)


def test_a_captured_step_draws_anew() -> None:
    bp.manual_seed(21)

    @bp.jit
    def step() -> Any:
        return (
            bp.random.exponential((4,)),
            bp.random.permutation(50),
            bp.random.randint(0, 99, (9,)),
        )

    captured = [[part.tolist() for part in step()] for _ in range(4)]
    assert len({str(parts) for parts in captured}) == 4
    bp.manual_seed(21)
    with bp.config(jit=False):
        assert [[part.tolist() for part in step()] for _ in range(4)] == captured


def test_a_generator_is_saved_and_restored_exactly(tmp_path: Any) -> None:
    g = bp.Generator(2**64 - 1)
    for _ in range(3):
        g.normal((5,))
    bp.save({"state": g.get_state()}, tmp_path / "generator.safetensors")
    wanted = [g.laplace((9,)).tolist(), g.permutation(20).tolist()]
    other = bp.Generator(0)
    other.set_state(bp.load(tmp_path / "generator.safetensors")["state"])
    assert [other.laplace((9,)).tolist(), other.permutation(20).tolist()] == wanted


def test_parameters_may_be_tensors_with_gradients() -> None:
    mean = bp.tensor([1.0, -100.0], requires_grad=True)
    std = bp.tensor([[2.0], [0.0]], requires_grad=True)
    x = bp.Generator(0).normal((2, 2), mean, std)
    assert x.numpy()[1].tolist() == [1.0, -100.0]
    x.sum().backward()
    assert mean.grad is not None and mean.grad.tolist() == [2.0, 2.0]
    noise = (x.numpy()[0] - mean.numpy()) / 2
    assert std.grad is not None
    np.testing.assert_allclose(std.grad.numpy()[0, 0], noise.sum(), rtol=1e-4)
    assert bp.Generator(0).exponential((2,), mean).shape == (2,)
    assert bp.Generator(0).uniform((3, 2), mean, mean + 1).shape == (3, 2)
    with pytest.raises(ShapeError, match=r"normal: its arguments do not broadcast to the shape"):
        bp.Generator(0).normal((2,), bp.zeros((3, 2)))


def test_parameters_may_be_numbers_and_arrays_of_numpy() -> None:
    for one, two in ((2.0, np.float32(2.0)), (0.25, np.float64(0.25))):
        for make in (
            lambda g, v: g.normal((4,), v, v),
            lambda g, v: g.uniform((4,), 0, v),
            lambda g, v: g.exponential((4,), v),
            lambda g, v: g.bernoulli((40,), min(v, 1)),
        ):
            assert make(bp.Generator(1), one).tolist() == make(bp.Generator(1), two).tolist()
    x = bp.Generator(1).normal((2, 2), np.array([0.0, 100.0], np.float32), 1)
    assert x.numpy()[:, 1].min() > 90
    shares = bp.Generator(1).bernoulli((2000, 2), np.array([0.0, 1.0])).numpy().mean(0)
    assert shares.tolist() == [0, 1]
    bounds = np.array([1.0, 2.0])
    assert bp.Generator(1).uniform((3, 2), bounds, bounds + 1).dtype is bp.float32


def test_choices_give_no_gradient_to_weights() -> None:
    logits = bp.zeros(3, requires_grad=True)
    for drawn in (bp.random.categorical(logits), bp.random.multinomial(logits + 1, 2)):
        with pytest.raises(GradientError, match="no gradient history"):
            drawn.sum().backward()


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: bp.manual_seed(-1), ValueError, r"seed: an integer in \[0, 2\^64\), got -1"),
    (lambda: bp.manual_seed(2**64), ValueError, r"seed: an integer in"),
    (lambda: bp.Generator(2**64), ValueError, r"seed: an integer in"),
    (lambda: bp.manual_seed(1.5), TypeError, "integer"),  # type: ignore[arg-type]
    (lambda: bp.random.uniform((2,), 1.0, 0.0), ValueError, r"no numbers of float32 in"),
    (lambda: bp.random.uniform((2,), 0.0, math.nan), ValueError, "high must be finite, got nan"),
    (lambda: bp.random.uniform((2,), -3e38, 3e38), ValueError, "no numbers of"),
    (lambda: bp.random.uniform((-2,)), ShapeError, "uniform"),
    (lambda: bp.random.normal((2,), 0.0, -1.0), ValueError, "std must be finite and not negative"),
    (lambda: bp.random.normal((2,), math.inf), ValueError, "mean must be finite, got inf"),
    (lambda: bp.random.normal((2,), dtype=bp.int8), DTypeError, "as floats only"),
    (lambda: bp.random.exponential((2,), -1.0), ValueError, "scale must be finite and not neg"),
    (lambda: bp.random.laplace((2,), 0.0, math.nan), ValueError, "scale must be finite"),
    (lambda: bp.random.gumbel((2,), scale=-1.0), ValueError, "scale must be finite"),
    (lambda: bp.random.truncated_normal((2,), low=1.0, high=1.0), ValueError, "no interval"),
    (lambda: bp.random.truncated_normal((2,), low=math.nan), ValueError, "no interval"),
    (lambda: bp.random.truncated_normal((2,), low=50.0, high=51.0), ValueError, "too far from"),
    (lambda: bp.random.bernoulli((2,), math.nan), ValueError, r"lies in \[0, 1\], got nan"),
    (lambda: bp.random.dropout(bp.ones(2), 1.1), ValueError, r"lies in \[0, 1\], got 1.1"),
    (lambda: bp.random.randint(3, 3, (2,)), ValueError, r"no integer in \[3, 3\)"),
    (lambda: bp.random.randint(0, 300, (2,), bp.uint8), ValueError, "does not fit uint8"),
    (lambda: bp.random.randint(0, 3, (2,), bp.float32), DTypeError, "integers are drawn"),
    (lambda: bp.random.categorical(bp.zeros((2, 0))), ShapeError, "there are no categories"),
    (lambda: bp.random.categorical(bp.tensor([1, 2])), DTypeError, "dtype of logits does not fit"),
    (lambda: bp.random.multinomial(bp.zeros(3), 1), ValueError, "all weights of a row are 0"),
    (lambda: bp.random.multinomial(bp.tensor([1.0, -1.0]), 1), ValueError, "not negative"),
    (lambda: bp.random.multinomial(bp.tensor([1.0, math.nan]), 1), ValueError, "must be finite"),
    (lambda: bp.random.multinomial(bp.tensor([1.0, 0.0]), 2), ValueError, "2 samples of 1 cat"),
    (lambda: bp.random.multinomial(bp.zeros(0), 1), ShapeError, "there are no categories"),
    (lambda: bp.random.permutation(-1), ValueError, "a count must not be negative, got -1"),
    (lambda: bp.random.permutation(bp.zeros(()), 0), ShapeError, "permutation: axis 0"),
    (lambda: bp.random.choice(2, (3,), replace=False), ValueError, "choice: 3 elements of 2"),
    (lambda: bp.random.choice(0, (1,)), ValueError, "choice: 1 elements of 0"),
    (lambda: bp.random.choice(bp.zeros((2, 2))), ShapeError, "choice: x must have one axis"),
    (lambda: bp.random.choice(2, p=[0.5, 0.6]), ValueError, r"add up to 1\.1, not to 1"),
    (lambda: bp.random.choice(2, p=[1.0]), ShapeError, "one probability for each of 2"),
]


@pytest.mark.parametrize("place", range(len(REFUSED)))
def test_refusals(place: int) -> None:
    make, error, text = REFUSED[place]
    before = bp.random.get_state().tolist()
    with pytest.raises(error, match=text):
        make()
    assert bp.random.get_state().tolist() == before, "a refused draw counts for nothing"


def test_weights_are_not_read_in_a_captured_step() -> None:
    with pytest.raises(CaptureError, match="a value was read inside a captured step"):
        bp.jit(lambda w: bp.random.multinomial(w, 1))(bp.ones(3))
