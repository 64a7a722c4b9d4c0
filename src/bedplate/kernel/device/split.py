"""Vectors wider than a device has, as several; vectors of one lane as scalars.

SPLITS says how for each instruction that does not do the same to every lane; all others are
done part by part. `make` gives one instruction of a legal width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bedplate.kernel.device.builder import Builder
from bedplate.kernel.ir import Instruction
from bedplate.kernel.types import Type, f32, vec, with_element

# OpenCL's and SPIR-V's (with Vector16) widest; devices with none split further themselves.
WIDEST = 16

Parts = tuple[Instruction, ...]
Make = Callable[..., Any]


def narrowed(type_: Type) -> Type:
    """A vector type of at most WIDEST lanes as it is, of one lane as its element."""
    return type_.scalar if type_.lanes == 1 else type_


def parts_of(type_: Type) -> tuple[Type, ...]:
    """The types that stand for a type.

    >>> parts_of(vec(f32, 32)), parts_of(vec(f32, 1)), parts_of(f32)
    ((vec(f32,16), vec(f32,16)), (f32,), (f32,))
    """
    if type_.lanes <= WIDEST:
        return (narrowed(type_),)
    return (vec(type_.scalar, WIDEST),) * (type_.lanes // WIDEST)


def split_literal(literal: Instruction) -> Parts:
    """A literal, once for each part."""
    types = parts_of(literal.type)
    if types[0] is literal.type:
        return (literal,)
    return tuple(Builder.literal(type_, literal.attributes["value"]) for type_ in types)


def _call(build: Builder, instruction: Instruction, operands: list[Parts], make: Make) -> Parts:
    flat = tuple(part for parts in operands for part in parts)
    type_ = narrowed(instruction.type) if instruction.type is not None else None
    return (make("call", type_, flat, instruction.attributes),)


# Memory: each part lies WIDEST elements behind the one before


def _in_memory(
    build: Builder, instruction: Instruction, operands: list[Parts], make: Make
) -> Parts:
    """Loads and stores: the first operand is the pointer, all others are split alike."""
    value = instruction.type if instruction.type is not None else instruction.operands[1].type
    (pointer,), *others = operands
    given = []
    for place, type_ in enumerate(parts_of(value)):
        at = build.offset(pointer, place * WIDEST)
        picked = tuple(parts[place] for parts in others)
        result = type_ if instruction.type is not None else None
        given.append(make(instruction.op, result, (at, *picked), instruction.attributes))
    return tuple(given)


# What depends on the lane


def _splat(build: Builder, instruction: Instruction, operands: list[Parts], make: Make) -> Parts:
    types = parts_of(instruction.type)
    if not types[0].lanes:
        return operands[0]
    return (build.emit("splat", types[0], operands[0]),) * len(types)


def _iota(build: Builder, instruction: Instruction, operands: list[Parts], make: Make) -> Parts:
    types = parts_of(instruction.type)
    if not types[0].lanes:
        return (build.literal(types[0], 0),)
    first = build.emit("iota", types[0], ())
    return (first, *(build("add", first, WIDEST * place) for place in range(1, len(types))))


def _tail_mask(
    build: Builder, instruction: Instruction, operands: list[Parts], make: Make
) -> Parts:
    types, (count,) = parts_of(instruction.type), operands[0]
    if not types[0].lanes:
        return (build.compare("greater", count, 0),)
    if len(types) > 1:  # so that what is subtracted cannot wrap
        count = build("maximum", count, 0)
    return tuple(
        build.emit("tail_mask", type_, (build("sub", count, WIDEST * place) if place else count,))
        for place, type_ in enumerate(types)
    )


def _part_number(build: Builder, lane: Instruction, n_parts: int) -> Instruction:
    inside = build("and", lane, n_parts * WIDEST - 1)
    return build("shift_right", inside, WIDEST.bit_length() - 1)


def _extract(build: Builder, instruction: Instruction, operands: list[Parts], make: Make) -> Parts:
    parts, (lane,) = operands
    if not parts[0].type.lanes:
        return parts
    if lane.op == "literal":
        place = lane.attributes["value"] % (len(parts) * WIDEST)
        if len(parts) == 1:
            return (build.extract(parts[0], lane),)
        return (build.extract(parts[place // WIDEST], place % WIDEST),)
    result = build.extract(parts[0], lane)
    for place in range(1, len(parts)):
        here = build.compare("equal", _part_number(build, lane, len(parts)), place)
        result = build.select(here, build.extract(parts[place], lane), result)
    return (result,)


def _insert(build: Builder, instruction: Instruction, operands: list[Parts], make: Make) -> Parts:
    parts, (lane,), (value,) = operands
    if not parts[0].type.lanes:
        return (value,)
    if len(parts) == 1:
        return (build.insert(parts[0], lane, value),)
    if lane.op == "literal":
        place = lane.attributes["value"] % (len(parts) * WIDEST)
        made = list(parts)
        made[place // WIDEST] = build.insert(parts[place // WIDEST], place % WIDEST, value)
        return tuple(made)
    number = _part_number(build, lane, len(parts))
    return tuple(
        build.select(build.compare("equal", number, place), build.insert(part, lane, value), part)
        for place, part in enumerate(parts)
    )


# Lanes moved about


def _shuffle(build: Builder, instruction: Instruction, operands: list[Parts], make: Make) -> Parts:
    sources = [*operands[0], *operands[1]]
    lanes = instruction.operands[0].type.lanes
    # of each lane of both operands: (part, lane in it)
    width = min(lanes, WIDEST)
    places = [(place // width, place % width) for place in range(2 * lanes)]
    picked = [places[index] for index in instruction.attributes["indices"]]
    return tuple(
        picked_lanes(build, sources, picked[first : first + WIDEST])
        for first in range(0, len(picked), WIDEST)
    )


def picked_lanes(
    build: Builder, sources: list[Instruction], picked: list[tuple[int, int]]
) -> Instruction:
    """A vector (or scalar) of lanes (source, lane in it)."""
    scalar = sources[0].type.scalar
    if len(picked) == 1:
        return _lane_of(build, sources, picked[0])
    type_ = vec(scalar, len(picked))
    used = sorted({source for source, _ in picked})
    if len(used) <= 2 and sources[0].type.lanes:
        first, second = sources[used[0]], sources[used[-1]]
        lanes = first.type.lanes
        indices = tuple(lane + lanes * (source != used[0]) for source, lane in picked)
        return build.emit("shuffle", type_, (first, second), {"indices": indices})
    result = build.literal(type_, 0)
    for lane, place in enumerate(picked):
        result = build.insert(result, lane, _lane_of(build, sources, place))
    return result


def _lane_of(build: Builder, sources: list[Instruction], place: tuple[int, int]) -> Instruction:
    source, lane = sources[place[0]], place[1]
    return build.extract(source, lane) if source.type.lanes else source


def _bitcast(build: Builder, instruction: Instruction, operands: list[Parts], make: Make) -> Parts:
    """Elements of another width: pieces of which both sides are legal vectors or scalars."""
    source, target = instruction.operands[0].type, instruction.type
    if source.lanes == target.lanes:
        return tuple(
            build.to("bitcast", type_, part)
            for type_, part in zip(parts_of(target), operands[0], strict=True)
        )
    most = max(source.lanes, target.lanes)
    piece = min(most, WIDEST)  # lanes of the narrower element in one piece
    n_pieces = most // piece
    cut = _regrouped(build, operands[0], source, source.lanes // n_pieces)
    lanes = target.lanes // n_pieces
    kind = vec(target.scalar, lanes) if lanes > 1 else target.scalar
    cast = tuple(build.to("bitcast", kind, each) for each in cut)
    return _regrouped(build, cast, target, min(target.lanes, WIDEST))


def _regrouped(build: Builder, parts: Parts, whole: Type, lanes: int) -> Parts:
    """The lanes of all parts, in order, in groups of `lanes`."""
    width = max(parts[0].type.lanes, 1)
    if width == lanes:
        return parts
    places = [(place // width, place % width) for place in range(whole.lanes)]
    return tuple(
        picked_lanes(build, list(parts), places[first : first + lanes])
        for first in range(0, whole.lanes, lanes)
    )


# Reductions: the first steps of the tree join parts, the rest is an instruction of one part

_STEPS = {
    "reduce_add": "add", "reduce_mul": "mul", "reduce_min": "minimum", "reduce_max": "maximum",
    "reduce_and": "and", "reduce_or": "or",
}  # fmt: skip


def _reduce(build: Builder, instruction: Instruction, operands: list[Parts], make: Make) -> Parts:
    parts = list(operands[0])
    if not parts[0].type.lanes:
        return (parts[0],)
    if len(parts) == 1:
        return (build.to(instruction.op, instruction.type, parts[0]),)
    if instruction.type.is_narrow_float:  # the tree is of float32, and rounded once
        parts = [build.to("cast", with_element(part.type, f32), part) for part in parts]
    while len(parts) > 1:
        half = len(parts) // 2
        pairs = zip(parts[:half], parts[half:], strict=True)
        parts = [build(_STEPS[instruction.op], low, high) for low, high in pairs]
    result = build.to(instruction.op, parts[0].type.scalar, parts[0])
    return (build.to("cast", instruction.type, result),)


SPLITS: dict[str, Callable[..., Parts]] = {
    "call": _call, "load": _in_memory, "load_masked": _in_memory, "store": _in_memory,
    "store_masked": _in_memory, "splat": _splat, "iota": _iota, "tail_mask": _tail_mask,
    "extract": _extract, "insert": _insert, "shuffle": _shuffle, "bitcast": _bitcast,
    **dict.fromkeys(_STEPS, _reduce),
}  # fmt: skip
