"""Bytes and source lines as people write them."""

from __future__ import annotations

import re
from typing import Any

from bedplate.errors import SettingError

UNITS = {"": 0, "B": 0, "BYTES": 0}
for _power, _letter in enumerate("KMGT", 1):
    UNITS |= dict.fromkeys((_letter, f"{_letter}B", f"{_letter}IB"), 10 * _power)
LARGEST = 1 << 60  # an exbibyte: more than any machine addresses
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)")


def readable(nbytes: int) -> str:
    """A number of bytes for people, as in `1.5 GiB`."""
    size = float(nbytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def parse_bytes(size: str | int) -> int:
    """The number of bytes that a text such as "4GiB", "1.5 GB" or "300M" means.

    All units are powers of 1024, as the memory that they measure is made; a number is bytes.

    raises  SettingError for anything else, for what is negative, and for more than an exbibyte
    >>> parse_bytes("1.5 KiB"), parse_bytes(7)
    (1536, 7)
    """
    if isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= LARGEST:
        return size
    nbytes = _meant(size) if isinstance(size, str) else -1.0
    if not 0 <= nbytes <= LARGEST:
        raise SettingError(
            f"memory: {size!r} is no size\n"
            "  give a number of bytes, or a text such as '4GiB', '512 MiB' or '1.5G'"
        )
    return int(nbytes)


def _meant(text: str) -> float:
    """The bytes that a text means, or -1."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or found[2].upper() not in UNITS:
        return -1.0
    return float(found[1]) * (1 << UNITS[found[2].upper()])


def line_of(site: Any) -> str:
    """`file:line` of a site: (code, instruction), or text as it is."""
    if not isinstance(site, tuple):
        return "unknown line" if site is None else str(site)
    code, instruction = site
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return f"{code.co_filename}:{line}"
    return f"{code.co_filename}:{code.co_firstlineno}"
