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
from bedplate.inspect.places import shown_line
from bedplate.memory import Block
from bedplate.tensor import Tensor
from bedplate.tensor.jit import Captured
from bedplate.tensor.replay import Replay

HISTORY = re.compile(r"_(\d+)|_{1,3}")  # the names that IPython gives to what cells have shown
MAX_TEXT = 40


def way_text(way: Way) -> str:
    """A way in words, the root first."""
    objects = way.objects
    jit = next((i for i, x in enumerate(objects) if isinstance(x, Captured)), None)
    if jit is not None:
        return _of_jit(objects[jit], objects[jit:])
    if isinstance(way.root, str) and (shown := _of_notebook(objects)):
        return shown
    if isinstance(way.root, str) and len(objects) > 1:
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
        kind = type(way.objects[0]).__name__
        return f"nobody that could be found; the outermost is a {kind}"
    if isinstance(root, type):
        return f"class {root.__module__}.{root.__qualname__}"
    return str(root)


# ---- one link


def _link(objects: list[Any], number: int) -> tuple[str, int]:
    """How an object holds the next, or a later one, in words; how many links that are."""
    holder, held = objects[number], objects[number + 1]
    if isinstance(holder, Node | Entry | Leaf):
        return _graph(objects, number)
    if isinstance(holder, Tensor):
        return _of_tensor(objects, number)
    if isinstance(holder, FunctionType) and isinstance(held, tuple | CellType):
        return _of_closure(objects, number)
    if isinstance(holder, Gradients):
        return " -> a gradient of the table", len(objects) - 1 - number
    after = objects[number + 2] if number + 2 < len(objects) else None
    if type(held) is dict and isinstance(holder, type) and after is not None:
        return f".{_key_of(held, after)}", 2
    if type(held) is dict and getattr(holder, "__dict__", None) is held and after is not None:
        return f".{_key_of(held, after)}", 2
    return _plain(holder, held), 1


def _plain(holder: Any, held: Any) -> str:
    if isinstance(holder, dict):
        return f"[{_key_of(holder, held, True)}]"
    if isinstance(holder, list | tuple | deque):
        index = next((i for i, x in enumerate(holder) if x is held), "?")
        return f"[{index}]"
    if isinstance(holder, set | frozenset):
        return " -> an element"
    if isinstance(holder, FrameType):
        name = _key_of(variables_of(holder), held)
        return f" -> variable {name} of frame {of_code(holder.f_code, holder.f_lineno)}"
    if isinstance(holder, GeneratorType):
        return _of_generator(holder, held)
    if isinstance(holder, BaseException) and held is holder.__traceback__:
        return f" -> {type(holder).__name__}, its traceback"
    if isinstance(holder, TracebackType):
        return ""
    if isinstance(holder, CellType):
        return ""
    if isinstance(holder, MethodType | BuiltinMethodType):
        return " -> its object"
    if isinstance(holder, partial):
        return " -> an argument of a partial"
    name = _attribute(holder, held)
    return f".{name}" if name else f" -> in a {type(holder).__name__}"


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
    if isinstance(inner, tuple):  # the tuple of cells
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
    while number < len(objects) and isinstance(
        objects[number], Node | Entry | Leaf | tuple | list | Block
    ):
        if isinstance(objects[number], Entry):
            entries.append(objects[number])
        number += 1
    number = min(max(number, start + 1), len(objects) - 1)
    text = ""
    last, after = objects[number - 1], objects[number]
    if entries:
        line = next((shown_line(e.site) for e in entries if e.site is not None), "unknown line")
        names = dict.fromkeys(e.op.name for e in entries)
        text = f" -> its graph ({len(entries)} of it: {', '.join(list(names)[:3])}; {line})"
    if isinstance(last, list) and isinstance(after, FunctionType | MethodType | partial):
        text += " -> a gradient hook"
    elif entries and after is getattr(last, "op", None):
        text += f" -> operation {entries[-1].op.name}"
    return text, number - start + before


def _of_jit(captured: Any, objects: list[Any]) -> str:
    name = getattr(captured.function, "__qualname__", "step")
    code = getattr(captured.function, "__code__", None)
    where = f" at {shown_line(f'{code.co_filename}:{code.co_firstlineno}')}" if code else ""
    constants = [x.constants for x in objects if isinstance(x, Replay)]
    constant = any(x is found for x in objects for found in constants)
    what = "a constant" if constant else "memory"
    return f"{what} of the jit function {name}(){where}"


def _of_notebook(objects: list[Any]) -> str:
    """What a notebook's output history holds; empty if the way is another."""
    space = objects[0]
    history = space.get("_oh", space.get("Out"))
    if not isinstance(history, dict) or len(objects) < 2:
        return ""
    name = _key_of(space, objects[1])
    if name in ("_oh", "Out") and len(objects) > 2:
        return f"Out[{_key_of(history, objects[2], True)}], the notebook's output history"
    if (match := HISTORY.fullmatch(name)) is None:
        return ""
    number = match[1] or next((key for key, x in history.items() if x is objects[1]), "?")
    return f"Out[{number}], the notebook's output history"


# ---- names


def _key_of(mapping: Any, value: Any, quoted: bool = False) -> str:
    for key, found in list(mapping.items()):
        if found is value:
            if not quoted:
                return str(key)
            text = repr(key) if isinstance(key, str | int | float | tuple) else type(key).__name__
            return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "..."
    for found, cell in list(mapping.items()):
        if isinstance(cell, CellType) and cell is value:
            return str(found)
    return next((f"key {type(key).__name__}" for key in list(mapping) if key is value), "?")


def _attribute(holder: Any, held: Any) -> str:
    """The attribute of an object, or of a class, that another is."""
    space = getattr(holder, "__dict__", None)
    if space is not None:
        for name, value in list(space.items()):
            if value is held:
                return name
    for kind in type(holder).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__weakref__", "__dict__") and getattr(holder, name, None) is held:
                return name
    return ""
