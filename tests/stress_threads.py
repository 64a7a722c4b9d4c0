"""Eight threads that do everything at once, with the interpreter switching every micro-second.

    python tests/stress_threads.py --minutes 5     in child processes of a minute each
    python tests/stress_threads.py --seconds 20    in this process

Each thread takes random jobs: training steps, captured steps that all threads share, gradients into
shared leaves, tensors that are made here, computed there and freed elsewhere, switches, files. The
bits of every result are compared with those that the same job gives afterwards, alone. Each child
starts with an empty cache of kernels and forgets its plans again and again, so that first uses
meet. All locks of the library are recorded: they must be taken in the order of
docs/in-depth/threads.md. The file is a little long: the jobs are most of it.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import hashlib
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.lock_order import LockOrder, documented

ORDER = LockOrder("bedplate")
if __name__ == "__main__":
    ORDER.record()  # before the library makes its locks

import numpy as np

import bedplate as bp
from bedplate import nn, optim
from bedplate.compiler.realise import clear_plans
from bedplate.olmo import Config, Olmo3
from bedplate.testing import LoopbackBackend

SWITCH_SECONDS = 1e-6
CHILD_SECONDS = 60
N_VARIANTS = 6  # of each job: other sizes and numbers
FORGET = 40  # jobs after which a thread forgets all plans
Arrays = list[Any]
Job = Callable[[int], Arrays]


def numbers(seed: int, *shape: int, dtype: Any = np.float32) -> bp.Tensor:
    return bp.tensor(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def mlp(n: int) -> Arrays:
    x, w, v = numbers(n, 3 + n, 8), numbers(n + 1, 8, 16), numbers(n + 2, 16, 1)
    value, grads = bp.value_and_grad(lambda w, v: ((x @ w).tanh() @ v).square().mean(), (0, 1))(
        w, v
    )
    return [value, *grads]


def _fill(model: nn.Module, rng: np.random.Generator, spread: float) -> None:
    with bp.no_grad():
        for p in model.parameters():
            p.assign(bp.tensor(rng.normal(size=p.shape).astype(np.float32) * spread))


def image_step(n: int) -> Arrays:
    """Convolution, batch normalisation, pooling: two training steps of a model of its own."""
    rng = np.random.default_rng(n)
    model = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
                          nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 3 * 3, 3))  # fmt: skip
    _fill(model, rng, 0.2)
    optimiser = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = numbers(n, 4 + n, 2, 6, 6), bp.tensor(rng.integers(0, 3, 4 + n))
    for _ in range(2):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    return [*model.parameters(), *model.state_dict().values()]


def attention(n: int) -> Arrays:
    q, k, v = (numbers(n + i, 1, 2, 20 + n, 16).requires_grad_() for i in range(3))
    (nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True) ** 2).sum().backward()
    return [q.grad, k.grad, v.grad]


def captured_own(n: int) -> Arrays:
    """A captured step of this call's own, which assigns state."""
    w = numbers(n, 6, 6)
    x = numbers(n + 9, 4, 6)

    @bp.jit
    def step(x: bp.Tensor) -> bp.Tensor:
        loss, grad = bp.value_and_grad(lambda w: ((x @ w).sigmoid()).sum())(w)
        w.assign(w - grad * 0.1)
        return loss

    return [*[step(x) for _ in range(4)], w]


@bp.jit
def _shared_step(x: bp.Tensor) -> bp.Tensor:
    return (x.exp() * 2 - x).sum(axis=0)


def captured_shared(n: int) -> Arrays:
    return [_shared_step(numbers(n, 5 + n, 4)) for _ in range(3)]


def separate_tape(n: int) -> Arrays:
    tape, x = bp.Autograd(), numbers(n, 7).requires_grad_()
    y = (x * x.sin()).sum()
    found = [bp.Autograd.current().backward(y)[x]]
    tape.reset()
    return found


class Cube(bp.Operation):
    def forward(self, x: bp.Tensor) -> bp.Tensor:
        self.x = x
        return x * x * x

    def grad_fn(self, grad: bp.Tensor) -> bp.Tensor:
        return grad * 3 * self.x * self.x


def own_operation(n: int) -> Arrays:
    x = numbers(n, 5 + n).requires_grad_()
    bp.rematerialise(lambda x: Cube.apply(x).exp())(x * 0.5).sum().backward()
    return [x.grad]


def drawn(n: int) -> Arrays:
    own = bp.Generator(n)
    return [
        own.normal((50,)),
        own.uniform((3, 5)),
        own.permutation(20),
        own.dropout(bp.ones(40), 0.5),
    ]


def ordered(n: int) -> Arrays:
    x = numbers(n, 6, 300 + n)
    values, places = bp.topk(x, 5)
    return [bp.sort(x), bp.argsort(x), values, places, x.cumsum(axis=1), x[:, ::3], x[x > 0.5]]


def on_the_host(n: int) -> Arrays:
    a = numbers(n, 4, 4, dtype=np.float64) + bp.eye(4, dtype=bp.float64) * 5
    return [bp.linalg.solve(a, a.T), bp.linalg.qr(a)[0], bp.fft.rfft(a)]


def switched(n: int) -> Arrays:
    """Switches hold in this thread and in the block alone."""
    x = numbers(n, 9, 9).requires_grad_()
    with bp.no_grad():
        assert not (x * 2).requires_grad
    with bp.config(fusion=bool(n % 2), jit=n % 3 > 0), bp.default_device("reference"):
        time.sleep(0)
        assert bp.config.fusion is bool(n % 2) and bp.config.jit is (n % 3 > 0)
        assert str(bp.zeros(1).device) == "reference"
        y = (x + 1) * (x - 1)
        assert y.requires_grad and str(y.device) == "cpu"
        found = y.sum(axis=0)
    assert bp.config.fusion and bp.config.jit and str(bp.zeros(1).device) == "cpu"
    return [found]


def files(n: int) -> Arrays:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("values.npz" if n % 2 else "values.safetensors")
        bp.save({"x": numbers(n, 4, n + 1)}, path)
        return [bp.load(path)["x"]]


_MODEL = Olmo3(Config(vocab_size=64, d_model=32, n_heads=2, intermediate_size=48, n_layers=2))


def shared_model(n: int) -> Arrays:
    """One model that all threads read: gradients into tables of their own, and greedy tokens."""
    ids = np.random.default_rng(n).integers(0, 64, (2, 12 + n))
    table = bp.Autograd.current().backward(_MODEL.loss(ids[:, :-1], ids[:, 1:]))
    grads = [table[p] for p in _MODEL.parameters()]
    return [*grads, bp.tensor(np.array(_MODEL.generate(ids[:1, :5], max_new_tokens=4)))]


_HANDED: queue.Queue[tuple[int, bp.Tensor]] = queue.Queue(maxsize=64)


def handed_on(n: int) -> Arrays:
    """A tensor that is built here and computed by whichever thread takes it; its value is checked
    there, and it is freed there."""
    x = numbers(n, 30, 40 + n)
    try:
        _HANDED.put_nowait((n, (x * 2 + 1).sum(axis=1)))
        number, taken = _HANDED.get_nowait()
    except (queue.Full, queue.Empty):
        return []
    expected = (numbers(number, 30, 40 + number) * 2 + 1).sum(axis=1)
    assert taken.numpy().tobytes() == expected.numpy().tobytes()
    return []


class SharedLeaf:
    """A leaf into whose gradient all threads add integers: the sum is exact in any order."""

    def __init__(self) -> None:
        self.leaf = bp.zeros((3, 5)).requires_grad_()
        self.added = collections.Counter[int]()
        self.lock = threading.Lock()

    def job(self, n: int) -> Arrays:
        (self.leaf * (n + 1)).sum().backward()
        with self.lock:
            self.added[n + 1] += 1
        return []

    def check(self) -> None:
        if self.leaf.grad is None:
            return
        total = sum(number * count for number, count in self.added.items())
        found = self.leaf.grad.numpy()
        assert total < 1 << 24 and (found == total).all(), (total, found)


_FAR = ("near", "far")
for _name in _FAR:
    bp.devices.register(LoopbackBackend(_name))


def far(n: int) -> Arrays:
    """Values that wander between two devices with memory of their own, on streams of this call."""
    x = numbers(n, 20 + n, 5)
    y = x.to("far").requires_grad_()
    for step in range(4):
        with bp.Stream("far"), bp.Stream("near"):
            y = (y * 2 + step).to(_FAR[step % 2]).tanh()
            y = y.to("far").realise()
    event = bp.Event()
    bp.devices.current_stream("far").record(event)
    y.sum().backward()
    event.wait()
    return [y]


_SHARED_FAR = numbers(0, 9, 300).to("far").realise()


def far_shared(n: int) -> Arrays:
    """One tensor of a device that all threads read, each on a stream of its own."""
    with bp.Stream("far"):
        return [(_SHARED_FAR * (n + 1)).sum(axis=0), _SHARED_FAR[n]]


@bp.jit
def _far_step(x: bp.Tensor) -> bp.Tensor:
    return (x.exp() * 2 - x).sum(axis=0)


def far_captured(n: int) -> Arrays:
    return [_far_step(numbers(n, 5 + n, 4).to("far")) for _ in range(2)]


_MANAGER = bp.MemoryManager("64 KiB", "1 MiB")
_BUFFERS: queue.Queue[Any] = queue.Queue(maxsize=64)


def managed(n: int) -> Arrays:
    """Buffers of all tiers of a manager that all threads use; some are freed by other threads."""
    for count in (10, 3000, 30_000 * (n + 1), 300_000):
        buffer = _MANAGER.allocate(count, bp.float32)
        buffer.array[:] = count + n
        with contextlib.suppress(queue.Full, queue.Empty):
            _BUFFERS.put_nowait((buffer, count + n))
            buffer, wanted = _BUFFERS.get_nowait()
            assert (buffer.array == wanted).all()
        buffer.free()
    if n == 0:
        _MANAGER.release()
    return []


def limited(n: int) -> Arrays:
    """A request that no limit allows; the others go on."""
    with bp.config(memory_limit=3000):  # of this thread alone
        try:
            bp.zeros(1 << 40).realise()
        except bp.errors.OutOfMemoryError as error:
            assert "no memory" in str(error)
        else:
            raise AssertionError("4 TiB were to be had")
        return [numbers(n, 3, 4) * 2]


def rematerialised(n: int) -> Arrays:
    """A module that is rematerialised, with running statistics and dropout, of this call's own."""
    rng = np.random.default_rng(n)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))
    _fill(model, rng, 0.3)
    x = numbers(n, 4 + n, 6).requires_grad_()
    own = bp.Generator(n)
    h, kept = bp.rematerialise(lambda x: (own.dropout(model(x), 0.5), x.sin()))(x)
    (h.square().sum() + kept.sum()).backward()
    return [h, x.grad, *[p.grad for p in model.parameters()], *model.state_dict().values()]


LEAF = SharedLeaf()
JOBS: tuple[Job, ...] = (
    mlp, image_step, attention, captured_own, captured_shared, separate_tape, own_operation, drawn,
    ordered, on_the_host, switched, files, shared_model, handed_on, LEAF.job,
    far, far_shared, far_captured, managed, limited, rematerialised,
)  # fmt: skip


def digest(job: Job, variant: int) -> str:
    """The bits of all results of a job."""
    total = hashlib.sha256()
    for value in job(variant):
        array = value.numpy()
        total.update(f"{array.shape} {array.dtype}".encode() + array.tobytes())
    return total.hexdigest()


class Run:
    """Threads that take jobs until the time is over; `seen` has all digests of each job."""

    def __init__(self, n_threads: int, seconds: float, seed: int) -> None:
        self.end = time.monotonic() + seconds
        self.seen: dict[tuple[int, int], set[str]] = collections.defaultdict(set)
        self.faults: list[tuple[str, BaseException]] = []
        self.count = 0
        self.lock = threading.Lock()
        self.start = threading.Barrier(n_threads)
        self.threads = [
            threading.Thread(target=self._work, args=(seed + i,), daemon=True)
            for i in range(n_threads)
        ]

    def _work(self, seed: int) -> None:
        rng = random.Random(seed)
        self.start.wait()
        number = 0
        while time.monotonic() < self.end and not self.faults:
            job, variant = rng.randrange(len(JOBS)), rng.randrange(N_VARIANTS)
            try:
                found = digest(JOBS[job], variant)
            except BaseException as error:
                self.faults.append((f"{JOBS[job].__name__}({variant})", error))
                return
            with self.lock:
                self.seen[job, variant].add(found)
                self.count += 1
            number += 1
            if number % FORGET == 0:
                clear_plans()

    def run(self) -> None:
        """Run all threads; raises what one of them raised."""
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join(max(self.end - time.monotonic(), 0) + 120)
            if thread.is_alive():
                faulthandler.dump_traceback(all_threads=True)
                raise SystemExit("a thread hangs: its stack and those of the others are above")
        for name, error in self.faults:
            print(f"fault in {name}", file=sys.stderr)
            raise error

    def check(self) -> None:
        """Compare all digests with those of the jobs alone."""
        LEAF.check()
        for (job, variant), found in sorted(self.seen.items()):
            alone = digest(JOBS[job], variant)
            if found != {alone}:
                name = f"{JOBS[job].__name__}({variant})"
                raise SystemExit(f"{name} gave {len(found | {alone})} different results")


def stress(n_threads: int, seconds: float, seed: int) -> None:
    """One run in this process."""
    sys.setswitchinterval(SWITCH_SECONDS)
    _fill(_MODEL, np.random.default_rng(0), 0.1)
    run = Run(n_threads, seconds, seed)
    run.run()
    run.check()
    ORDER.check(documented())
    print(
        f"seed {seed}: {run.count} jobs in {n_threads} threads, no wrong bit; {ORDER}", flush=True
    )


def children(minutes: float, n_threads: int, seed: int) -> int:
    """Child processes one after the other, each with an empty cache of kernels."""
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory() as folder:
            seconds = min(CHILD_SECONDS, max(end - time.monotonic(), 10))
            command = [sys.executable, __file__, "--seconds", str(seconds), "--seed", str(seed),
                       "--threads", str(n_threads)]  # fmt: skip
            answer = subprocess.run(command, env={**os.environ, "BEDPLATE_CACHE_DIR": folder})
        if answer.returncode:
            print(f"stress: seed {seed} failed ({answer.returncode})", file=sys.stderr)
            return 1
        seed += n_threads
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, help="one run in this process")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.seconds is None:
        return children(given.minutes, given.threads, given.seed)
    stress(given.threads, given.seconds, given.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
