"""fuse: gather nodes into groups, each of which becomes one kernel.

Needs the graph after `views`; leaves groups in topological order, each with its members,
its domain and the values that it must store. A node joins the groups that produce its inputs,
and groups that read the same values over the same domain are joined, if

- their domains agree: the same rows and columns, or a flat domain that can take this shape;
  a value with one element for each row lives in the group of those rows;
- every value that one reads from the other is read in place, or one for each row;
- nothing outside stands between them (no path leaves the group and comes back);
- a reduction whose result comes in parts is read from outside only.

Reductions over trailing axes give the domain its rows and columns; those over leading axes
become partial sums of the same rows. So softmax, norms and cross-entropy with their gradients
come out as one kernel by these rules, without being named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from bedplate.compiler.access import Access, is_alias, numel
from bedplate.compiler.domain import compatible, cuts_of, inside, steps_of
from bedplate.compiler.fold_groups import fold_epilogues, store_in_regions
from bedplate.compiler.groups import ASSEMBLE, FUSED, KERNEL, Group
from bedplate.compiler.passes.views import NO_MEMORY
from bedplate.compiler.reductions import BLOCK
from bedplate.compiler.uses import take_dims
from bedplate.config import config
from bedplate.graph.node import Node, topological_order

MAX_MEMBERS = 160  # keeps compile times and register pressure in bounds
MAX_SOURCES = 40
SPLIT_ROWS = 4  # with at most so many rows, long rows are split over several items
MIN_ROW = 8  # columns below which a row value is not worth a scalar evaluation
SMALL = 1 << 14  # elements of a domain that takes about as long as a launch
READS_BASE = 1 << 12  # elements of an input that make sharing it worth a merger


class Fuser:
    """Builds the groups of one graph; see the head of this file."""

    def __init__(self, roots: Sequence[Node], access_of: Callable[[Node], Access]) -> None:
        self.access_of = access_of
        self.roots = roots
        self.order = topological_order(list(roots))
        self.group: dict[Node, Group] = {}
        self.groups: dict[int, Group] = {}
        self.readers: dict[Node, list[Node]] = {}
        self.place = {node: i for i, node in enumerate(self.order)}

    def run(self) -> list[Group]:
        """The groups, inputs first."""
        for node in self.order:
            if node.op.kind == "leaf" or is_alias(node):
                continue
            if node.op.name == "output":
                self.group[node] = self.group[node.inputs[0]]
                continue
            self._enter(node)
        if config.fusion:
            self._join_readers()
            self._join_small()
        self._finish()
        if config.fusion:
            fold_epilogues(self)
            store_in_regions(self)
        return self._sorted()

    def _in_order(self, nodes: Iterable[Node]) -> list[Node]:
        """A set's nodes in the order of the graph, so that every process makes the same groups."""
        return sorted(nodes, key=self.place.__getitem__)

    # one node

    def _enter(self, node: Node) -> None:
        group = self._single(node)
        self.groups[id(group)] = group
        self.group[node] = group
        for source in group.sources:
            made_by = source.inputs[0] if source.op.name == "output" else source
            self.readers.setdefault(made_by, []).append(node)
        if not config.fusion or group.kind != FUSED:
            return
        producers = {id(g): g for g in self._producers(node) if g.kind == FUSED}
        for producer in sorted(producers.values(), key=lambda g: -g.position):
            here = self.group[node]
            if here is not producer and not self._holds_up(producer, here):
                self._try_merge(producer, here)

    def _holds_up(self, producer: Group, reader: Group) -> bool:
        """Whether a small producer would have to wait for more than it needs itself.

        A count or a scale may be what a large kernel waits for: were it computed together with
        what comes after that kernel, the two could not be one.
        """
        if producer.total >= SMALL:
            return False
        known = producer.ancestors | producer.bits
        others = reader.ancestors & ~known
        while others:
            above = self.group[self.order[others.bit_length() - 1]]
            if not above.bits & known:
                return True
            others &= ~above.bits
        return False

    def _join_small(self) -> None:
        """The small groups that were left apart at first."""
        readers = [g.members[-1] for g in self.groups.values() if g.kind == FUSED]
        for node in readers:
            for source in self._in_order(self.group[node].sources):
                producer, here = self.group.get(source), self.group[node]
                if producer is None or producer is here or producer.kind != FUSED:
                    continue
                if producer.total < SMALL:
                    self._try_merge(producer, here)

    def _single(self, node: Node) -> Group:
        kind = {"kernel": KERNEL, "host": KERNEL, "assemble": ASSEMBLE}.get(node.op.kind, FUSED)
        group = Group(kind, numel(node), members=[node], bits=1 << self.place[node])
        group.position = self.place[node]
        group.sources = {self.access_of(source).base for source in node.inputs}
        if node.op.kind == "reduce":
            self._reduction_domain(group, node)
        for source in group.sources:
            if source in self.group:
                producer = self.group[source]
                group.ancestors |= producer.bits | producer.ancestors
        if kind == FUSED:
            group.cuts = self._cuts(group, node)
        return group

    def _reduction_domain(self, group: Group, node: Node) -> None:
        source = node.inputs[0]
        group.total = numel(source)
        inner = math.prod(source.shape[max(node.attributes["axes"]) + 1 :])
        if inner == 1:
            group.rows, group.cols = numel(node), group.total // max(numel(node), 1)
            group.ordered = True
            one_walk = not inside(cuts_of(self.access_of(source).dims), group.cols)
            group.split = (
                group.rows <= SPLIT_ROWS
                and group.cols > 2 * BLOCK
                and one_walk
                and not node.op.name.startswith("arg")
            )
        else:
            group.rows, group.cols = group.total // max(inner, 1), inner
        if inner > 1 or group.split:
            group.late.add(node)
        if inner > 1:
            group.reduced = group.total // numel(node)

    def _producers(self, node: Node) -> Iterable[Group]:
        for source in node.inputs:
            base = self.access_of(source).base
            if base in self.group:
                yield self.group[base]

    def _cuts(self, group: Group, node: Node) -> frozenset[int]:
        """Where the accesses of a node cut its domain, counted in its elements."""
        cuts: set[int] = {group.total, 1}
        if group.cols is not None:
            cuts.add(group.cols)
        for position, source in enumerate(node.inputs):
            if node.op.name == "take" and position == 0:
                dims, _ = take_dims(
                    self.access_of(source), source.shape, node.attributes["axis"], node.shape
                )
                cuts |= cuts_of(dims)
            else:
                cuts |= cuts_of(self.access_of(source).dims)
        return frozenset(cuts)

    # two groups

    def _try_merge(self, first: Group, second: Group) -> bool:
        """Join two groups if all the conditions hold; `second` may read from `first`."""
        if len(first.members) + len(second.members) > MAX_MEMBERS:
            return False
        if first.reduced and second.reduced and first.reduced != second.reduced:
            return False
        domain = _common_domain(first, second, self._row_reading(first, second))
        if domain is None:
            return False
        total, rows, cols = domain
        cuts = _scaled(first, total) | _scaled(second, total) | ({cols} if cols else frozenset())
        if not compatible(cuts) or len(first.sources | second.sources) > MAX_SOURCES:
            return False
        if not self._share_axes(first, second, cuts):
            return False
        if not all(_keeps_order(group, cuts, cols) for group in (first, second)):
            return False
        if self._between(first, second) or not self._edges_hold(first, second, total, rows, cols):
            return False
        self._merge(first, second, domain, cuts)
        return True

    def _share_axes(self, first: Group, second: Group, cuts: frozenset[int]) -> bool:
        """Whether the common axes are those of a value, not a chance of these sizes.

        Two orders of the same axes may have a common refinement for one batch size and none for
        the next, which would compile another kernel.
        """
        if any(cuts == _scaled(group, max(cuts)) for group in (first, second)):
            return True
        shapes = {node.shape for group in (first, second) for node in group.members}
        return any(cuts <= steps_of(shape, max(cuts)) for shape in shapes)

    def _row_reading(self, first: Group, second: Group) -> tuple[int, int] | None:
        """(rows, columns) if `second` reads a value of `first` as one for each row."""
        for node in second.members:
            for source in node.inputs:
                access = self.access_of(source)
                if access.base in self.group and self.group[access.base] is first:
                    dims = access.dims
                    if len(dims) == 2 and dims[0][1] == 1 and dims[1][1] == 0:
                        return dims[0][0], dims[1][0]
        return None

    def _between(self, first: Group, second: Group) -> bool:
        """Whether a path leads from one group to the other through a third."""
        for above, below in ((first, second), (second, first)):
            if not below.ancestors & above.bits:
                continue
            for source in below.sources:
                middle = self.group.get(source)
                if middle is None or middle is above or middle is below:
                    continue
                if middle.ancestors & above.bits:
                    return True
        return False

    def _edges_hold(
        self, first: Group, second: Group, total: int, rows: int | None, cols: int | None
    ) -> bool:
        """Whether each value read across is read as the kernel has it at that point."""
        for reader, other in ((second, first), (first, second)):
            if not any(self.group.get(source) is other for source in reader.sources):
                continue
            for node in reader.members:
                for position, source in enumerate(node.inputs):
                    base = self.access_of(source).base
                    if self.group.get(base) is not other:
                        continue
                    if base in other.late or (node.op.name == "take" and position == 0):
                        return False
                    if not self._in_place(self.access_of(source), total, rows, cols):
                        return False
        return True

    def _in_place(self, access: Access, total: int, rows: int | None, cols: int | None) -> bool:
        size = numel(access.base)
        if size not in (total, rows):
            return False
        if access.identity:
            return True
        return size == rows and access.offset == 0 and access.dims == ((rows, 1), (cols, 0))

    def _merge(
        self,
        first: Group,
        second: Group,
        domain: tuple[int, int | None, int | None],
        cuts: frozenset[int],
    ) -> None:
        grown = Group(FUSED, *domain)
        grown.split = first.split or second.split
        grown.ordered = first.ordered or second.ordered
        grown.members = first.members + second.members
        grown.late = first.late | second.late
        grown.reduced = first.reduced or second.reduced
        grown.bits = first.bits | second.bits
        grown.ancestors = (first.ancestors | second.ancestors) & ~grown.bits
        grown.sources = {
            s for s in first.sources | second.sources if self.group.get(s) not in (first, second)
        }
        grown.cuts = cuts
        grown.position = max(first.position, second.position)
        # what depends on one of them now depends on what the other needs
        news = [
            b.ancestors & ~(a.ancestors | a.bits) for a, b in ((first, second), (second, first))
        ]
        del self.groups[id(first)], self.groups[id(second)]
        self.groups[id(grown)] = grown
        for node in grown.members:
            self.group[node] = grown
        if any(new & ~grown.bits for new in news):
            self._pass_on(grown)

    def _pass_on(self, grown: Group) -> None:
        """What depends on the merged group has all its ancestors.

        Only dependants are visited: with many parameters there are many groups apart. A bit of
        each group above is enough; those of the merged group itself are there.
        """
        above = grown.ancestors
        stack = [grown]
        while stack:
            for node in stack.pop().members:
                for reader in self.readers.get(node, ()):
                    group = self.group[reader]
                    if group is not grown and above & ~group.ancestors:
                        group.ancestors |= above
                        stack.append(group)

    # siblings

    def _join_readers(self) -> None:
        """Join groups that read the same large value over the same domain."""
        readers: dict[Node, list[Group]] = {}
        for group in self.groups.values():
            if group.kind == FUSED:
                for source in self._in_order(group.sources):
                    if numel(source) >= READS_BASE and source.op.name not in NO_MEMORY:
                        readers.setdefault(source, []).append(group)
        for source, before in readers.items():
            now = {id(g): g for g in map(self._now, before) if source in g.sources}
            current = sorted(now.values(), key=lambda g: g.serial)
            for i, first in enumerate(current):
                for second in current[i + 1 :]:
                    a, b = self._now(first), self._now(second)
                    if a is not b and a.total == b.total == numel(source):
                        self._try_merge(a, b)

    def _now(self, group: Group) -> Group:
        return self.group[group.members[0]]

    # the result

    def _finish(self) -> None:
        """Members in order, and which of them are stored."""
        wanted: set[Node] = {self.access_of(root).base for root in self.roots}
        for group in self.groups.values():
            wanted |= group.sources
        for group in self.groups.values():
            group.members.sort(key=self.place.__getitem__)
            group.stored = [node for node in group.members if node in wanted]

    def _sorted(self) -> list[Group]:
        """Groups in topological order: by need, and as the graph was written otherwise."""
        done: set[int] = set()
        result: list[Group] = []
        for root in sorted(self.groups.values(), key=lambda g: g.position):
            stack = [(root, False)]
            while stack:
                group, ready = stack.pop()
                if ready:
                    result.append(group)
                    continue
                if id(group) in done:
                    continue
                done.add(id(group))
                stack.append((group, True))
                sources = self._in_order(group.sources)
                above = {id(g): g for s in sources if (g := self.group.get(s)) is not None}
                stack.extend((g, False) for g in above.values() if id(g) not in done)
        return result


def _keeps_order(group: Group, cuts: frozenset[int], cols: int | None) -> bool:
    """Whether what a group reduces along its columns is still walked in the same order.

    The bits of a sum must not depend on what it was fused with.
    """
    if not group.ordered or cols is None:
        return True
    return inside(cuts, cols) == inside(group.cuts, cols)


def _scaled(group: Group, total: int) -> frozenset[int]:
    """The cuts of a group in a domain that has more columns to each of its elements."""
    if group.total in (0, total):
        return group.cuts
    factor = total // group.total
    return frozenset(cut * factor for cut in group.cuts) | {1}


def _common_domain(
    first: Group, second: Group, row_reading: tuple[int, int] | None
) -> tuple[int, int | None, int | None] | None:
    """The domain of two groups together, or None if there is none."""
    if first.split != second.split and None not in (first.rows, second.rows):
        return None
    if first.total == second.total:
        if None not in (first.rows, second.rows) and first.rows != second.rows:
            return None
        known = first if first.rows is not None else second
        return first.total, known.rows, known.cols
    for flat, rowed in ((first, second), (second, first)):
        # one value for each row of a domain that has rows
        if flat.rows is None and rowed.rows == flat.total and not rowed.split:
            return rowed.total, rowed.rows, rowed.cols
    if row_reading is not None and first.rows is None and second.rows is None:
        rows, cols = row_reading
        if first.total == rows and second.total == rows * cols and cols >= MIN_ROW:
            return second.total, rows, cols
    return None
