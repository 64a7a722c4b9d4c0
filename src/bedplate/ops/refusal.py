"""Error messages of ops: the rule that was broken, each input, and what to do."""

from __future__ import annotations

from typing import Any, NoReturn


def refuse(
    error: type[Exception], op: str, rule: str, inputs: dict[str, Any], *advice: str
) -> NoReturn:
    """Raise `error` with a message that names the op, the rule and every input.

    inputs  values by the name that the user knows; each is shown with shape, dtype and the
            line that made it
    advice  further lines: what was expected, what to try
    """
    lines = [f"{op}: {rule}", *_table(inputs), *(f"  {line}" for line in advice)]
    raise error("\n".join(lines))


def refuse_inputs(
    error: type[Exception], op: str, rule: str, inputs: tuple[Any, ...], *advice: str
) -> NoReturn:
    """`refuse` for inputs that go by the letters a, b, c."""
    refuse(error, op, rule, dict(zip("abcdefgh", inputs, strict=False)), *advice)


def _table(inputs: dict[str, Any]) -> list[str]:
    rows = [(name, *_describe(value)) for name, value in inputs.items()]
    widths = [max(len(row[column]) for row in rows) if rows else 0 for column in range(3)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        + f"   {row[3]}"
        for row in rows
    ]  # fmt: skip


def _describe(value: Any) -> tuple[str, str, str]:
    node = getattr(value, "_node", value)
    name = "" if getattr(node, "op", None) is None else node.op.name
    parts = getattr(node, "inputs", ())
    if name == "constant":
        origin = f"the number {node.attributes['value']}"
    elif name == "complex" and all(part.op.name == "constant" for part in parts):
        origin = f"the number {complex(*[part.attributes['value'] for part in parts])}"
    else:
        origin = f"made at {node.line() if hasattr(node, 'line') else 'unknown line'}"
    return str(tuple(node.shape)), str(node.dtype), origin
