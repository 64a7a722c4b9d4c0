"""emit_columns: the loops over the columns of one row, and what happens at each vector."""

from __future__ import annotations

from typing import Any

from bedplate.compiler.cost import register_type
from bedplate.compiler.emit_base import EmitterBase
from bedplate.compiler.emit_words import (
    AccessWords,
    apply_op,
    least,
    moved,
)
from bedplate.compiler.program import (
    BROADCAST,
    FULL,
    PAIRED,
    UNIT,
    Apply,
    CheckedIndex,
    Load,
    Pattern,
    Position,
    StagePlan,
    Store,
)
from bedplate.compiler.reductions import (
    BLOCK,
    Accumulator,
    accumulated,
    combine,
    finished,
    is_arg,
    join,
)
from bedplate.dtypes import int64
from bedplate.errors import InternalError
from bedplate.kernel import (
    cast,
    constant,
    gather,
    i1,
    i32,
    i64,
    iota,
    load,
    loop,
    prefetch,
    scatter,
    select,
    shuffle,
    splat,
    store,
    tail_mask,
)

# vectors in flight: enough to hide the latency of short chains, few enough for the registers
UNROLL_BY_OPS = ((10, 4), (40, 2))
REDUCE_UNROLL = 2  # one for all, so that a sum does not depend on what it was fused with


class ColumnEmitter(EmitterBase):
    """Emits the columns of one row and stage."""

    def _stage(self, plan: StagePlan, pointers: dict[int, Any], env: dict[int, Any]) -> None:
        values = self.program.values
        reduces = [i for i in plan.reduces if values[i].kind != "column"]  # type: ignore[union-attr]
        totals = {i: Accumulator(values[i], None) for i in reduces}  # type: ignore[arg-type]
        shared = self._splats(plan, env)
        self._outer_columns(plan, 0, pointers, constant(i64, 0), totals, shared)
        for i, total in totals.items():
            value = values[i]
            parts = total.parts()
            env[i] = parts[0] if value.kind == "split" else finished(value, parts)  # type: ignore[union-attr, arg-type]

    def _splats(self, plan: StagePlan, env: dict[int, Any]) -> dict[int, Any]:
        """What is one for the row, in all lanes."""
        wanted: set[int] = set()
        values = self.program.values
        for i in plan.compute:
            value = values[i]
            if isinstance(value, Apply):
                wanted.update(value.inputs)
            elif isinstance(value, CheckedIndex):
                wanted.add(value.source)
        wanted.update(s.value for s in plan.stores)
        wanted.update(values[i].source for i in plan.reduces)  # type: ignore[union-attr]
        shared = dict(env)
        for i in wanted:
            if self.program.levels[i] != FULL:
                shared[i] = splat(env[i], self.lanes)
        self.scalars = env
        return shared

    def _outer_columns(
        self, plan: StagePlan, axis: int, pointers: dict[int, Any], position: Any,
        totals: dict[int, Accumulator], shared: dict[int, Any],
    ) -> None:  # fmt: skip
        """The loops over all column axes but the innermost; position counts columns."""
        if axis == self.program.n_col_dims - 1:
            self._run(plan, pointers, position * self.col_sizes[-1], totals, shared)
            return
        for index in loop(self.col_sizes[axis]):
            inside = {
                i: moved(pointer, self.access[i].col_strides[axis : axis + 1], [index])
                for i, pointer in pointers.items()
            }
            below = position * self.col_sizes[axis] + index
            self._outer_columns(plan, axis + 1, inside, below, totals, shared)

    def _run(
        self, plan: StagePlan, pointers: dict[int, Any], position: Any,
        totals: dict[int, Accumulator], shared: dict[int, Any],
    ) -> None:  # fmt: skip
        """The innermost columns, in blocks if something is reduced."""
        first, last = self.columns
        self.position = position
        if not totals:
            self._vectors(plan, first, last, pointers, {}, shared)
            return
        for start in loop(first, last, BLOCK):
            stop = least(start + BLOCK, last)
            unroll = self._unroll(plan)
            running = {
                i: [Accumulator(t.reduce, self.lanes) for _ in range(unroll)]
                for i, t in totals.items()
            }
            self._vectors(plan, start, stop, pointers, running, shared)
            for i, total in totals.items():
                total.take(join(total.reduce, [a.parts() for a in running[i]], self.lanes))

    def _unroll(self, plan: StagePlan) -> int:
        if plan.reduces:
            return REDUCE_UNROLL
        weight = self._weight(plan)
        for bound, unroll in UNROLL_BY_OPS:
            if weight <= bound:
                return unroll
        return 1

    def _vectors(
        self, plan: StagePlan, first: Any, last: Any, pointers: dict[int, Any],
        running: dict[int, list[Accumulator]], shared: dict[int, Any],
    ) -> None:  # fmt: skip
        if self.program.width:
            for column in range(0, self.program.width, self.lanes):
                u = column // self.lanes % REDUCE_UNROLL  # as the loops below have it
                self._body(plan, constant(i64, column), None, u, pointers, running, shared)
            return
        unroll = self._unroll(plan)
        step = unroll * self.lanes
        middle = last - ((last - first) & (step - 1))
        for column in loop(first, middle, step):
            for u in range(unroll):
                self._body(plan, column + u * self.lanes, None, u, pointers, running, shared)
        for column in loop(middle, last, self.lanes):
            mask = tail_mask(last - column, self.lanes)
            self._body(plan, column, mask, 0, pointers, running, shared)

    def _body(
        self, plan: StagePlan, column: Any, mask: Any, u: int, pointers: dict[int, Any],
        running: dict[int, list[Accumulator]], shared: dict[int, Any],
    ) -> None:  # fmt: skip
        """One vector of columns: compute, keep, reduce, store."""
        values = self.program.values
        env = dict(shared)
        for i in plan.reload:
            env[i] = load(self._kept(i, column), self.lanes, mask)
        for i in plan.compute:
            env[i] = self._full(i, env, column, mask, pointers)
        if mask is None and plan is self.plans[self.busiest]:
            for access, step in self.ahead.items():
                prefetch(pointers[access] + (step + column), locality=2)
        for i in plan.keep:
            store(self._kept(i, column), env[i], mask)
        for i in plan.reduces:
            self._reduce(i, values[i], env, column, mask, u, pointers, running)
        for entry in plan.stores:
            self._store(entry, env[entry.value], column, mask, pointers[entry.access])

    def _kept(self, i: int, column: Any) -> Any:
        return self.scratch[i] + column

    def _full(
        self, i: int, env: dict[int, Any], column: Any, mask: Any, pointers: dict[int, Any]
    ) -> Any:
        value = self.program.values[i]
        if isinstance(value, Load):
            return self._load(value, env, column, mask, pointers)
        if isinstance(value, Position):
            here = self._offsets(self.access[value.access], column)
            return cast(
                splat(pointers[value.access], self.lanes) + here, register_type(value.dtype)
            )
        if isinstance(value, Apply):
            here = self._at_index(value, column, pointers)
            return apply_op(value, [env[j] for j in value.inputs]) if here is None else here
        if isinstance(value, CheckedIndex):
            return self._checked(i, env[value.source], mask)
        raise InternalError(f"{value} is not computed at each element")

    def _at_index(self, value: Apply, column: Any, pointers: dict[int, Any]) -> Any:
        """Whether each lane is the one that an index of the row names: position == index.

        Asked for the distance from here, which takes one comparison of 32 bits, not two of 64.
        """
        if value.op.name != "equal":
            return None
        for position, index in (value.inputs, value.inputs[::-1]):
            place = self.program.values[position]
            if (
                isinstance(place, Position)
                and place.dtype is int64
                and self.program.patterns[place.access] == Pattern(FULL, UNIT)
                and self.program.levels[index] != FULL
            ):
                distance = self.scalars[index] - (pointers[place.access] + column)
                inside = (distance >= 0) & (distance < self.lanes)
                lane = cast(select(inside, distance, constant(i64, -1)), i32)
                return iota(i32, self.lanes) == splat(lane, self.lanes)
        return None

    def _offsets(self, access: AccessWords, column: Any) -> Any:
        """Where the lanes stand, counted from the start of the columns."""
        if access.pattern.inner == BROADCAST:
            return splat(constant(i64, 0), self.lanes)
        lanes = iota(i64, self.lanes) + splat(column, self.lanes)
        return lanes if access.inner is None else lanes * splat(access.inner, self.lanes)

    def _load(
        self, value: Load, env: dict[int, Any], column: Any, mask: Any, pointers: dict[int, Any]
    ) -> Any:
        access, pointer = self.access[value.access], pointers[value.access]
        if value.index is not None:
            if self.program.levels[value.index] == FULL:
                chosen = cast(env[value.index], i64) * splat(access.extra[0], self.lanes)
                return gather(pointer, chosen + self._offsets(access, column), mask)
            pointer = pointer + cast(self.scalars[value.index], i64) * access.extra[0]
        if access.pattern.inner == UNIT:
            return load(pointer + column, self.lanes, mask)
        if access.pattern.inner == BROADCAST:
            return splat(load(pointer), self.lanes)
        if access.pattern.inner == PAIRED:
            return self._load_paired(pointer + column * 2, mask)
        return gather(pointer, self._offsets(access, column), mask)

    def _load_paired(self, place: Any, mask: Any) -> Any:
        """Every other element: two vectors, without the one behind the last that is wanted."""
        if mask is None:
            low_mask, high_mask = None, tail_mask(constant(i64, self.lanes - 1), self.lanes)
        else:
            low_mask, high_mask = self._apart(mask)
        low = load(place, self.lanes, low_mask)
        high = load(place + self.lanes, self.lanes, high_mask)
        return shuffle(low, high, range(0, 2 * self.lanes, 2))

    def _store_paired(self, place: Any, value: Any, mask: Any) -> None:
        """To every other element; what lies between is left alone."""
        lanes = self.lanes
        masks = self._apart(constant(i1, True, lanes) if mask is None else mask)
        for start, half_mask in zip((0, lanes), masks, strict=True):
            spread = shuffle(value, None, [lane // 2 for lane in range(start, start + lanes)])
            store(place + start, spread, half_mask)

    def _apart(self, mask: Any) -> tuple[Any, Any]:
        """The lanes of a mask with one that is off behind each, in two halves."""
        off = constant(i1, False, self.lanes)
        picked = [self.lanes if lane % 2 else lane // 2 for lane in range(2 * self.lanes)]
        low, high = picked[: self.lanes], picked[self.lanes :]
        return shuffle(mask, off, low), shuffle(mask, off, high)

    def _store(self, entry: Store, value: Any, column: Any, mask: Any, pointer: Any) -> None:
        access = self.access[entry.access]
        if access.pattern.inner == UNIT:
            stream = self.program.stream and mask is None
            store(pointer + column, value, mask, aligned=stream, nontemporal=stream)
        elif access.pattern.inner == PAIRED:
            self._store_paired(pointer + column * 2, value, mask)
        else:
            scatter(pointer, self._offsets(access, column), value, mask)

    def _reduce(
        self, i: int, reduce: Any, env: dict[int, Any], column: Any, mask: Any, u: int,
        pointers: dict[int, Any], running: dict[int, list[Accumulator]],
    ) -> None:  # fmt: skip
        value = accumulated(reduce, env[reduce.source])
        if reduce.kind == "column":
            place = self._partial(i, pointers) + column
            before = load(place, self.lanes, mask)
            store(place, combine(reduce, [before], [value])[0], mask)
            return
        parts = [value]
        if is_arg(reduce):
            position = splat(self.position + column, self.lanes) + iota(i64, self.lanes)
            parts.append(position)
        running[i][u].take(parts, mask)

    # sums over rows

    def _partial(self, i: int, pointers: dict[int, Any]) -> Any:
        """The partial results of this item, as one row of columns."""
        access = self._partial_access(i)
        return pointers[access] + self.block * self.access[access].extra[0]

    def _partial_access(self, i: int) -> int:
        return next(s.access for s in self.program.stores if s.value == i)
