"""jit: what a captured step must do, and what it must refuse."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import bedplate as bp
from bedplate.config import config
from bedplate.errors import CaptureError
from bedplate.tensor.jit import jit


def test_python_arguments_specialise():
    step = jit(lambda x, k: x * k)
    x = bp.tensor([1.0, 2.0])
    for _ in range(3):
        assert [step(x, k).tolist() for k in (1, 2, 3, 4, 5)] == [[k, 2.0 * k] for k in range(1, 6)]
    assert "capture" in step.report() and "new arguments" in step.report()


def test_an_int_a_float_and_a_bool_are_different_arguments():
    step = jit(lambda x, k: x + k)
    x = bp.tensor([1, 2])
    for _ in range(3):
        assert step(x, 1).dtype is bp.int64
        assert step(x, 1.0).dtype is bp.float32


def test_an_earlier_result_keeps_its_value():
    step = jit(lambda x: x * 2)
    a, b = bp.tensor([1.0]), bp.tensor([5.0])
    results = [step(a), step(b), step(a), step(b), step(a)]
    assert [r.item() for r in results] == [2.0, 10.0, 2.0, 10.0, 2.0]


def test_new_shapes_and_dtypes_specialise():
    step = jit(lambda x: (x * 2).sum())
    for _ in range(3):
        assert step(bp.ones(3)).item() == 6
        assert step(bp.ones((2, 5))).item() == 20
        assert step(bp.ones(3, dtype=bp.float64)).dtype is bp.float64


def test_state_is_updated_at_every_call():
    w = bp.tensor([1.0, 2.0])

    @jit
    def step(g):
        w.assign(w - g)
        return w * 1

    for i in range(1, 7):
        assert step(bp.tensor([1.0, 0.5])).tolist() == [1.0 - i, 2.0 - 0.5 * i]
        assert w.tolist() == [1.0 - i, 2.0 - 0.5 * i]


def test_state_is_updated_in_place_unless_somebody_holds_it():
    w = bp.tensor(np.zeros(1000, np.float32))

    @jit
    def step():
        w.assign(w + 1)

    for _ in range(4):
        step()
    address = w._node.block.address
    step()
    assert w._node.block.address == address
    held, array = w.detach(), w.numpy()
    step()
    assert held.numpy()[0] == array[0] == 5 and w.numpy()[0] == 6


def test_an_argument_that_is_the_state_is_not_overwritten_while_it_is_read():
    w = bp.tensor(np.arange(8.0, dtype=np.float32))

    @jit
    def step(x):
        w.assign(w * 2)
        return x.sum() + x[0]

    expected = np.arange(8.0)
    for _ in range(5):
        assert step(w.detach()).item() == expected.sum() + expected[0]
        expected = expected * 2
    for _ in range(5):  # x is w, so it has the new value, as without jit
        expected = expected * 2
        assert step(w).item() == expected.sum() + expected[0]
    assert step(w.detach()).item() == expected.sum() + expected[0]


def test_two_tensors_that_share_a_value_part_ways():
    a = bp.tensor([1.0])
    b = a.detach()

    @jit
    def step():
        a.assign(a + 1)
        return a + b

    assert [step().item() for _ in range(4)] == [3.0, 4.0, 5.0, 6.0]
    assert b.item() == 1.0


def training(captured):
    rng = np.random.default_rng(0)
    w = bp.tensor(rng.standard_normal((6, 4)).astype(np.float32), requires_grad=True)
    x = bp.tensor(rng.standard_normal((5, 6)).astype(np.float32))
    momentum = bp.zeros((6, 4)).realise()

    def step(x):
        loss = (x @ w).tanh().square().mean()
        loss.backward()
        with bp.no_grad():
            momentum.assign(momentum * 0.9 + w.grad)
            w.assign(w - momentum * 0.1)
        w.grad = None
        return loss

    run = jit(step) if captured else step
    losses = [run(x).item() for _ in range(7)]
    return losses, w.numpy(), momentum.numpy()


def test_a_training_step_has_the_bits_of_the_uncaptured_one():
    losses, w, momentum = training(captured=True)
    plain_losses, plain_w, plain_momentum = training(captured=False)
    assert losses == plain_losses
    np.testing.assert_array_equal(w, plain_w)
    np.testing.assert_array_equal(momentum, plain_momentum)


@pytest.mark.parametrize("clear_first", [True, False])
def test_gradients_are_set_or_added_up(clear_first):
    w = bp.tensor([1.0, 2.0], requires_grad=True)

    @jit
    def step(x):
        if clear_first:
            w.grad = None
        (w * x).sum().backward()

    for i in range(1, 7):
        step(bp.tensor([3.0, 4.0]))
        times = 1 if clear_first else i
        assert w.grad.tolist() == [3.0 * times, 4.0 * times]


def test_gradients_from_outside_are_read_anew():
    w = bp.tensor([1.0], requires_grad=True)

    @jit
    def update():
        with bp.no_grad():
            w.assign(w - w.grad)

    value = 1.0
    for i in range(5):
        w.grad = None
        (w * float(i)).sum().backward()
        update()
        value -= i
        assert w.item() == value


def test_random_numbers_are_drawn_anew():
    bp.manual_seed(7)
    step = jit(lambda: bp.random.uniform((4,)))
    captured = [step().tolist() for _ in range(5)]
    bp.manual_seed(7)
    assert captured == [bp.random.uniform((4,)).tolist() for _ in range(5)]


def test_state_made_at_the_first_call_is_noticed():
    store = {}

    @jit
    def step(x):
        if "m" not in store:
            store["m"] = bp.zeros(2)
        store["m"].assign(store["m"] + x)
        return store["m"] * 1

    values = [step(bp.tensor([1.0, 2.0])).tolist() for _ in range(6)]
    assert values == [[i, 2.0 * i] for i in range(1, 7)]
    assert "on the side" in step.report()


def test_a_counter_in_python_never_replays():
    counter = []

    @jit
    def step(x):
        counter.append(None)
        return x * len(counter)

    assert [step(bp.tensor(1.0)).item() for _ in range(20)] == [float(i) for i in range(1, 21)]
    assert "runs uncaptured" in step.report()


def test_containers_and_keywords_come_and_go():
    @jit
    def step(pair, *, scale, table):
        a, b = pair
        return {"sum": a + b, "rest": [a * scale, (b, table["c"] - 1)], "name": "x"}

    a, b, c = bp.tensor(1.0), bp.tensor(2.0), bp.tensor(3.0)
    for _ in range(4):
        result = step((a, b), scale=2, table={"c": c})
        assert result["sum"].item() == 3 and result["rest"][0].item() == 2
        assert result["rest"][1][0] is b and result["rest"][1][1].item() == 2
        assert result["name"] == "x"


def test_reading_a_value_inside_is_refused_and_nothing_has_changed():
    w = bp.tensor([1.0], requires_grad=True)

    @jit
    def step(x):
        with bp.no_grad():
            w.assign(w * 2)
        if (x.sum() > 0).item():
            return x
        return -x

    with pytest.raises(CaptureError, match="a value was read inside a captured step"):
        step(bp.tensor([1.0]))
    assert w.item() == 1.0
    with config(jit=False):
        assert step(bp.tensor([1.0])).item() == 1.0


def test_a_value_that_is_kept_inside_is_refused():
    kept = []

    @jit
    def step(x):
        kept.append(x * 2)
        return x + (kept[-2] if len(kept) > 1 else x)

    step(bp.tensor([1.0]))
    with pytest.raises(CaptureError, match="a value of an earlier captured call"):
        step(bp.tensor([2.0]))
    with pytest.raises(CaptureError, match="read outside it"):
        kept[0].numpy()


def test_an_object_as_result_is_refused():
    with pytest.raises(CaptureError, match="gave back an object of type set"):
        jit(lambda x: {1, 2})(bp.ones(2))


def test_an_array_as_argument_is_refused():
    with pytest.raises(CaptureError, match=r"bp\.tensor\(array\)"):
        jit(lambda x: x)(np.ones(3))


def test_an_index_out_of_range_raises_at_each_call():
    step = jit(lambda table, i: table.take(i, axis=0))
    table = bp.tensor([1.0, 2.0, 3.0])
    for _ in range(4):
        with pytest.raises(IndexError, match="index 3 is out of range for size 3"):
            step(table, bp.tensor([3]))
        assert step(table, bp.tensor([-1])).tolist() == [3.0]


def test_a_jitted_method_and_a_nested_jit():
    class Model:
        def __init__(self):
            self.w = bp.tensor(2.0)

        @jit
        def double(self, x):
            return x * self.w

    model = Model()
    outer = jit(lambda x: model.double(x) + 1)
    for _ in range(3):
        assert model.double(bp.tensor(3.0)).item() == 6.0
        assert outer(bp.tensor(3.0)).item() == 7.0


def test_memory_is_flat_over_many_calls():
    w = bp.tensor(np.zeros(50, np.float32), requires_grad=True)

    @jit
    def step(x):
        loss = (w * x).sum()
        loss.backward()
        with bp.no_grad():
            w.assign(w - w.grad)
        w.grad = None
        return loss

    x = bp.ones(50).realise()
    for _ in range(5):
        step(x)
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(300):
            step(x)
        assert len(gc.get_objects()) - before < 150  # one a step would be 300
    finally:
        gc.enable()


def test_constants_made_inside_are_constants_even_if_they_have_memory():
    bp.ones(()).realise()

    @jit
    def step(x):
        return x * bp.ones(()) + bp.tensor([1.0, 2.0])

    for _ in range(4):
        assert step(bp.tensor([3.0, 4.0])).tolist() == [4.0, 6.0]
    assert "replayed from now on" in step.report()


def test_a_part_is_assigned_in_place():
    cache = bp.tensor(np.zeros((4, 1000), np.float32))

    @jit
    def step(row):
        cache[2] = row
        return cache.sum()

    for i in range(1, 6):
        assert step(bp.ones(1000) * i).item() == 1000 * i
    address = cache._node.block.address
    step(bp.ones(1000) * 9)
    assert cache._node.block.address == address
    np.testing.assert_array_equal(cache.numpy().sum(axis=1), [0, 0, 9000, 0])


def test_on_the_reference_device_the_function_runs_as_it_stands():
    calls = []

    @jit
    def step(x):
        calls.append(None)
        return x * 2

    x = bp.tensor([1.0], device="reference")
    assert [step(x).item() for _ in range(4)] == [2.0] * 4
    assert "uncaptured" in step.report() and step(x).device.name == "reference"


def test_a_step_that_fails_leaves_its_state_as_it_was():
    w = bp.tensor(np.arange(4.0, dtype=np.float32))

    @jit
    def step(i):
        w.assign(w + w.take(i, axis=0).sum())

    for _ in range(4):
        step(bp.tensor([0, 1]))
    before = w.tolist()
    with pytest.raises(IndexError, match="index 9 is out of range for size 4"):
        step(bp.tensor([0, 9]))
    assert w.tolist() == before
    step(bp.tensor([0, 1]))
    assert w.tolist() == [x + before[0] + before[1] for x in before]


def test_the_schedule_of_a_captured_step_can_be_shown():
    step = jit(lambda x: (x * 2).exp())
    assert "nothing is replayed yet" in step.schedule()
    for _ in range(2):
        step(bp.ones(4))
    assert "map_multiply_exp: 1 items" in step.schedule()


def test_threads_share_a_captured_step():
    step = jit(lambda x, y: (x @ y).relu().sum(axis=0))
    failures = []

    def work(number):
        rng = np.random.default_rng(number)
        a = rng.standard_normal((9 + number % 2, 20)).astype(np.float32)
        b = rng.standard_normal((20, 30)).astype(np.float32)
        x, y = bp.tensor(a), bp.tensor(b)
        expected = (x @ y).relu().sum(axis=0).numpy()
        for _ in range(20):
            if not np.array_equal(step(x, y).numpy(), expected):
                failures.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
