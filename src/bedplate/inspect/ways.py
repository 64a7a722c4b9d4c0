"""Ways in words: `trainer.history[3]`, `variable x of frame f() at train.py:7`.

Each link of a way is a small text that says how the one object holds the next. Objects that only
connect others (the dictionary behind an object, the node behind a tensor) have none.
"""

from __future__ import annotations

import re
from collections import deque
from functools import partial
from types import (
    BuiltinMethodType,
    CellType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    TracebackType,
)
from typing import Any

from bedplate.autograd.autograd import Gradients
from bedplate.autograd.tape import Entry, Leaf
from bedplate.graph.node import Node
from bedplate.inspect.frames import of_code, variables_of
from bedplate.inspect.holders import Way
from bedplate.inspect.objects import (
    attribute_of,
    elements_of,
    is_a,
    items_of,
    type_name,
)
from bedplate.inspect.places import shown_line
from bedplate.memory import Block
from bedplate.tensor import Tensor
from bedplate.tensor.jit import Captured
from bedplate.tensor.replay import Replay

HISTORY = re.compile(r"_(\d+)|_{1,3}")  # the names that IPython gives to what cells have shown
MAX_TEXT = 40
SHOWN_KEYS = (str, int, float, bool)


def way_text(way: Way) -> str:
    """A way in words, the root first."""
    objects = way.objects
    jit = next((i for i, x in enumerate(objects) if is_a(x, Captured)), None)
    if jit is not None:
        return _of_jit(objects[jit], objects[jit:])
    if is_a(way.root, str) and (shown := _of_notebook(objects)):
        return shown
    if is_a(way.root, str) and len(objects) > 1:
        return f"{way.root}.{_key_of(objects[0], objects[1])}{links_text(objects[1:])}"
    return _root_text(way) + links_text(objects)


def links_text(objects: list[Any]) -> str:
    """How each object holds the next, in words."""
    parts: list[str] = []
    number = 0
    while number < len(objects) - 1:
        text, used = _link(objects, number)
        parts.append(text)
        number += used
    return "".join(parts)


def _root_text(way: Way) -> str:
    root = way.root
    if root is None:
        kind = type_name(way.objects[0])
        return f"nobody that could be found; the outermost is a {kind}"
    if is_a(root, type):
        names = attribute_of(root, "__module__"), attribute_of(root, "__qualname__")
        return "class {}.{}".format(*names)
    return str(root)


# ---- one link


def _link(objects: list[Any], number: int) -> tuple[str, int]:
    """How an object holds the next, or a later one, in words; how many links that are."""
    holder, held = objects[number], objects[number + 1]
    if is_a(holder, Node | Entry | Leaf):
        return _graph(objects, number)
    if is_a(holder, Tensor):
        return _of_tensor(objects, number)
    if is_a(holder, FunctionType) and is_a(held, tuple | CellType):
        return _of_closure(objects, number)
    if is_a(holder, Gradients):
        return " -> a gradient of the table", len(objects) - 1 - number
    after = objects[number + 2] if number + 2 < len(objects) else None
    if type(held) is dict and is_a(holder, type) and after is not None:
        return f".{_key_of(held, after)}", 2
    if type(held) is dict and attribute_of(holder, "__dict__") is held and after is not None:
        return f".{_key_of(held, after)}", 2
    return _plain(holder, held), 1


def _plain(holder: Any, held: Any) -> str:
    if is_a(holder, dict):
        return f"[{_key_of(holder, held, True)}]"
    if is_a(holder, list | tuple | deque):
        index = next((i for i, x in enumerate(elements_of(holder)) if x is held), "?")
        return f"[{index}]"
    if is_a(holder, set | frozenset):
        return " -> an element"
    if is_a(holder, FrameType):
        name = _key_of(variables_of(holder), held)
        return f" -> variable {name} of frame {of_code(holder.f_code, holder.f_lineno)}"
    if is_a(holder, GeneratorType):
        return _of_generator(holder, held)
    if is_a(holder, BaseException) and held is holder.__traceback__:
        return f" -> {type_name(holder)}, its traceback"
    if is_a(holder, TracebackType):
        return ""
    if is_a(holder, CellType):
        return ""
    if is_a(holder, MethodType | BuiltinMethodType):
        return " -> its object"
    if is_a(holder, partial):
        return " -> an argument of a partial"
    name = _attribute(holder, held)
    return f".{name}" if name else f" -> in a {type_name(holder)}"


def _of_generator(holder: GeneratorType[Any, Any, Any], held: Any) -> str:
    frame = holder.gi_frame
    if frame is None:
        return " -> a generator that has ended"
    name = _key_of(variables_of(frame), held)
    return f" -> variable {name} of the open generator {of_code(holder.gi_code, frame.f_lineno)}"


def _of_closure(objects: list[Any], number: int) -> tuple[str, int]:
    """Variables of a closure, and default values."""
    function = objects[number]
    inner = objects[number + 1]
    used = 1
    where = of_code(function.__code__)
    if inner is function.__defaults__:
        return f" -> a default value of {where}", 2
    if is_a(inner, tuple):  # the tuple of cells
        inner, used = objects[number + 2], 2
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    name = next((name for name, cell in cells.items() if cell is inner), "?")
    return f" -> closure variable {name} of {where}", used + 1


def _of_tensor(objects: list[Any], number: int) -> tuple[str, int]:
    tensor, held = objects[number], objects[number + 1]
    if held is tensor._grad:
        return ".grad", 1
    if held is tensor._node:
        return _graph(objects, number + 1, 1)
    if held is tensor._entry:
        return _graph(objects, number + 1, 1)
    return _plain(tensor, held), 1


def _graph(objects: list[Any], number: int, before: int = 0) -> tuple[str, int]:
    """Links inside a graph, as one; at its end may be an operation or a hook of the user's."""
    start, entries = number, []
    while number < len(objects) and is_a(
        objects[number], Node | Entry | Leaf | tuple | list | Block
    ):
        if is_a(objects[number], Entry):
            entries.append(objects[number])
        number += 1
    number = min(max(number, start + 1), len(objects) - 1)
    text = ""
    last, after = objects[number - 1], objects[number]
    if entries:
        line = next((shown_line(e.site) for e in entries if e.site is not None), "unknown line")
        names = dict.fromkeys(e.op.name for e in entries)
        text = f" -> its graph ({len(entries)} of it: {', '.join(list(names)[:3])}; {line})"
    if is_a(last, list) and is_a(after, FunctionType | MethodType | partial):
        text += " -> a gradient hook"
    elif entries and after is getattr(last, "op", None):
        text += f" -> operation {entries[-1].op.name}"
    return text, number - start + before


def _of_jit(captured: Any, objects: list[Any]) -> str:
    name = getattr(captured.function, "__qualname__", "step")
    code = getattr(captured.function, "__code__", None)
    where = f" at {shown_line(f'{code.co_filename}:{code.co_firstlineno}')}" if code else ""
    constants = [x.constants for x in objects if is_a(x, Replay)]
    constant = any(x is found for x in objects for found in constants)
    what = "a constant" if constant else "memory"
    return f"{what} of the jit function {name}(){where}"


def _of_notebook(objects: list[Any]) -> str:
    """What a notebook's output history holds; empty if the way is another."""
    space = objects[0]
    history = space.get("_oh", space.get("Out"))
    if not is_a(history, dict) or len(objects) < 2:
        return ""
    name = _key_of(space, objects[1])
    if name in ("_oh", "Out") and len(objects) > 2:
        return f"Out[{_key_of(history, objects[2], True)}], the notebook's output history"
    if (match := HISTORY.fullmatch(name)) is None:
        return ""
    number = match[1] or next((key for key, x in items_of(history) if x is objects[1]), "?")
    return f"Out[{number}], the notebook's output history"


# ---- names


def _key_of(mapping: Any, value: Any, quoted: bool = False) -> str:
    for key, found in items_of(mapping):
        if found is value:
            if not quoted:
                return str(key) if type(key) is str else type_name(key)
            text = _shown_key(key)
            return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "..."
    for found, cell in items_of(mapping):
        if is_a(cell, CellType) and cell is value:
            return str(found)
    return next((f"key {type_name(key)}" for key, _ in items_of(mapping) if key is value), "?")


def _shown_key(key: Any) -> str:
    if type(key) is tuple:
        return f"({', '.join(map(_shown_key, key))})"
    return repr(key) if type(key) in SHOWN_KEYS else type_name(key)


def _attribute(holder: Any, held: Any) -> str:
    """The attribute of an object, or of a class, that another is."""
    space = attribute_of(holder, "__dict__")
    if space is not None:
        for name, value in items_of(space):
            if value is held:
                return name
    for kind in attribute_of(type(holder), "__mro__"):
        slots = attribute_of(kind, "__dict__").get("__slots__", ())
        for name in (slots,) if is_a(slots, str) else slots:
            if name not in ("__weakref__", "__dict__") and attribute_of(holder, name) is held:
                return name
    return ""
