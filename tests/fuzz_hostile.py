"""Random public functions on random hostile arguments: only Python exceptions may come out.

    python tests/fuzz_hostile.py --minutes 20      in child processes, until the time is over
    python tests/fuzz_hostile.py --seed 1234       one call again, with its traceback

A child makes calls and prints each before it makes it. The parent watches: a child that dies by a
signal, says nothing for too long or takes too much memory has found a fault, and so has a call
that raises InternalError or something that no user can act on (AttributeError from our own code,
ZeroDivisionError, ...). The parent starts another child behind the call that did it.
"""

from __future__ import annotations

import argparse
import collections
import decimal
import fractions
import inspect
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bedplate as bp
from bedplate import nn

SECONDS_A_CALL = 60  # compiling on a busy machine takes some
MEMORY = 3 << 30  # bytes that a child may hold, beside its limit of 256 MiB for tensors
LARGEST = 1 << 16  # elements of a result that is looked at
# they change the process, wait, or write files where they are told to
LEFT_OUT = {"config", "save", "load", "jit", "synchronize", "manual_seed", "level", "explain"}
# what no caller can act on; TypeError, ValueError, IndexError and ours are refusals
UNCLEAN = (
    bp.errors.InternalError, SystemError, AttributeError, AssertionError, KeyError, NameError,
    ZeroDivisionError, RecursionError, StopIteration, NotImplementedError, UnicodeError,
)  # fmt: skip
DTYPES = [bp.float32, bp.float64, bp.int64, bp.int8, bp.uint8, bp.bool_, bp.bfloat16, bp.float16,
          bp.complex64, bp.uint64, bp.int32]  # fmt: skip
SHAPES = [(), (1,), (3,), (0,), (2, 3), (3, 2), (3, 3), (0, 3), (2, 0, 3), (1, 3), (2, 3, 4),
          (1, 2, 5, 5), (2, 2, 2, 2, 2), (1,) * 12]  # fmt: skip


def functions() -> dict[str, Callable[..., Any]]:
    """Every public function, method and layer by name."""
    found: dict[str, Callable[..., Any]] = {}
    spaces = [("bp", bp), ("bp.linalg", bp.linalg), ("bp.fft", bp.fft), ("bp.special", bp.special)]
    spaces += [("bp.nn.functional", nn.functional), ("bp.random", bp.random)]
    for space, module in spaces:
        for name in getattr(module, "__all__", dir(module)):
            member = getattr(module, name, None)
            if callable(member) and not inspect.isclass(member) and name not in LEFT_OUT:
                found[f"{space}.{name}"] = member
    for name, member in inspect.getmembers(bp.Tensor, callable):
        private = name.startswith("_") and not name.startswith("__")
        if not private and name not in (
            "__class__",
            "__init_subclass__",
            "__new__",
            "__reduce_ex__",
            "__sizeof__",
            "__setattr__",
            "__array_function__",
        ):
            found[f"Tensor.{name}"] = member
    for name, member in inspect.getmembers(nn, inspect.isclass):
        if issubclass(member, nn.Module):
            found[f"bp.nn.{name}"] = _layer(member)
    found["bp.Tensor"] = bp.Tensor
    return dict(sorted(found.items()))


def _layer(kind: Any) -> Callable[..., Any]:
    def made_and_called(x: Any, *arguments: Any, **named: Any) -> Any:
        return kind(*arguments, **named)(x)

    return made_and_called


def tensor(rng: Any) -> bp.Tensor:
    """A small tensor of any dtype, layout and content."""
    shape = SHAPES[rng.integers(len(SHAPES))]
    dtype = DTYPES[min(rng.integers(16), len(DTYPES) - 1) if rng.random() < 0.5 else 0]
    array = rng.normal(size=shape) * 10.0 ** rng.integers(-2, 3)
    if dtype.is_float and rng.random() < 0.3:
        array = np.where(
            rng.random(shape) < 0.3, [np.nan, np.inf, -np.inf, 0.0][rng.integers(4)], array
        )
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = bp.tensor(np.abs(array) if dtype.kind == "u" else array).astype(dtype)
    view = rng.integers(6)
    if view == 0 and made.ndim > 1:
        made = made.permute(*reversed(range(made.ndim)))
    elif view == 1 and made.ndim:
        made = made[..., ::-1]
    elif view == 2 and made.ndim:
        made = made[:1].broadcast_to(made.shape)
    if dtype.kind in "fc" and rng.random() < 0.4:
        made = made.detach().requires_grad_()
    return made


def _itself() -> list[Any]:
    inside: list[Any] = []
    inside.append(inside)
    return inside


HOSTILE: list[Callable[[Any], Any]] = [
    lambda r: None, lambda r: True, lambda r: -1, lambda r: 0, lambda r: 1, lambda r: 2,
    lambda r: int(r.integers(-5, 6)), lambda r: 2**31, lambda r: 2**63, lambda r: -(2**63),
    lambda r: 2**64 + 1, lambda r: 10**400, lambda r: float(r.normal()), lambda r: 1e308,
    lambda r: float("nan"), lambda r: float("inf"), lambda r: -0.0, lambda r: 1j, lambda r: "",
    lambda r: "mean", lambda r: "float32", lambda r: "\0", lambda r: b"x", lambda r: [],
    lambda r: (), lambda r: [[]], lambda r: [[1.0], [2.0, 3.0]], lambda r: {}, lambda r: {1},
    lambda r: object(), lambda r: object, lambda r: len, lambda r: slice(None), lambda r: ...,
    lambda r: range(3), lambda r: (i for i in range(3)), lambda r: _itself(),
    lambda r: (2, 3), lambda r: (-1,), lambda r: (0, 1), lambda r: (1, 1), lambda r: (2**40, 2**40),
    lambda r: (2**20, 2**20), lambda r: (-(2**62), 4), lambda r: (1.5, 2), lambda r: (None,),
    lambda r: (1,) * 70, lambda r: [0, -1], lambda r: bp.float32, lambda r: bp.Device("cpu"),
    lambda r: "cuda", lambda r: np.float32(1.5), lambda r: np.int64(-3), lambda r: np.bool_(True),
    lambda r: np.array([object()]), lambda r: np.array(["a"]), lambda r: np.zeros(2, "M8[s]"),
    lambda r: np.zeros(2, [("a", "i4")]), lambda r: np.arange(6.0).reshape(2, 3).T,
    lambda r: np.arange(3, dtype=">f4"), lambda r: np.float64(2), lambda r: decimal.Decimal(1),
    lambda r: fractions.Fraction(1, 3), lambda r: [tensor(r), tensor(r)],
    lambda r: (tensor(r), None), lambda r: bp.tensor([5, -7, 2**40]),
    lambda r: bp.tensor([[0, 1], [2, -9]]), lambda r: bp.kernel_output((2,), bp.float32),
    lambda r: bytearray(4), lambda r: memoryview(b"ab"),
]  # fmt: skip


def argument(rng: Any, name: str) -> Any:
    """Something for a parameter: what its name asks for, or something hostile."""
    if rng.random() < 0.3:
        return HOSTILE[rng.integers(len(HOSTILE))](rng)
    if name in ("axis", "dim", "axis1", "axis2", "offset", "k", "n", "start", "stop", "step"):
        return [0, 1, -1, 2, -7, None, (0, 1), (-1, 0)][rng.integers(8)]
    if name in (
        "shape",
        "size",
        "kernel_size",
        "stride",
        "padding",
        "dilation",
        "repeats",
        "shift",
    ):
        return [1, 2, (2, 3), (3,), 0, (1, 1), (2, 2), -1, (), (6,)][rng.integers(10)]
    if name in ("keepdims", "keepdim", "correction", "descending", "stable"):
        return bool(rng.integers(2))
    return tensor(rng)


def call(
    seed: int, table: dict[str, Callable[..., Any]], names: list[str]
) -> tuple[str, Callable[[], None]]:
    """The text and the thunk of the call of a seed."""
    rng = np.random.default_rng(seed)
    name = names[rng.integers(len(names))]
    function = table[name]
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    given: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in parameters:
        optional = parameter.default is not inspect.Parameter.empty
        if optional and rng.random() < 0.6:
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            given += [argument(rng, "x") for _ in range(rng.integers(4))]
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY or (optional and not named):
            named[parameter.name] = argument(rng, parameter.name)
        elif parameter.kind is not inspect.Parameter.VAR_KEYWORD and not named:
            given.append(argument(rng, parameter.name))
    if name.startswith("Tensor.") and given:
        given[0] = tensor(rng)
    if rng.random() < 0.03:
        given = given[:-1]
    shown = [_shown(x) for x in given] + [f"{k}={_shown(v)}" for k, v in named.items()]
    text = f"{name}({', '.join(shown)})"
    return text, lambda: used(function(*given, **named), rng)


def _shown(value: Any) -> str:
    if isinstance(value, bp.Tensor):
        return f"<{value.shape} {value.dtype}>"
    try:
        return repr(value)[:60].replace("\n", " ")
    except Exception as error:
        return f"<{type(value).__name__}: {type(error).__name__}>"


def used(result: Any, rng: Any, depth: int = 0) -> None:
    """Read what came out, and walk back from it."""
    if isinstance(result, bp.Tensor):
        if result.size <= LARGEST:
            result.numpy()
            if result.requires_grad and rng.random() < 0.5:
                loss = bp.real(result).sum() if result.dtype.kind == "c" else result.sum()
                loss.backward()
    elif isinstance(result, tuple | list) and depth < 3:
        for part in result[:5]:
            used(part, rng, depth + 1)


def fault_of(error: BaseException) -> bool:
    """Whether no user could act on it.

    What an argument raises itself is none of ours.
    """
    if not isinstance(error, UNCLEAN):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and "bedplate" in frames[-1].filename


def child(first: int) -> None:
    """Make calls for ever, each printed before it is made."""
    warnings.simplefilter("ignore")
    bp.config.set(memory_limit=256, num_threads=2)
    table = functions()
    names = list(table)
    out = sys.stdout
    seed = first
    while True:
        text, thunk = call(seed, table, names)
        print(f"{seed} {text}", file=out, flush=True)
        try:
            thunk()
        except Exception as error:
            if fault_of(error):
                where = traceback.extract_tb(error.__traceback__)[-1]
                line = str(error).splitlines()[0] if str(error) else ""
                print(
                    f"! {type(error).__name__} at {Path(where.filename).name}:{where.lineno}: "
                    f"{line[:100]} <- {seed} {text}",
                    file=out, flush=True,
                )  # fmt: skip
        seed += 1


def resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


class Hunt:
    """Children one after the other, and what they found."""

    def __init__(self, seconds: float, first: int, folder: str) -> None:
        self.end, self.seed, self.folder = time.monotonic() + seconds, first, folder
        self.start = first
        self.faults: dict[str, list[str]] = collections.defaultdict(list)

    def run(self) -> int:
        while time.monotonic() < self.end:
            self._one_child()
        print(f"{self.seed - self.start} calls")
        for kind, texts in sorted(self.faults.items()):
            print(f"{kind}: {len(texts)} times, such as\n    {texts[0]}")
        return 1 if self.faults else 0

    def _one_child(self) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), "--child", str(self.seed)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
            errors="replace",
        )  # fmt: skip
        lines: queue.Queue[str] = queue.Queue()
        errors: list[str] = []
        readers = [
            threading.Thread(target=lambda: [lines.put(x) for x in process.stdout or ()]),
            threading.Thread(target=lambda: errors.extend(process.stderr or ())),
        ]
        for reader in readers:
            reader.daemon = True
            reader.start()
        last = self._watch(process, lines)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        elif last:
            tail = "".join(errors[-5:]).strip().replace("\n", " | ")
            self.faults[f"died with {process.returncode}"].append(f"{last} {tail}")
        process.wait()
        for reader in readers:
            reader.join()

    def _watch(self, process: Any, lines: queue.Queue[str]) -> str:
        """The last call of a child that died; empty if the hunt ended it."""
        last, since = "(starting)", time.monotonic()
        while time.monotonic() < self.end:
            try:
                line = lines.get(timeout=1.0).rstrip("\n")
            except queue.Empty:
                line = ""
            if line.startswith("! "):
                kind, _, text = line[2:].partition(" <- ")
                self.faults[kind].append(text)
            elif line:
                last, since = line, time.monotonic()
                number = line.partition(" ")[0]
                self.seed = int(number) + 1 if number.isdigit() else self.seed
            elif process.poll() is not None:
                return last
            if time.monotonic() - since > SECONDS_A_CALL:
                self.faults["hangs"].append(last)
                return ""
            if line and resident_bytes(process.pid) > MEMORY:
                self.faults["takes too much memory"].append(last)
                return ""
        return ""


def again(seed: int) -> None:
    """One call, with whatever it raises."""
    table = functions()
    text, thunk = call(seed, table, list(table))
    print(text, flush=True)
    bp.config.set(memory_limit=256)
    thunk()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first call")
    parser.add_argument("--seed", type=int, help="make this call only")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        child(options.child)
    elif options.seed is not None:
        again(options.seed)
    else:
        with tempfile.TemporaryDirectory() as folder:
            return Hunt(60 * options.minutes, options.first, folder).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
