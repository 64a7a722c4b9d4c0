"""Kernels for blocks of threads: for how many warps a program is, and how the interpreter runs it.

Each thread of a block is a machine of its own. They take turns: a thread runs until it comes to
something that it does together with others, then the next one does. When all that the meeting
needs are there, each gets its part of what they make, and goes on. From meeting to meeting the
turns go the other way round, so that a kernel whose values depend on the order shows it; memory
that a block shares is watched for what the barriers do not order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bedplate.errors import KernelError
from bedplate.kernel.context import line_of
from bedplate.kernel.instructions.blocks import BLOCK_OPS, WARP
from bedplate.kernel.ir import Instruction, Program, all_instructions, all_programs
from bedplate.kernel.machine import Machine, Pointer, Region, Watch, bind, plain
from bedplate.kernel.types import element

Together = Callable[[Instruction, Sequence[tuple[Any, ...]]], list[Any]]
NOBODY, SEVERAL = -1, -2


def warps_of(program: Program) -> int:
    """How many warps a block of a kernel has; 0 for a kernel that threads run each by itself.

    raises  KernelError if the kernel says several numbers
    """
    used, sizes = False, set()
    for each in all_programs(program):
        for instruction in all_instructions(each.body):
            used = used or instruction.op in BLOCK_OPS
            if instruction.op == "thread_warp":
                sizes.add(instruction.attributes["warps"])
    if len(sizes) > 1:
        raise KernelError(
            f"kernel {program.name}: blocks of {', '.join(map(str, sorted(sizes)))} warps\n"
            "  legal: thread_warp(n) with one n in a kernel and all that it calls"
        )
    return max(sizes, default=1) if used else 0


def interpret_block(
    program: Program, args: tuple[Any, ...], memory: Sequence[Any] = (), watch: Watch | None = None
) -> Any:
    """Run a program by all threads of a block; for the arguments see `machine.interpret`.

    returns  what thread 0 gives back
    raises   KernelError for a meeting that some do not come to, or for shared memory that two
             threads use without a barrier between them
    """
    return _Block(program, args, memory, watch).run()


class SharedRegion(Region):
    """Memory that a block shares: who wrote and who read each byte since which barrier."""

    def __init__(self, address: int, memory: Any) -> None:
        super().__init__("shared", address, memory, np.zeros(len(memory), bool))
        self.writer, self.reader = (np.full(len(memory), NOBODY) for _ in range(2))
        self.written_in, self.read_in = (np.full(len(memory), -1) for _ in range(2))

    def clash(self, place: slice, thread: int, turn: int, writes: bool) -> int:
        """Enter an access; the thread that uses the same bytes in this turn, or NOBODY."""
        others = [(self.writer[place], self.written_in[place])]
        if writes:
            others.append((self.reader[place], self.read_in[place]))
        for who, when in others:
            wrong = (when == turn) & (who != thread)
            if wrong.any():
                return int(who[wrong][0])
        if writes:
            self.writer[place], self.written_in[place] = thread, turn
        else:
            again = (self.read_in[place] == turn) & (self.reader[place] != thread)
            self.reader[place] = np.where(again, SEVERAL, thread)
            self.read_in[place] = turn
        return NOBODY


class _Abandoned(Exception):
    """Unwinds a thread after another one failed."""


class _ThreadMachine(Machine):
    """The machine of one thread of a block."""

    def __init__(self, block: _Block, thread: int, watch: Watch | None) -> None:
        super().__init__(watch)
        self.owner, self.thread = block, thread
        self.go = threading.Semaphore(0)
        self.waits: Instruction | None = None  # at which meeting
        self.together: Together | None = None
        self.brought: tuple[Any, ...] = ()
        self.given: Any = None
        self.result: Any = None
        self.is_done = False

    @property
    def waits_for_warp(self) -> bool:
        return self.waits is not None and self.together is not None

    def meet(
        self, instruction: Instruction, brought: tuple[Any, ...], together: Together | None
    ) -> Any:
        """This thread's part of what the warp makes of what its lanes bring.

        together  None: a meeting of the whole block
        """
        self.waits, self.brought, self.together = instruction, brought, together
        self.owner.turn_over.release()
        self.go.acquire()
        if self.owner.failure is not None:
            raise _Abandoned
        return self.given

    def shared(self, instruction: Instruction) -> Pointer:
        region = self.owner.shared_region(instruction)
        if region not in self.regions:
            self.regions.append(region)
        return Pointer(region.address, region)

    def read(self, instruction: Instruction, pointer: Pointer, lane: int) -> Any:
        self._note(instruction, pointer, lane, False)
        return super().read(instruction, pointer, lane)

    def write(self, instruction: Instruction, pointer: Pointer, lane: int, value: Any) -> None:
        self._note(instruction, pointer, lane, True)
        super().write(instruction, pointer, lane, value)

    def _note(self, instruction: Instruction, pointer: Pointer, lane: int, writes: bool) -> None:
        if not isinstance(pointer.region or self.find(pointer.address), SharedRegion):
            return
        region, place = self._place(instruction, pointer, lane)
        if not isinstance(region, SharedRegion):
            return
        other = region.clash(place, self.thread, self.owner.n_barriers, writes)
        if other != NOBODY:
            who = f"thread {other}" if other >= 0 else "several threads"
            raise KernelError(
                f"{self.where(instruction)}: thread {self.thread} and {who} use the same shared "
                f"memory, and one of them writes\n  byte  {place.start} of {len(region.memory)}\n"
                "  legal: block_barrier() between the two"
            )


class _Block:
    """The threads of one block while they run."""

    def __init__(
        self, program: Program, args: tuple[Any, ...], memory: Sequence[Any], watch: Watch | None
    ) -> None:
        self.program = program
        self.turn_over = threading.Semaphore(0)
        self.failure: BaseException | None = None
        self.n_barriers = 0
        self._shared: dict[int, SharedRegion] = {}
        self._machines: list[_ThreadMachine] = []
        self._values: list[list[Any]] = []
        for thread in range(WARP * max(warps_of(program), 1)):
            machine = _ThreadMachine(self, thread, watch if thread == 0 else None)
            self._values.append(bind(machine, program, args, memory))
            self._machines.append(machine)

    def shared_region(self, instruction: Instruction) -> SharedRegion:
        found = self._shared.get(id(instruction))
        if found is None:
            size = instruction.attributes["count"] * element(instruction.type).itemsize
            memory = np.zeros(size + 64, np.uint8)
            start = -memory.ctypes.data % 64
            memory = memory[start : start + size]
            found = SharedRegion(memory.ctypes.data, memory)
            self._shared[id(instruction)] = found
        return found

    def run(self) -> Any:
        threads = [
            threading.Thread(target=self._live, args=pair, daemon=True)
            for pair in zip(self._machines, self._values, strict=True)
        ]
        for thread in threads:
            thread.start()
        ready, step = list(self._machines), 1
        try:
            while ready:
                self._take_turns(ready[::step])
                ready, step = self._after_meetings(), -step
        except KernelError as error:
            self.failure = error
        finally:
            for machine in self._machines:
                machine.go.release()
            for thread in threads:
                thread.join()
        if self.failure is not None:
            raise self.failure
        return plain(self._machines[0].result)

    def _live(self, machine: _ThreadMachine, values: list[Any]) -> None:
        machine.go.acquire()
        try:
            if self.failure is None:
                with np.errstate(all="ignore"):
                    machine.result = machine.run(self.program, values)
        except _Abandoned:
            return
        except BaseException as error:
            self.failure = error
        machine.is_done = True
        self.turn_over.release()

    def _take_turns(self, ready: list[_ThreadMachine]) -> None:
        """Let each run to its next meeting, or to its end."""
        for machine in ready:
            machine.waits = None
            machine.go.release()
            self.turn_over.acquire()
            if self.failure is not None:
                return

    def _after_meetings(self) -> list[_ThreadMachine]:
        """Those that go on, each with its part; none when all are done.

        raises  KernelError if some wait for others that do not come
        """
        if self.failure is not None:
            return []
        ready = []
        for first in range(0, len(self._machines), WARP):
            warp = self._machines[first : first + WARP]
            leader = next((each for each in warp if each.waits_for_warp), None)
            if leader is not None:
                ready += self._met(warp, leader)
        waiting = [each for each in self._machines if each.waits is not None]
        if not ready and waiting:
            ready = self._met(self._machines, waiting[0])
            self.n_barriers += 1
        return ready

    def _met(self, group: list[_ThreadMachine], leader: _ThreadMachine) -> list[_ThreadMachine]:
        instruction = leader.waits
        for each in group:
            if each.waits is not instruction:
                raise self._missed(leader, each)
        given: list[Any] = [None] * len(group)
        if instruction is not None and leader.together is not None:
            with np.errstate(all="ignore"):
                given = leader.together(instruction, [each.brought for each in group])
        for each, part in zip(group, given, strict=True):
            each.given = part
        return group

    def _missed(self, here: _ThreadMachine, absent: _ThreadMachine) -> KernelError:
        where = "has ended"
        if absent.waits is not None:
            where = f"is at {absent.waits.op}, {line_of(absent.waits.site)}"
        instruction = here.waits
        op, site = ("?", None) if instruction is None else (instruction.op, instruction.site)
        return KernelError(
            f"kernel {self.program.name}: {op} at {line_of(site)}: not all threads come to it\n"
            f"  thread {here.thread}  is there\n  thread {absent.thread}  {where}\n"
            "  legal: outside of branches and loops on which the threads disagree"
        )
