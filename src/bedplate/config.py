"""All settings in one typed table: name, type, default, environment variable, meaning.

`config.NAME` reads a setting; `with config(NAME=value):` changes it for this thread and
context; `config.set(NAME=value)` changes it for the process. Each has an environment
variable `BEDPLATE_NAME`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    """One setting: its type is that of `default`; where there are `choices` it is one of them.

    plans  what is compiled depends on it, so that each value has plans and captures of its own
    """

    name: str
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()
    plans: bool = False

    @property
    def variable(self) -> str:
        return f"BEDPLATE_{self.name.upper()}"

    def parse(self, text: str) -> Any:
        if isinstance(self.default, bool):
            if text.lower() in ("1", "true", "yes", "on"):
                return True
            if text.lower() in ("0", "false", "no", "off", ""):
                return False
        else:
            try:
                value = type(self.default)(text)
            except ValueError:
                pass
            else:
                self.check(value, f"{self.variable}={text!r}")
                return value
        raise ValueError(f"{self.variable}={text!r}: expected {type(self.default).__name__}")

    def check(self, value: Any, shown: str) -> None:
        """raises TypeError or ValueError, which begins with `shown`, if the setting cannot be so"""
        wanted = type(self.default)
        if not isinstance(value, wanted):
            raise TypeError(f"{shown}: expected {wanted.__name__}")
        if wanted is int and not 0 <= value < 1 << 40:
            raise ValueError(f"{shown}: expected a number from 0 to 2**40")
        if self.choices and value not in self.choices:
            raise ValueError(f"{shown}: expected one of {', '.join(map(repr, self.choices))}")


def _default_cache() -> str:
    """The user's cache folder; nowhere for a user without a home, as in some containers."""
    home = os.path.expanduser("~")  # as it is where there is none
    beside = os.path.join(home, ".cache") if home != "~" else ""
    place = os.environ.get("XDG_CACHE_HOME") or beside
    return os.path.join(place, "bedplate") if place else ""


# how sums are accumulated; "": in the dtype itself, float16 and bfloat16 in float32
ACCUMULATE = ("", "float32", "float64", "compensated")

SETTINGS = (
    Setting("num_threads", 0, "worker threads of the CPU, counting the caller; 0: one a core"),
    Setting("cache_dir", _default_cache(), "folder of compiled kernels; empty: no disk cache"),
    Setting("plan_files", True, "keep plans of large graphs in cache_dir too"),
    Setting("cache_size", 512, "bound of the disk cache in MiB; the oldest entries go first"),
    Setting("target", "", "make kernels for a lesser processor of the same kind, such as avx2; "
            "read once; empty: this one"),
    Setting("check", False, "bounds-checked kernels: an access out of range is a Python error",
            plans=True),
    Setting("debug", 0, "1 what ran, 2 time and bytes, 3 passes that changed the graph, "
            "4 kernel programs, 5 LLVM IR, 6 assembly"),
    Setting("debug_filter", "", "only kernels whose name contains this"),
    Setting("verify", False, "verify the graph after every pass"),
    Setting("pending_nodes", 20000, "a thread's pending graph is run when it holds so many nodes"),
    Setting("pending_size", 256, "so is it when data of this many MiB has entered it"),
    Setting("fusion", True, "fuse element-wise ops, reductions and epilogues into single kernels",
            plans=True),
    Setting("merging", True, "small launches of one kernel side by side run as one, over a table",
            plans=True),
    Setting("tiling", True, "read in tiles what lies across the rows, as transposition does",
            plans=True),
    Setting("layout", True, "convolutions put channels innermost where that pays", plans=True),
    Setting("folding", True, "fold constant subgraphs", plans=True),
    Setting("cse", True, "merge equal subexpressions", plans=True),
    Setting("algebra", True, "value-exact algebraic rewrites", plans=True),
    Setting("pooling", True, "keep freed memory for reuse"),
    Setting("pool_size", 0, "bound in MiB of freed memory kept for reuse; 0: half the limit"),
    Setting("small_bound", 1, "up to so many MiB each thread keeps freed memory for itself; "
            "read once, and when a MemoryManager is made"),
    Setting("medium_bound", 100, "up to so many MiB freed memory is kept for all threads, cut and "
            "joined; read when small_bound is"),
    Setting("keep_large", True, "what the library itself frees above medium_bound is kept too, "
            "like medium blocks; off: given back at once; read once"),
    Setting("memory_limit", 0, "bound in MiB of memory in use; 0: what the machine has"),
    Setting("threads", True, "run kernels on all worker threads; off: on the caller alone"),
    Setting("accumulate", "", "how sum, mean, var, std, norms, matmul add up: float32, float64 "
            "or compensated (pairs); empty: in the dtype itself, 16-bit floats in float32",
            ACCUMULATE, plans=True),
    Setting("bfloat16_dot", True, "products of bfloat16 by the processor's dot instruction, where "
            "that is faster: the same bits, but subnormal numbers count as zeros", plans=True),
    Setting("byte_dot", True, "products of int8 and uint8 by the processor's dot instruction, "
            "where it has one: the same integers", plans=True),
    Setting("tensor_cores", True, "products and attention of bfloat16 and float16 by tensor cores, "
            "on devices that have them; off: kernels with the bits of the CPU", plans=True),
    Setting("opencl_options", "", "further options of OpenCL's compiler: with -cl-opt-disable "
            "kernels are made four times as fast, and run slower"),
    Setting("print_precision", 4, "digits behind the point when a tensor is printed"),
    Setting("print_threshold", 1000, "of a tensor with more elements only the edges are printed"),
    Setting("print_edge", 3, "elements at each end of an axis that are printed then"),
    Setting("print_width", 100, "characters in a printed line"),
    Setting("jit", True, "bp.jit captures; off: the function runs as it stands"),
)  # fmt: skip
_BY_NAME = {s.name: s for s in SETTINGS}
PLAN_SETTINGS = tuple([s.name for s in SETTINGS if s.plans])
IMPORTED_NS = time.time_ns()  # sources that are younger are not those that run


class _Here(threading.local):
    def __init__(self) -> None:
        self.overrides: dict[str, Any] = {}


_here = _Here()
# one entry for each `with config(...)` block that is open in any thread: while there is none,
# a setting is read without asking for this thread's
_open: dict[object, None] = {}


class Config:
    """The settings as seen by this thread."""

    _process: dict[str, Any] = {}
    _groups: list[Callable[[], None]] = []  # what `settings_of` keeps is made anew after a change

    def __getattr__(self, name: str) -> Any:
        # a setting is found before, by its property
        raise AttributeError(f"no setting {name!r}; there are {', '.join(_BY_NAME)}")

    @contextmanager
    def __call__(self, **changes: Any) -> Iterator[None]:
        _check(changes)
        before, block = _here.overrides, object()
        try:
            _open[block] = None
            _here.overrides = {**before, **changes}
            yield
        finally:
            _here.overrides = before
            _open.pop(block, None)

    def set(self, **changes: Any) -> None:
        """Change settings for the whole process."""
        _check(changes)
        Config._process.update(changes)
        for renew in Config._groups:
            renew()


def _check(changes: dict[str, Any]) -> None:
    for name, value in changes.items():
        if name not in _BY_NAME:
            raise AttributeError(f"no setting {name!r}; there are {', '.join(_BY_NAME)}")
        _BY_NAME[name].check(value, f"config.{name}={value!r}")


def _from_environment() -> dict[str, Any]:
    values = {}
    for setting in SETTINGS:
        text = os.environ.get(setting.variable)
        values[setting.name] = setting.default if text is None else setting.parse(text)
    return values


def _reader(name: str) -> property:
    # kernels are launched and memory is allocated by what this returns: 0.07 us
    process = Config._process

    def read(self: Config) -> Any:
        if _open and name in _here.overrides:
            return _here.overrides[name]
        return process[name]

    return property(read)


def settings_of(*names: str) -> Callable[[], tuple[Any, ...]]:
    """A function that gives the values of some settings as seen by the calling thread.

    cost  0.05 us, however many there are, while no `with config(...)` block is open
    """
    kept: tuple[Any, ...] = ()

    def renew() -> None:
        nonlocal kept
        kept = tuple([Config._process[name] for name in names])

    def read() -> tuple[Any, ...]:
        if _open:
            return tuple([getattr(config, name) for name in names])
        return kept

    renew()
    Config._groups.append(renew)
    return read


Config._process.update(_from_environment())
for _name in _BY_NAME:
    setattr(Config, _name, _reader(_name))
config = Config()
