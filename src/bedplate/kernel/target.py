"""Targets: which processor machine code is made for, and how wide its vectors are."""

from __future__ import annotations

import functools
import platform
from dataclasses import dataclass

from bedplate.config import config
from bedplate.errors import KernelError
from bedplate.kernel.llvm import binding
from bedplate.kernel.types import Type


@dataclass(frozen=True, slots=True)
class Processor:
    """What LLVM calls a processor: triple, CPU name and feature list."""

    triple: str
    cpu: str
    features: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """A processor and the width of its vectors; `processor` is None for this machine's own.

    >>> from bedplate.kernel.types import f32
    >>> Target("avx2", 256, Processor("x86_64-unknown-linux-gnu", "haswell")).lanes(f32)
    8
    """

    name: str
    vector_bits: int
    processor: Processor | None = None

    def lanes(self, type_: Type) -> int:
        """How many elements of a type fill one vector register (at least 1)."""
        return max(self.vector_bits // max(type_.bits, 8), 1)

    def has_masks(self, bits: int) -> bool:
        """Whether one instruction loads or stores the elements that a mask names."""
        if not self.triple.startswith("x86_64"):
            return False
        return bits >= 32 if self.vector_bits == 256 else self.vector_bits == 512

    @property
    def has_bfloat16_dot(self) -> bool:
        """Whether one instruction adds the products of two pairs of bfloat16 to each float32."""
        return "+avx512bf16" in self.features.split(",")

    def has_byte_dot(self, lanes: int) -> bool:
        """Whether one instruction adds four products of bytes to each of `lanes` int32."""
        features = self.features.split(",")
        if "+avx512vnni" in features and (lanes == 16 or "+avx512vl" in features):
            return lanes in (4, 8, 16)
        return "+avxvnni" in features and lanes in (4, 8)

    @property
    def has_fast_bfloat16_dot(self) -> bool:
        """Whether that instruction does more than multiply-adds of float32 would in its time.

        Measured: Zen 4 does as many a cycle as multiply-adds, so twice the work; on Intel's
        Sapphire Rapids they take twice as long and more (77 against 149 GFLOP/s a core).
        """
        return self.has_bfloat16_dot and self.cpu in _FAST_BFLOAT16_DOT

    @property
    def has_tensor_cores(self) -> bool:
        """Whether a warp multiplies matrices of bfloat16 and float16: `mma` of the language."""
        return self.triple.startswith("nvptx")  # those that PTX is made for all do: sm_80 and newer

    @property
    def runs_here(self) -> bool:
        """Whether this machine runs code for the target: of its own kind, not wider."""
        same = self.triple.split("-")[0] == _this_processor().triple.split("-")[0]
        return same and self.vector_bits <= _vector_bits()

    @property
    def triple(self) -> str:
        return (self.processor or _this_processor()).triple

    @property
    def cpu(self) -> str:
        return (self.processor or _this_processor()).cpu

    @property
    def features(self) -> str:
        return (self.processor or _this_processor()).features


@functools.cache
def _this_processor() -> Processor:
    llvm = binding()
    features = sorted(llvm.get_host_cpu_features().items())
    text = ",".join(("+" if on else "-") + name for name, on in features)
    return Processor(llvm.get_process_triple(), llvm.get_host_cpu_name(), text)


@functools.cache
def _vector_bits() -> int:
    """The width of this machine's vectors; asks the kernel where it can, LLVM where it must."""
    machine = platform.machine().lower()
    if machine in ("aarch64", "arm64"):
        return 128
    try:
        with open("/proc/cpuinfo") as file:
            text = file.read()
        flags = set(text[text.index("\nflags") :].split("\n", 2)[1].split())
    except (OSError, ValueError):
        features = binding().get_host_cpu_features()
        flags = {name for name, on in features.items() if on}
    if "avx512f" in flags:
        return 512
    return 256 if "avx2" in flags else 128


# As LLVM calls them; only processors whose instruction rounds as instructions/dots.py says.
# Zen 4 was measured; Zen 5 is taken to do as much: tests/unit/kernel/test_dots.py would deny it.
_FAST_BFLOAT16_DOT = ("znver4", "znver5")

_X86 = "x86_64-unknown-linux-gnu"
_NAMED = {
    "avx2": Target("avx2", 256, Processor(_X86, "haswell")),
    "avx512": Target("avx512", 512, Processor(_X86, "skylake-avx512")),
    "aarch64": Target("aarch64", 128, Processor("aarch64-unknown-linux-gnu", "neoverse-n1")),
}


@functools.cache
def host() -> Target:
    """The machine that this runs on, or the lesser one that `config.target` names at first use.

    raises KernelError if this machine cannot run code for that
    """
    if not config.target:
        return Target("host", _vector_bits())
    chosen = find_target(config.target)
    if not chosen.runs_here:
        raise KernelError(f"config.target={config.target!r}: this machine cannot run its code")
    return chosen


def find_target(target: Target | str | None) -> Target:
    """The target for None (this machine), a name or a Target.

    raises KernelError for an unknown name
    """
    if target is None or target == "host":
        return host()
    if isinstance(target, Target):
        return target
    try:
        return _NAMED[target]
    except KeyError:
        raise KernelError(f"no target {target!r}\n  legal: host, {', '.join(_NAMED)}") from None
