"""Out of memory, wherever it comes, is a clear error that leaves everything usable and whole."""

import re
import threading

import numpy as np
import pytest

import bedplate as bp
import bedplate.nn.functional as F
from bedplate import nn, optim
from bedplate.errors import OutOfMemoryError, SettingError
from bedplate.memory import allocate, pressure, release_cache
from bedplate.memory.mapping import ACCOUNT
from bedplate.olmo import Config, Olmo3

MIB = 1 << 20


def room(mebibytes):
    """A limit that leaves so much beside what is in use."""
    release_cache()
    return bp.memory.limit(pressure.in_use() + mebibytes * MIB)


def refused(text="no memory for"):
    return pytest.raises(OutOfMemoryError, match=text)


@pytest.fixture(autouse=True)
def no_limit():
    yield
    bp.memory.limit(None)
    x = bp.ones((3,)) + 1
    assert x.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("size", "mebibytes"),
    [("4GiB", 4096), ("1.5 gb", 1536), ("300M", 300), ("1 byte", None), (3 * MIB, 3), (1, 1),
     (MIB + 1, 2), (None, 0)],
)  # fmt: skip
def test_sizes(size, mebibytes):
    if mebibytes is None:
        with pytest.raises(SettingError, match="is no size"):
            bp.memory.limit(size)
        return
    with bp.memory.limit(size):
        assert bp.config.memory_limit == mebibytes
    assert bp.config.memory_limit == 0


@pytest.mark.parametrize(
    "size", ["", "four", "-1 GiB", -5, 1.5, "1 XiB", "1" * 400, 2**70, "2000000 TiB", True, b"1"]
)
def test_what_is_no_size(size):
    with pytest.raises(SettingError, match="is no size"):
        bp.memory.limit(size)
    with pytest.raises(SettingError, match="leaves nothing"):
        bp.memory.limit(0)


def test_limits_nest_and_stay_when_they_are_no_context():
    with bp.memory.limit("2 GiB"):
        with bp.memory.limit("1 GiB"):
            assert bp.config.memory_limit == 1024
        assert bp.config.memory_limit == 2048
    bp.memory.limit("3 GiB")
    assert bp.config.memory_limit == 3072


def test_the_error_names_holders_and_lines():
    held = bp.tensor(np.zeros((5, MIB), np.float32))
    with room(10):
        with refused() as caught:
            (held * 2).exp().realise()
        with refused(r"asked for at .*test_memory_limit\.py:\d+"):
            bp.tensor(np.zeros(4 * MIB, np.float32))
    text = str(caught.value)
    lines = "test_memory_limit.py:"
    assert re.search(rf"20\.0 MiB   \(5, {MIB}\) float32   made at .*{lines}", text), text
    assert re.search(rf"the largest is \w+ \(5, {MIB}\) .*made at .*{lines}", text), text
    assert "bp.memory.limit" in text


def test_in_forward_each_size_of_memory():
    """Whatever is in use when the last byte goes, the same is computed afterwards."""
    x = bp.tensor(np.arange(2 * MIB, dtype=np.float32) / MIB)

    def build():
        y = x.reshape(2048, 1024) @ x.reshape(1024, 2048)
        return F.softmax(y.tanh() + y.sin(), 1)

    wanted, failed = build().numpy(), 0
    for mebibytes in range(1, 92, 7):
        with room(mebibytes):
            z = build()
            try:
                z.realise()
            except OutOfMemoryError:
                failed += 1
        assert (z.numpy() == wanted).all()
        del z
    assert 0 < failed < 13


@pytest.mark.parametrize("captured", [False, True])
def test_a_failed_step_changes_nothing(captured):
    bp.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512))
    optimiser = optim.AdamW(model.parameters(), lr=1e-3)

    def step(x):
        optimiser.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimiser.step()
        return loss.detach()

    run = bp.jit(step) if captured else step
    small, big = (bp.tensor(np.ones((n, 512), np.float32)) for n in (8, 8192))
    for _ in range(4):
        run(small).item()
    if captured:
        run(big).item()  # so that what fails is a replay
    before = state_of(model, optimiser)
    with room(100), refused():
        run(big).item()
    assert same(before, state_of(model, optimiser))
    twin, twin_optimiser = copy_of(model, optimiser)
    assert run(small).item() == pytest.approx(plain_step(twin, twin_optimiser, small))
    assert same(state_of(model, optimiser), state_of(twin, twin_optimiser))


def plain_step(model, optimiser, x):
    optimiser.zero_grad()
    loss = (model(x) ** 2).mean()
    loss.backward()
    optimiser.step()
    return loss.item()


def copy_of(model, optimiser):
    twin = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512))
    twin.load_state_dict({name: x.detach() for name, x in model.state_dict().items()})
    twin_optimiser = optim.AdamW(twin.parameters(), lr=1e-3)
    twin_optimiser.load_state_dict(optimiser.state_dict())
    return twin, twin_optimiser


def state_of(model, optimiser):
    tensors = {**model.state_dict(), **optimiser.state_dict()}
    return {name: x.numpy().copy() for name, x in tensors.items()}


def same(one, other):
    return all(np.allclose(one[name], other[name], rtol=1e-5, atol=1e-7) for name in one)


def test_in_the_optimisers_step_alone():
    weight = nn.Parameter(bp.zeros((4 * MIB,)))
    optimiser = optim.AdamW([weight], lr=0.1)
    weight.grad = bp.ones((4 * MIB,)).realise()
    with room(20), refused():
        optimiser.step()
    assert optimiser.step_count.item() == 0 and not weight.detach().numpy().any()
    optimiser.step()
    assert optimiser.step_count.item() == 1
    assert weight.detach().numpy() == pytest.approx(-0.1, rel=1e-4)


def test_in_backward():
    x = bp.tensor(np.ones((1024, 1024), np.float32), requires_grad=True)
    with room(6):
        y = x
        for _ in range(4):
            y = (y @ x).tanh()
        with refused():
            y.sum().backward()
            x.grad.realise()
    y.sum().backward() if x.grad is None else None
    assert np.isfinite(x.grad.numpy()).all()


def test_in_creation():
    array = np.ones(8 * MIB, np.float32)
    for make in (bp.tensor, bp.asarray, bp.from_numpy):
        with room(4), refused(r"no memory for 32\.0 MiB"):
            make(array).realise()
        assert make(array).shape == array.shape


def test_in_generation():
    bp.manual_seed(0)
    model = Olmo3(Config(
        vocab_size=512, hidden_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, intermediate_size=512,
    ))  # fmt: skip
    wanted = model.generate([[1, 2, 3]], 4).tolist()
    prompt = np.arange(2000)[None] % 512
    with room(4), refused():
        model.generate(prompt, 300)
    assert model.generate([[1, 2, 3]], 4).tolist() == wanted


def test_other_threads_and_managers_count():
    manager, held, errors = bp.MemoryManager(), [], []

    def fill(take, size):
        try:
            while True:
                held.append(take(size))
        except OutOfMemoryError as error:
            errors.append(error)

    with room(60):
        limit = bp.config.memory_limit * MIB
        work = [(allocate, 100), (allocate, 3 * MIB), (manager.allocate, 200_000),
                (manager.allocate, 2 * MIB)]  # fmt: skip
        threads = [threading.Thread(target=fill, args=each) for each in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(errors) == 4
        assert limit - 12 * MIB < ACCOUNT.mapped <= limit
        held.clear()
        errors.clear()
        assert allocate(50 * MIB).nbytes == 50 * MIB  # what all of them kept makes room


def test_memory_in_cycles_is_found():
    class Ring:
        def __init__(self):
            self.ring, self.block = self, allocate(40 * MIB)

    with room(60):
        Ring()
        assert allocate(40 * MIB).nbytes == 40 * MIB
