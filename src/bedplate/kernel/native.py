"""Native kernels: machine code in this process, from memory, the disk cache or the compiler."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from bedplate.kernel import checks, codegen
from bedplate.kernel.arguments import Convention
from bedplate.kernel.target import Target
from bedplate.later import Later
from bedplate.observer import hooks

cache: Any = Later("bedplate.kernel.cache")
together: Any = Later("bedplate.kernel.together")


class Compiled:
    """Machine code of a kernel in this process.

    address  of the native function, C calling convention; valid as long as this object lives
    """

    __slots__ = ("_keep", "_native", "address", "convention", "name")

    def __init__(self, name: str, address: int, keep: Any, convention: Convention) -> None:
        self.name = name
        self.address = address
        self.convention = convention
        self._keep = keep
        self._native = convention.native(address)

    def __call__(self, *args: Any) -> Any:
        convention = self.convention
        return convention.give_back(self._native(*convention.convert(args)))

    def __repr__(self) -> str:
        return f"<Compiled {self.name} at {self.address:#x}>"


class CheckedCompiled(Compiled):
    """Machine code in check mode: a call raises KernelBoundsError for an access out of range."""

    __slots__ = ("_checked",)

    def __init__(
        self, name: str, addresses: tuple[int, int], keep: Any, convention: Convention,
        hidden: list[Any],
    ) -> None:  # fmt: skip
        super().__init__(name, addresses[0], keep, convention)
        self._checked = convention.native(addresses[1], hidden)

    def __call__(self, *args: Any) -> Any:
        convention = self.convention
        words = convention.convert(args)
        record = checks.Record(len(args))
        flags = [type_.is_pointer for type_ in convention.types]
        hidden = checks.hidden_arguments(list(zip(flags, args, strict=True)), record)
        result = self._checked(*words, *hidden)
        record.raise_failure()
        return convention.give_back(result)


_loaded: dict[str, tuple[int, Any]] = {}
_origins: dict[int, tuple[str, str]] = {}  # of the code at an address: its key and symbol
_ahead: dict[str, Any] = {}  # objects that `make_ahead` made and nobody has asked for yet


def load_code(text: str, symbol: str, target: Target) -> tuple[int, Any]:
    """(address, what keeps it alive) of an LLVM text's machine code: from this process's table,
    from the disk cache, or compiled now."""
    key = cache.key_of(text)
    with codegen.lock:
        found = _loaded.get(key)
        if found is None:
            image = _ahead.pop(key, None) or cache.read(key)
            if image is None:
                begin = time.perf_counter_ns()
                image = codegen.make_object(text, target)
                _made(key, symbol, image, begin, time.perf_counter_ns())
            found = _link(key, image, symbol)
    return found


def _link(key: str, image: bytes, symbol: str) -> tuple[int, Any]:
    found = _loaded[key] = codegen.link(image, symbol)
    _origins[found[0]] = key, symbol
    return found


class Stored:
    """Machine code that was found by its key."""

    __slots__ = ("_keep", "address")

    def __init__(self, address: int, keep: Any) -> None:
        self.address = address
        self._keep = keep


def origin_of(address: int) -> tuple[str, str]:
    """(key, symbol) of loaded code.

    raises KeyError if it did not come by `load_code`
    """
    return _origins[address]


def stored_code(key: str, symbol: str) -> Stored:
    """Machine code by the key that `origin_of` gave, perhaps to another process.

    raises KeyError if it is no longer in the disk cache
    """
    with codegen.lock:
        found = _loaded.get(key)
        if found is None:
            image = cache.read(key)
            if image is None:
                raise KeyError(key)
            found = _link(key, image, symbol)
    return Stored(*found)


def make_ahead(texts: Iterable[tuple[str, str]], target: Target) -> None:
    """Make the objects of several LLVM texts side by side, for `load_code` to find.

    texts  (text, symbol); taken one by one while others are being made
    """
    with codegen.lock:
        work = together.SideBySide(target)
        symbols: dict[str, str] = {}
        try:
            for text, symbol in texts:
                key = cache.key_of(text)
                if key in _loaded or key in symbols:
                    continue
                symbols[key] = symbol
                image = cache.read(key)
                if image is None:
                    work.add(key, text)
                else:
                    _ahead[key] = image
        finally:
            made = work.close()
        for key, (image, begin, end) in made.items():
            _ahead[key] = image
            _made(key, symbols[key], image, begin, end)


def forget_ahead() -> None:
    """Drop the objects that nobody asked for: one that failed left those behind it unused."""
    with codegen.lock:
        _ahead.clear()


def _made(key: str, symbol: str, image: bytes, begin: int, end: int) -> None:
    """Keep a new object, and tell whoever listens when it was made."""
    if (generated := hooks.generated) is not None:
        generated(symbol, begin, end)
    cache.write(key, image)
