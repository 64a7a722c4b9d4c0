"""The plan runner and the workers of the thread pool, in the kernel language.

A plan is a list of regions, a region a list of tasks, a task a kernel over work items. The
caller of a plan (worker 0) walks the regions; a region that is worth it is opened to the
workers:

    caller                                  worker
    counters of chunks = 0                  spin on `epoch`, then sleep on it
    gate += OPEN, epoch += 1, wake          gate += 1; if it was open, join
    take chunks until there are none        take chunks until there are none
    gate -= OPEN, wait until gate == 0      gate -= 1; the last one wakes the caller

Each worker has a share of the chunks, side by side, and takes them by an atomic counter; then it
takes what is left of the others' shares. So a worker meets the same rows in one region after
another, and at each run, in its own caches. A region ends when the chunks are gone and everybody
who joined has left. A worker that is late finds the gate closed: nobody waits for it, so an
opened region is never slower than the caller alone but for the cost of opening.

Records, as 64-bit words:

    plan     pool, regions, patches, number of patches, cost in ns of the regions worth sharing
    region   tasks, number of tasks, number of chunks, cost in ns, slot of an address or -1: the run
             ends behind the region if the word there is not 0
    task     function, args, items, first chunk, number of chunks
    patch    address of a word, slot, offset: word = slots[slot] + offset
    start    pool, index of the worker
    call     plan, slots, first region, last region (excluded), limit of workers
    pool     each word at the head of a cache line, so that waiting for one disturbs no other

cost     an opened region costs the caller about 1 us while the workers are awake; waking a
         sleeper costs a system call (2-5 us)
source   futex(2), futex(7); Drepper, Futexes Are Tricky, 2011
"""

from __future__ import annotations

import platform
from typing import Any

from bedplate.kernel import (
    Value,
    atomic_add,
    atomic_exchange,
    atomic_load,
    atomic_store,
    call_pointer,
    cast,
    constant,
    extern,
    give_back,
    i32,
    i64,
    kernel,
    load,
    local,
    loop,
    minimum,
    otherwise,
    pause,
    ptr,
    select,
    store,
    var,
    when,
    while_,
    word_int,
    word_pointer,
)

# words of the pool
EPOCH, SLEEPERS, GATE, CALLER_WAITS, STOP = 0, 1, 2, 3, 4  # i32
REGION, LIMIT, SPINS, BUSY = 5, 6, 7, 8  # i64
SHARES = 9  # i64, one for each worker: how many chunks of its share are taken
MAX_WORKERS = 256
N_POOL_WORDS = SHARES + MAX_WORKERS
LINE_BYTES = 128  # two lines: the adjacent one is often prefetched along

PLAN_WORDS, REGION_WORDS, TASK_WORDS, PATCH_WORDS, START_WORDS = 5, 5, 5, 3, 2
CALL_WORDS = 5

OPEN = 1 << 20  # of the gate; the bits below count the workers inside
# The least cost (of the caller alone) for which a region is opened: handing over through the
# caches takes about 1 us, a sleeper needs 5-50 us to come.
WORTH_SHARING_NS = 3_000
WORTH_WAKING_NS = 15_000

FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE = 128, 129
FUTEX_CALL = {"x86_64": 202, "aarch64": 98, "arm64": 98}.get(platform.machine(), 0)
HAS_FUTEX = platform.system() == "Linux" and FUTEX_CALL != 0

_system_call = extern("syscall", i64, (i64, ptr(i32), i64, i64, i64, i64, i64))


def _line32(record: Value, line: int) -> Value:
    """A 32-bit word of the pool whose address is the first word of `record`."""
    return word_pointer(record, 0, i32) + line * (LINE_BYTES // 4)


def _line64(record: Value, line: int) -> Value:
    return word_pointer(record, 0, i64) + line * (LINE_BYTES // 8)


def _sleep_on(word: Value, value: Value) -> None:
    """Sleep until woken, unless the word no longer holds `value`; may return for no reason."""
    _system_call(FUTEX_CALL, word, FUTEX_WAIT_PRIVATE, cast(value, i64), 0, 0, 0)


def _wake(word: Value, count: Any) -> None:
    _system_call(FUTEX_CALL, word, FUTEX_WAKE_PRIVATE, count, 0, 0, 0)


def _call_task(task: Value, begin: Any, end: Any, worker: Any) -> None:
    types = (ptr(i64), i64, i64, i64)
    call_pointer(word_int(task, 0), types, word_pointer(task, 1, i64), begin, end, worker)


def _take_chunks(record: Value, region: Value, worker: Any) -> None:
    """Run chunks of the open region until none is left, those of the worker's own share first."""
    n_chunks, shares = word_int(region, 2), load(_line64(record, LIMIT))
    for turn in loop(shares):
        number = worker + turn
        share = select(number >= shares, number - shares, number)
        first = share * n_chunks // shares
        _take_share(record, region, worker, share, first, (share + 1) * n_chunks // shares)


def _take_share(
    record: Value, region: Value, worker: Any, share: Value, first: Value, last: Value
) -> None:
    """Run chunks of one worker's share until none is left."""
    tasks = word_pointer(region, 0, i64)
    counter = _line64(record, SHARES) + share * (LINE_BYTES // 8)
    place = var(constant(i64, 0))
    chunk = var(first + atomic_add(counter, 1))
    for _ in while_(lambda: chunk.get() < last):
        # chunks come in rising order, so the task that holds this one is never further back
        for _ in while_(lambda: _is_behind(tasks + place.get() * TASK_WORDS, chunk.get())):
            place.set(place.get() + 1)
        task = tasks + place.get() * TASK_WORDS
        items, count = word_int(task, 2), word_int(task, 4)
        number = chunk.get() - word_int(task, 3)
        begin = number * items // count
        _call_task(task, begin, (number + 1) * items // count, worker)
        chunk.set(first + atomic_add(counter, 1))


def _is_behind(task: Value, chunk: Value) -> Value:
    return chunk >= word_int(task, 3) + word_int(task, 4)


def _run_alone(region: Value) -> None:
    tasks = word_pointer(region, 0, i64)
    for number in loop(word_int(region, 1)):
        task = tasks + number * TASK_WORDS
        items = word_int(task, 2)
        with when(items > 0):
            _call_task(task, 0, items, 0)


def _open_gate(record: Value, region: Value, region_address: Value, limit: Value) -> None:
    """Publish the region, and wake as many sleepers as it has chunks for."""
    store(_line64(record, REGION), region_address)
    store(_line64(record, LIMIT), limit)
    for share in loop(limit):
        store(_line64(record, SHARES) + share * (LINE_BYTES // 8), 0)
    atomic_add(_line32(record, GATE), OPEN)
    atomic_add(_line32(record, EPOCH), 1)
    with when(atomic_load(_line32(record, SLEEPERS)) > 0):
        _wake(_line32(record, EPOCH), minimum(limit, word_int(region, 2)) - 1)


def _close_gate(record: Value) -> None:
    """Let nobody in any more, and wait until those inside have left."""
    gate, waits = _line32(record, GATE), _line32(record, CALLER_WAITS)
    inside = var(atomic_add(gate, -OPEN) - OPEN)
    turns = var(constant(i64, 0))
    for _ in while_(lambda: inside.get() != 0):
        with when(turns.get() < load(_line64(record, SPINS))):
            pause()
            turns.set(turns.get() + 1)
        with otherwise():
            atomic_store(waits, 1)
            inside.set(atomic_load(gate))
            with when(inside.get() != 0):
                _sleep_on(gate, inside.get())
            atomic_store(waits, 0)
        inside.set(atomic_load(gate))


def _leave(record: Value) -> None:
    gate = _line32(record, GATE)
    with when((atomic_add(gate, -1) == 1) & (atomic_load(_line32(record, CALLER_WAITS)) == 1)):
        _wake(gate, 1)


def _wait_for_epoch(record: Value, seen: Value) -> None:
    """Spin, then sleep, until the epoch is no longer `seen` (or for no reason)."""
    epoch, sleepers = _line32(record, EPOCH), _line32(record, SLEEPERS)
    turns = var(load(_line64(record, SPINS)))
    for _ in while_(lambda: (atomic_load(epoch) == seen) & (turns.get() > 0)):
        pause()
        turns.set(turns.get() - 1)
    with when(turns.get() == 0):
        atomic_add(sleepers, 1)
        _sleep_on(epoch, seen)
        atomic_add(sleepers, -1)


def _join(record: Value, worker: Value) -> None:
    """Go through the gate, and help if it was open and has room for this worker."""
    is_open = atomic_add(_line32(record, GATE), 1) >= OPEN
    with when(is_open), when(worker < load(_line64(record, LIMIT))):
        _take_chunks(record, word_pointer(_line64(record, REGION), 0, i64), worker)
    _leave(record)


@kernel
def worker_main(start: ptr(i64)):
    """The life of a worker thread: wait, help, until told to stop."""
    epoch, stop = _line32(start, EPOCH), _line32(start, STOP)
    worker = word_int(start, 1)
    seen = var(atomic_load(epoch))
    for _ in while_(lambda: atomic_load(stop) == 0):
        _wait_for_epoch(start, seen.get())
        now = atomic_load(epoch)
        with when(now != seen.get()):
            seen.set(now)
            _join(start, worker)


@kernel
def run_plan(call: ptr(i64)):
    """Patch the words of a plan, then run its regions first..last with up to `limit` workers.

    call    the record: one argument, because each takes 0.1 us on its way from Python
    """
    plan, slots = word_pointer(call, 0, i64), word_pointer(call, 1, i64)
    first, last, limit = word_int(call, 2), word_int(call, 3), word_int(call, 4)
    for number in loop(word_int(plan, 3)):
        patch = word_pointer(plan, 2, i64) + number * PATCH_WORDS
        store(word_pointer(patch, 0, i64), load(slots + word_int(patch, 1)) + word_int(patch, 2))
    # a pool that serves another caller is not waited for: this one runs alone
    has_pool = var(constant(i64, 0))
    wants_pool = (limit > 1) & (word_int(plan, 4) >= WORTH_SHARING_NS)
    with when(wants_pool), when(atomic_exchange(_line64(plan, BUSY), 1) == 0):
        has_pool.set(1)
        _wake_ahead(plan, limit)
    number, end = var(first), var(last)
    for _ in while_(lambda: number.get() < end.get()):
        region_address = word_int(plan, 1) + number.get() * (REGION_WORDS * 8)
        region = word_pointer(plan, 1, i64) + number.get() * REGION_WORDS
        with when((has_pool.get() == 1) & _is_worth_opening(plan, region, limit)):
            _open_gate(plan, region, region_address, limit)
            _take_chunks(plan, region, 0)
            _close_gate(plan)
        with otherwise():
            _run_alone(region)
        with when(word_int(region, 4) >= 0), when(_is_set(slots, word_int(region, 4))):
            end.set(0)
        number.set(number.get() + 1)
    with when(has_pool.get() == 1):
        atomic_store(_line64(plan, BUSY), 0)


def _is_set(slots: Value, slot: Value) -> Value:
    return load(word_pointer(slots, slot, i64)) != 0


def _wake_ahead(plan: Value, limit: Value) -> None:
    """In a plan that is long enough, wake the workers before the first region needs them."""
    sleepers = cast(atomic_load(_line32(plan, SLEEPERS)), i64)
    with when((word_int(plan, 4) >= WORTH_WAKING_NS) & (sleepers >= limit - 1)):
        atomic_add(_line32(plan, EPOCH), 1)
        _wake(_line32(plan, EPOCH), limit - 1)


def _is_worth_opening(plan: Value, region: Value, limit: Value) -> Value:
    cost = word_int(region, 3)
    awake = cast(atomic_load(_line32(plan, SLEEPERS)), i64) < limit - 1
    return (word_int(region, 2) > 1) & (
        (cost >= WORTH_WAKING_NS) | (awake & (cost >= WORTH_SHARING_NS))
    )


@kernel
def take_pool(pool: ptr(i64)) -> i64:
    """Take the pool if no plan is using it: 1 if it was free."""
    taken = atomic_exchange(pool + BUSY * (LINE_BYTES // 8), 1)
    give_back(1 - taken)


@kernel
def tell_to_stop(pool: ptr(i64)):
    """Make every worker return as soon as it looks."""
    atomic_store(pool + STOP * (LINE_BYTES // 8), 1)
    record = local(i64, 1)
    store(record, cast(pool, i64))
    atomic_add(_line32(record, EPOCH), 1)
    _wake(_line32(record, EPOCH), 1 << 20)


@kernel
def spin(turns: i64):
    """Pause so many times; tells how long a pause takes on this machine."""
    for _ in loop(turns):
        pause()
