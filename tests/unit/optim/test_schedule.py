"""Learning rates over time."""

import pytest

from bedplate.nn import Parameter
from bedplate.optim import SGD, Scheduler, WarmupCosine, warmup_cosine


def test_shape_of_the_curve():
    factors = [warmup_cosine(progress / 100, 0.1, 0.1) for progress in range(101)]
    assert factors[:11] == sorted(factors[:11])
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert max(factors) == 1.0
    assert factors[-1] == pytest.approx(0.1)


def test_no_warmup_and_beyond_the_end():
    assert warmup_cosine(0.0, 0.0) == 1.0
    assert warmup_cosine(2.0) == pytest.approx(0.1)


def test_counted_steps():
    schedule = WarmupCosine(3, 10, final=0.0)
    assert [schedule(step) for step in range(4)] == pytest.approx([1 / 3, 2 / 3, 1.0, 1.0])
    assert schedule(9) == pytest.approx(0.0)
    with pytest.raises(ValueError, match="warmup_steps = 10 is not in"):
        WarmupCosine(10, 10)


def test_a_scheduler_scales_every_group():
    groups = [{"params": [Parameter([1.0])]}, {"params": [Parameter([1.0])], "lr": 0.2}]
    optimizer = SGD(groups, lr=0.1)
    scheduler = Scheduler(optimizer, lambda step: 1.0 / (1 + step))
    scheduler.step()
    rates = [group["lr"].item() for group in optimizer.param_groups]
    assert rates == pytest.approx([0.05, 0.1])
    state = scheduler.state_dict()
    scheduler.step()
    scheduler.load_state_dict(state)
    assert optimizer.param_groups[0]["lr"].item() == pytest.approx(0.05)
