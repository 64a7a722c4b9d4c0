"""What the kernels of convolution share: register tiles, and the words of a task by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bedplate.errors import InternalError
from bedplate.kernel import Type, Value, host, word_int, word_pointer


@dataclass(frozen=True, slots=True)
class Tile:
    """Sums that a kernel keeps in registers; it specialises the kernel.

    accumulate, element   types of the sums, and of the tensors
    rows, vectors         how many there are: what runs along them, the kernel's head says
    form                  what else the kernel depends on, likewise
    """

    accumulate: Type
    element: Type
    rows: int
    vectors: int
    form: Any = None

    @property
    def lanes(self) -> int:
        return host().lanes(self.accumulate)

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self.lanes * self.vectors


class Words:
    """The argument words of a task by name.

    A name with a `*` is three words, of which `_z`, `_y` and `_x` are the ends: `size*`.
    """

    def __init__(self, names: str) -> None:
        self.places: dict[str, int] = {}
        self.triples: set[str] = set()
        for name in names.split():
            if name.endswith("*"):
                self.triples.add(name[:-1])
            for each in _spread(name):
                self.places[each] = len(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def values(self, **given: Any) -> list[Any]:
        """The words in their order; each has to be given, a triple under its one name."""
        found: dict[str, Any] = {}
        for name, value in given.items():
            if name in self.triples:
                found.update(zip(_spread(f"{name}*"), value, strict=True))
            else:
                found[name] = value
        if found.keys() != self.places.keys():
            wrong = sorted(found.keys() ^ self.places.keys())
            raise InternalError(f"the words of a task do not fit its kernel: {wrong}")
        return [found[name] for name in self.places]

    def of(self, args: Value) -> Reader:
        """The words of a running task."""
        return Reader(self, args)


def _spread(name: str) -> list[str]:
    return [name[:-1] + end for end in ("_z", "_y", "_x")] if name.endswith("*") else [name]


class Reader:
    """Reads words where a kernel asks for them: `word.channels`, `word.pointer("grid", f32)`."""

    __slots__ = ("_words", "args")

    def __init__(self, words: Words, args: Value) -> None:
        self._words, self.args = words, args

    def __getattr__(self, name: str) -> Value:
        try:
            return word_int(self.args, self._words.places[name])
        except KeyError:
            raise AttributeError(f"the task has no word {name!r}") from None

    def pointer(self, name: str, element: Type) -> Value:
        """A word as a pointer to elements."""
        return word_pointer(self.args, self._words.places[name], element)

    def triple(self, name: str) -> list[Value]:
        """Three words along z, y, x."""
        return [getattr(self, each) for each in _spread(f"{name}*")]

    def more(self, index: Any) -> Value:
        """The words behind those that have names."""
        return word_int(self.args, index + len(self._words))
