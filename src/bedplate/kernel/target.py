"""Targets: which processor machine code is made for, and how wide its vectors are."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import llvmlite.binding as llvm

from bedplate.errors import KernelError
from bedplate.kernel.types import Type


@dataclass(frozen=True, slots=True)
class Target:
    """A processor: LLVM's triple, CPU name and feature list, and the width of a vector.

    >>> Target("avx2", "x86_64-unknown-linux-gnu", "haswell", "", 256).lanes(f32)
    8
    """

    name: str
    triple: str
    cpu: str
    features: str
    vector_bits: int

    def lanes(self, type_: Type) -> int:
        """How many elements of a type fill one vector register (at least 1)."""
        return max(self.vector_bits // max(type_.bits, 8), 1)

    @property
    def is_host(self) -> bool:
        return self.name == "host"


@functools.cache
def host() -> Target:
    """The machine that this runs on."""
    features = llvm.get_host_cpu_features()
    triple = llvm.get_process_triple()
    text = ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))
    bits = 128
    if triple.startswith("x86_64"):
        bits = 512 if features.get("avx512f") else 256 if features.get("avx2") else 128
    return Target("host", triple, llvm.get_host_cpu_name(), text, bits)


_X86 = "x86_64-unknown-linux-gnu"
_NAMED = {
    "avx2": Target("avx2", _X86, "haswell", "", 256),
    "avx512": Target("avx512", _X86, "skylake-avx512", "", 512),
    "aarch64": Target("aarch64", "aarch64-unknown-linux-gnu", "neoverse-n1", "", 128),
}


def find_target(target: Target | str | None) -> Target:
    """The target for None (the host), a name or a Target.

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
