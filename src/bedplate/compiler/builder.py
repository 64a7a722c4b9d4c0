"""PlanBuilder: what an op's `lower` writes its launches to, and what fused groups become.

A launch is one task kernel over a number of work items, its 64-bit argument words, and the
buffers that it reads and writes. Launches are entered in program order; the scheduler puts
all that do not depend on each other in one region, where their items run side by side. A
buffer is either a slot (an input, an output, known only when the plan runs) or a temporary,
whose place in the arena the memory plan chooses by its lifetime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bedplate.devices.cpu.runner import Slot
from bedplate.devices.cpu.runner import n_workers as count_workers
from bedplate.dtypes import DType
from bedplate.errors import InternalError
from bedplate.kernel import Target

ALIGNMENT = 64


class BufferRef:
    """Memory that a plan uses, by name: a run-time slot or a temporary in the arena.

    slot     index into the slots that are bound when the plan runs, or None for a temporary
    nbytes   its size
    offset   of a temporary: its place in the arena, once the memory plan is made
    """

    __slots__ = ("name", "nbytes", "offset", "slot")

    def __init__(self, nbytes: int, slot: int | None = None, name: str = "") -> None:
        self.nbytes = nbytes
        self.slot = slot
        self.name = name
        self.offset: int | None = None

    def __repr__(self) -> str:
        place = f"slot {self.slot}" if self.slot is not None else f"temp @{self.offset}"
        return f"<{self.name or 'buffer'} {place} {self.nbytes} B>"


@dataclass(frozen=True, slots=True)
class View:
    """A strided window on a buffer; strides and offset count elements; stride 0 broadcasts."""

    buffer: BufferRef
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: DType

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        return self.strides == row_major_strides(self.shape) or 0 in self.shape

    @property
    def size(self) -> int:
        count = 1
        for length in self.shape:
            count *= length
        return count


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a contiguous array of this shape."""
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def contiguous_view(buffer: BufferRef, shape: Sequence[int], dtype: DType) -> View:
    """The whole buffer as a row-major array."""
    return View(buffer, tuple(shape), row_major_strides(shape), 0, dtype)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """An element-wise chain that an op applies to each value before it stores it.

    key    hashable; equal keys emit equal code, so it may specialise the op's kernel
    words  argument words that the op appends to its own (View, BufferRef, int or float)
    emit   staged: (value, batch, row, column, lanes, mask, args, first_word) -> value;
           value is a vector along the columns (or a scalar if lanes is None) in the op's
           accumulator dtype; batch, row, column are i64 values of its first element (batch
           counts the flattened leading axes); words start at args[first_word]; the result
           has the output's dtype
    reads  the buffers that the words refer to: the launch that emits must list them
    """

    key: Any
    words: tuple[Any, ...]
    emit: Callable[..., Any]
    reads: tuple[BufferRef, ...] = ()


@dataclass(slots=True, eq=False)
class Launch:
    """One task kernel over `items` work items; see the head of this file.

    flops      the arithmetic that the cost of the op's record counts, for whoever reads a rate
    weight_ns  for the scheduler: what it takes on one core, measured, where flops and nbytes
               do not tell; 0: they do
    """

    kernel: Any
    words: list[Any]
    items: int
    reads: list[BufferRef]
    writes: list[BufferRef]
    flops: float = 0.0
    nbytes: float = 0.0
    name: str = ""
    weight_ns: float = 0.0
    shared: bool = False  # writes its own region of a buffer that others write beside it
    checks: bool = False  # it may write to the error record
    in_place: list[tuple[BufferRef, BufferRef]] = field(default_factory=list)
    # pairs (read, written) that may be the same memory
    host: tuple[Any, list[View], list[View]] | None = None
    # instead of a kernel: a node whose NumPy reference is called, its inputs and outputs
    origin: Any = None  # the node or group it came from, for inspection

    def __repr__(self) -> str:
        return f"<Launch {self.name} items={self.items}>"


class PlanBuilder:
    """Collects the launches of one plan.

    n_workers  how many workers may run the items of a launch at once; by default the CPU's
    target     of the device that runs them, for ops that have kernels for some; None: the CPU
    """

    def __init__(self, n_workers: int | None = None, target: Target | None = None) -> None:
        self.n_workers = count_workers() if n_workers is None else n_workers
        self.target = target
        self.launches: list[Launch] = []
        self.error_record: BufferRef = BufferRef(ALIGNMENT, slot=1, name="errors")
        # what an op made of a value and another may take as well, by keys of their own
        self.shared: dict[Any, Any] = {}
        self._origin: Any = None
        self._epilogue_reads: tuple[BufferRef, ...] = ()

    def temp(self, nbytes: int, name: str = "temp") -> BufferRef:
        """Memory that lives from the first launch which writes it to the last which reads it."""
        return BufferRef(max(int(nbytes), 1), name=name)

    def scratch(self, bytes_per_worker: int) -> BufferRef:
        """One piece of memory for each worker: the kernel adds `worker * bytes_per_worker`.

        The size is rounded up to whole cache lines; `scratch_bytes` gives the rounded step.
        """
        return self.temp(scratch_bytes(bytes_per_worker) * self.n_workers, "scratch")

    def launch(
        self,
        kernel: Any,
        words: Sequence[Any],
        items: int,
        *,
        reads: Sequence[BufferRef],
        writes: Sequence[BufferRef],
        flops: float = 0.0,
        nbytes: float = 0.0,
        name: str = "",
        weight_ns: float = 0.0,
    ) -> Launch:
        """Enter one launch. Words are View (its first element), BufferRef, int or float."""
        for word in words:
            if not isinstance(word, View | BufferRef | Slot | int | float):
                raise InternalError(f"launch {name}: a word may not be {word!r}")
        entry = Launch(
            kernel, list(words), int(items), [*reads, *self._epilogue_reads], list(writes),
            float(flops), float(nbytes), name or getattr(kernel, "name", "kernel"),
            float(weight_ns),
        )  # fmt: skip
        entry.origin = self._origin
        self.launches.append(entry)
        return entry

    def call_host(self, node: Any, inputs: list[View], outputs: list[View]) -> Launch:
        """Enter the call of a node's NumPy reference. It may fail, so it counts as a check."""
        reads, writes = [view.buffer for view in inputs], [view.buffer for view in outputs]
        nbytes = sum(view.size * view.dtype.itemsize for view in (*inputs, *outputs))
        entry = self.launch(
            None, (), 1, reads=reads, writes=writes, nbytes=nbytes, name=f"numpy_{node.op.name}"
        )
        entry.host = (node, inputs, outputs)
        entry.checks = True
        return entry

    def lowering(self, origin: Any, epilogue: Epilogue | None = None) -> None:
        """The launches that follow come from `origin`, and may read what its epilogue reads."""
        self._origin = origin
        self._epilogue_reads = epilogue.reads if epilogue is not None else ()


def scratch_bytes(bytes_per_worker: int) -> int:
    """The distance in bytes between two workers' scratch: whole cache lines."""
    return -(-int(bytes_per_worker) // ALIGNMENT) * ALIGNMENT
