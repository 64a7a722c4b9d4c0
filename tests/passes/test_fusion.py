"""Fusion by rule: how many kernels come out, and that the values are those of the references."""

from __future__ import annotations

import numpy as np
import pytest

import bedplate as bp
from bedplate.compiler import layout
from bedplate.compiler import realise as realising
from bedplate.compiler.realise import clear_plans
from bedplate.config import config


def launches(compute):
    """The names of the launches of the last plan that `compute` makes, region by region."""
    clear_plans()
    compute()
    plan = list(realising._plans.values())[-1]
    return [[launch.name for launch in region] for region in plan.regions]


def kernels(compute):
    """Launches other than those that join partial sums."""
    return [n for region in launches(compute) for n in region if not n.startswith("combine")]


@pytest.fixture
def x():
    rng = np.random.default_rng(0)
    return bp.tensor(rng.standard_normal((64, 96)).astype(np.float32), requires_grad=True)


@pytest.fixture
def weight():
    rng = np.random.default_rng(1)
    return bp.tensor(rng.standard_normal(96).astype(np.float32), requires_grad=True)


def test_an_elementwise_chain_is_one_kernel(x):
    with bp.no_grad():
        assert len(kernels(lambda: ((x + 1) * 2).relu().exp().realise())) == 1


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_is_one_kernel(name, x):
    function = getattr(bp, name)
    assert len(kernels(lambda: function(x.detach(), axis=-1).realise())) == 1


def test_softmax_and_its_gradient_are_one_kernel(x):
    grad = bp.tensor(np.random.default_rng(2).standard_normal((64, 96)).astype(np.float32))

    def both():
        bp.softmax(x, axis=-1).backward(grad)
        x.grad.realise()

    assert len(kernels(both)) == 1


@pytest.mark.parametrize(("rows", "joined"), [(64, 0), (65, 1)])
def test_rms_norm_and_its_gradients_are_one_kernel_and_many_rows_are_combined(weight, rows, joined):
    rng = np.random.default_rng(2)
    values, grads = (bp.tensor(rng.standard_normal((rows, 96)).astype(np.float32)) for _ in "xg")
    x = values.requires_grad_()

    def both():
        bp.rms_norm(x, weight, 1e-5).backward(grads)
        x.grad.realise()

    regions = launches(both)
    assert len(regions) == 1 + joined and len(regions[0]) == 1
    assert all(region[0].startswith("combine") for region in regions[1:])


@pytest.mark.parametrize("dtype", [bp.float32, bp.float64, bp.bfloat16, bp.float16])
def test_bias_and_relu_are_the_products_own_and_the_gradient_takes_the_mask_from_the_output(dtype):
    """Also where the sum is 0, tiny, not finite: as without fusion, bit for bit."""
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shape) for shape in ((8, 16), (16, 32), (32,), (32, 5))]
    arrays[0][0], arrays[0][1, 0], arrays[0][2, 0] = 0, np.inf, np.nan
    arrays[0][3] *= 1e-7  # below the least number of float16 in places
    arrays[2][:3] = 0, -0.0, 1e-8

    def step():
        inputs = [bp.tensor(each).astype(dtype).realise().requires_grad_() for each in arrays]
        a, b, bias, c = inputs
        bp.square((a @ b + bias).relu() @ c).sum().backward()
        return [x.grad.astype(bp.float64).numpy() for x in inputs]

    clear_plans()
    fused = step()
    regions = [region for plan in realising._plans.values() for region in plan.regions]
    names = [launch.name for region in regions for launch in region]
    assert not any("relu" in name for name in names)
    assert any("greater" in name for name in names)
    with config(fusion=False):
        plain = step()
    for one, other in zip(fused, plain, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("also", ["the mask itself", "two readers", "another shape", "a row of it"])
def test_a_mask_that_more_than_one_reader_needs_stays_what_it_is(also):
    rng = np.random.default_rng(4)
    arrays = [
        rng.standard_normal(shape).astype(np.float32) for shape in ((8, 16), (16, 32), (32, 8))
    ]

    def step():
        a, b, c = [bp.tensor(each) for each in arrays]
        hidden = (a @ b + 0.25).relu()
        mask = hidden > 0
        later = bp.square(hidden @ c) @ c.T
        results = [bp.where(mask, later, -1.0)]
        if also == "the mask itself":
            results.append(mask)
        elif also == "two readers":
            results.append(bp.where(mask, (later @ c) @ c.T, 2.0))
        elif also == "another shape":
            results.append(bp.where(mask.T, (later @ c) @ bp.ones((8, 8)), 2.0).sum(axis=0))
        else:
            results.append(mask[3] & (later[0] > 0))
        return [each.numpy() for each in results]

    if also == "another shape":  # a mask of squares can be read turned
        arrays = [each[:8, :8] for each in arrays]
    clear_plans()
    fused = step()
    with config(fusion=False):
        plain = step()
    for one, other in zip(fused, plain, strict=True):
        np.testing.assert_array_equal(one, other)


def test_layer_norm_is_one_kernel(x, weight):
    with bp.no_grad():
        assert len(kernels(lambda: bp.layer_norm(x, weight, weight, 1e-5).realise())) == 1


def test_cross_entropy_and_its_gradient_are_one_kernel_beside_the_means(x):
    targets = bp.tensor(np.arange(64) % 96)

    def both():
        bp.cross_entropy(x, targets).backward()
        x.grad.realise()

    names = kernels(both)
    assert sum("exp" in name for name in names) == 1
    assert len(names) <= 3  # the number of valid targets before, the mean after


def test_updates_of_all_parameters_are_one_region():
    rng = np.random.default_rng(0)
    params = [bp.tensor(rng.standard_normal(n).astype(np.float32)) for n in (7, 300, 41, 128)]
    grads = [bp.tensor(rng.standard_normal(p.shape).astype(np.float32)) for p in params]

    def update():
        for p, g in zip(params, grads, strict=True):
            p.assign(p - 0.1 * g)
        params[-1].realise()

    regions = launches(update)
    assert len(regions) == 1 and len(regions[0]) == 4


def test_a_new_batch_size_compiles_no_kernel(x, weight):
    def program(rows):
        rng = np.random.default_rng(rows)
        a = bp.tensor(rng.standard_normal((rows, 96)).astype(np.float32), requires_grad=True)
        bp.rms_norm(bp.softmax(a, axis=-1), weight.detach(), 1e-5).backward(bp.ones((rows, 96)))
        a.grad.realise()
        plan = list(realising._plans.values())[-1]
        return [launch.kernel for region in plan.regions for launch in region]

    first, second = program(64), program(129)
    assert [id(k) for k in first] == [id(k) for k in second]


def test_equal_graphs_share_a_plan(x):
    def run(scale):
        return (x.detach() * scale).sum().item()

    clear_plans()
    values = [run(scale) for scale in (3.5, 4.5, 5.25)]
    assert len(realising._plans) == 1
    np.testing.assert_allclose(
        values, [x.detach().numpy().sum() * s for s in (3.5, 4.5, 5.25)], rtol=1e-4
    )


@pytest.mark.parametrize("setting", ["fusion", "folding", "cse", "algebra"])
def test_each_pass_can_be_switched_off_and_the_bits_stay(setting, x, weight):
    def value():
        h = bp.rms_norm(x.detach() * 1 + 0, weight.detach(), 1e-5)
        return (bp.softmax(h, axis=-1) * bp.softmax(h, axis=-1)).numpy()

    with_it = value()
    with config(**{setting: False}):
        np.testing.assert_array_equal(value(), with_it)


def test_same_bits_at_one_and_two_threads():
    rng = np.random.default_rng(0)
    x = bp.tensor(rng.standard_normal((700, 513)).astype(np.float32))

    def values():
        y = bp.softmax(x, axis=-1)
        return [v.numpy() for v in (y, y.sum(axis=0), y.sum(), (y * x).sum(axis=1))]

    with config(threads=False):
        one = values()
    for a, b in zip(one, values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_row_alone_has_the_bits_it_has_in_a_batch():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 40000)).astype(np.float32)
    whole = bp.tensor(x).sum(axis=1).numpy()
    alone = np.array([bp.tensor(x[i : i + 1]).sum(axis=1).item() for i in range(3)], np.float32)
    np.testing.assert_array_equal(whole[:3], alone)


def test_sums_of_twenty_million_ones():
    ones = bp.ones(20_000_000)
    assert ones.sum().item() == 20_000_000
    assert ones.reshape(10_000_000, 2).sum(axis=0).tolist() == [10_000_000] * 2


def test_an_index_out_of_range_names_op_value_size_and_line():
    table = bp.tensor(np.arange(12.0, dtype=np.float32).reshape(4, 3))
    indices = bp.tensor(np.array([0, -1, 7]))
    with pytest.raises(
        IndexError, match=r"take.*: index 7 is out of range for size 4\n.*test_fusion"
    ):
        table.take(indices, axis=0).numpy()
    assert table.take(bp.tensor(np.array([-1])), axis=0).tolist() == [[9.0, 10.0, 11.0]]


def test_parts_of_a_concat_are_stored_where_they_belong(x):
    def compute():
        with bp.no_grad():
            return bp.concat([x * 2, bp.softmax(x, axis=-1), x.detach()], axis=1)

    a = x.detach().numpy()
    expected = np.concatenate([a * 2, bp.softmax(x.detach(), axis=-1).numpy(), a], axis=1)
    np.testing.assert_array_equal(compute().numpy(), expected)
    assert len(kernels(lambda: compute().realise())) == 2  # the sums and products, and the copy


def test_a_sum_has_the_same_bits_whatever_was_computed_before():
    rng = np.random.default_rng(0)
    for _ in range(10):
        array = rng.standard_normal((3, 5, 3)).astype(np.float32)
        together = bp.softmax(bp.tensor(array), axis=0)
        apart = bp.softmax(bp.tensor(array), axis=0).realise()
        assert (together * together).mean().item() == (apart * apart).mean().item()


def test_a_long_sum_over_a_strided_view_is_whole():
    x = np.random.default_rng(0).standard_normal((1000, 300)).astype(np.float32)
    found = (bp.tensor(x)[:, ::2] + 1).sum().item()
    np.testing.assert_allclose(found, (x[:, ::2] + 1).sum(dtype=np.float64), rtol=1e-5)


@pytest.mark.parametrize("columns", [16, 32, 48, 64])
def test_short_rows_without_loops_have_the_bits_of_those_with(columns, monkeypatch):
    rng = np.random.default_rng(columns)
    x = bp.tensor(rng.standard_normal((37, columns)).astype(np.float32))
    w = bp.tensor(rng.standard_normal(columns).astype(np.float32))

    def values():
        clear_plans()
        y = bp.rms_norm(x, w, 1e-5)
        return [v.numpy() for v in (y, bp.softmax(x, axis=1), x.sum(axis=1), x.argmax(axis=1))]

    short = values()
    monkeypatch.setattr(layout, "SHORT_ROW", 0)
    for a, b in zip(short, values(), strict=True):
        np.testing.assert_array_equal(a, b)
