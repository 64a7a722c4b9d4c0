"""Repairs of optimised LLVM text, for faults of LLVM's code generator.

A store of truncated integers under a constant mask with one lane becomes, on AVX-512, a scalar
store of the wide integer (LLVM 20 to 22: reduceMaskedStoreToScalarStore ignores the truncation),
which writes beyond the lane. Such a store is written as the scalar store that it is.
"""

from __future__ import annotations

import re

_NARROW_STORE = re.compile(r"@llvm\.masked\.store\.v\d+i(?:8|16|32)\.")
_CONSTANT_MASK = re.compile(
    r"^  (?:tail )?call void @llvm\.masked\.store\.v\d+i(?P<bits>8|16|32)\.p0\("
    r"(?P<vector><\d+ x i\d+> .+?), ptr (?:align \d+ )?(?P<pointer>.+?), (?:i32 \d+, )?"
    r"<\d+ x i1> <(?P<mask>i1 [^>]*)>\).*$",
    re.MULTILINE,
)


def may_need_repair(text: str) -> bool:
    """Whether a module has the kind of store that is looked for at all."""
    return _NARROW_STORE.search(text) is not None


def repair(text: str) -> str:
    """The optimised text of a module with one-lane stores as scalar stores."""
    count = 0

    def scalar_store(found: re.Match[str]) -> str:
        nonlocal count
        lanes = [word.strip() for word in found["mask"].split(",")]
        if lanes.count("i1 true") != 1:
            return found[0]
        count += 1
        lane, bits = lanes.index("i1 true"), found["bits"]
        return "\n".join(
            (
                f"  %lane{count} = extractelement {found['vector']}, i64 {lane}",
                f"  %place{count} = getelementptr i{bits}, ptr {found['pointer']}, i64 {lane}",
                f"  store i{bits} %lane{count}, ptr %place{count}, align {int(bits) // 8}",
            )
        )

    return _CONSTANT_MASK.sub(scalar_store, text)
