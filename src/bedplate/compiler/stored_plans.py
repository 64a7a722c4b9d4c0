"""stored_plans: plans of large graphs on disk, so that a process need not plan what another has.

Planning a train step takes 25 ms a layer, and tracing its kernels 100 ms, in every process anew;
reading the plan takes a few ms. A plan is stored beside the kernels (`kernel/cache.py`: a file that
is verified, in a folder that is ours alone) under the digest of all that it depends on: the
graph's structure, the settings, the machine and the package's own source. It is plain JSON and
names its kernels by their keys; whatever is wrong with it, or missing, means planning again.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from bedplate.compiler.builder import Launch
from bedplate.compiler.merge import table_task
from bedplate.compiler.plan import ERRORS, Plan, Result
from bedplate.compiler.signature import Signature
from bedplate.config import IMPORTED_NS, config
from bedplate.devices.cpu.caches import cache_bytes
from bedplate.devices.cpu.runner import NativePlan, Slot, Task, n_workers
from bedplate.dtypes import DType, as_dtype
from bedplate.errors import InternalError
from bedplate.graph.node import Node
from bedplate.kernel import cache, host
from bedplate.kernel.native import Stored, origin_of, stored_code
from bedplate.observer import hooks
from bedplate.ops.record import REGISTRY, Op

FORMAT = "plan 1"
LEAST_NODES = 200  # a smaller graph is planned in 10 ms
PACKAGE = Path(__file__).parent.parent
OF_LIBRARIES = {"", "builtins", "functools", "numpy", "operator"}
PLAIN = (str, int, float, bool, bytes, type(None), DType)


def key_of(signature: Signature, settings: Any, wishes: Any) -> str | None:
    """The name of a plan on disk; None for one that is not to be stored.

    That is a small one, one that somebody looks at, and one with ops from outside the package:
    their code may change without notice.
    """
    if len(signature.order) < LEAST_NODES or not config.plan_files or not config.cache_dir:
        return None
    watched = config.check or config.verify or config.debug
    if watched or hooks.planned is not None or hooks.plan_key is not None:
        return None
    environment = _environment()
    if not environment:
        return None
    parts, roots = signature.key
    texts = [
        FORMAT,
        environment,
        repr((settings, n_workers(), wishes, roots)),
    ]
    for part in parts:
        if len(part) == 5:
            op, *rest = part
            if not (_is_ours(op) and _is_plain(tuple(rest))):
                return None
            texts.append(f"{op.name} {rest}")
        else:
            texts.append(str(part))
    return cache.key_of("\n".join(texts))


def _is_plain(value: Any) -> bool:
    """Whether a value prints as all that it is."""
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return type(value) in PLAIN


@functools.cache
def _is_ours(op: Op) -> bool:
    """Whether an op's record is the package's; one of its functions at least says where."""
    functions = [each for each in (getattr(op, f.name) for f in fields(Op)) if callable(each)]
    modules = {(getattr(each, "__module__", None) or "").split(".")[0] for each in functions}
    return REGISTRY.get(op.name) is op and modules - OF_LIBRARIES == {"bedplate"}


@functools.cache
def _environment() -> str:
    """The machine, and each file of the package: name, size and time.

    Empty if a file was written since the package was imported: what runs is older than it.
    """
    target = host()
    machine = (target.name, target.triple, target.cpu, target.features, target.vector_bits)
    caches = tuple([cache_bytes(level) for level in (1, 2, 3)])
    sources = []
    for folder, _, names in sorted(os.walk(PACKAGE)):
        for name in sorted(names):
            if name.endswith(".py"):
                status = os.stat(os.path.join(folder, name))
                if status.st_mtime_ns > IMPORTED_NS:
                    return ""
                sources.append((folder, name, status.st_size, status.st_mtime_ns))
    return repr((machine, caches, os.cpu_count(), sources))


def write(key: str, plan: Plan) -> None:
    """Keep a plan, if it can be read again."""
    record = _record(plan)
    if record is not None:
        cache.write(key, json.dumps(record, separators=(",", ":")).encode())


def _record(plan: Plan) -> dict[str, Any] | None:
    kernels: dict[int, int] = {}
    try:
        regions = [[_task_out(t, kernels) for t in tasks] for tasks in plan.native.regions]
        names = [origin_of(address) for address in kernels]
    except KeyError:  # code that is not in the cache
        return None
    sites = [[node.op.name, node.attributes, node.shape, node.dtype.name] for node in plan.sites]
    plain = all(_is_plain(tuple(node.attributes.values())) for node in plan.sites)
    if plan.has_host_tasks or not plain:
        return None
    return {
        "kernels": names, "regions": regions, "slots": plan.native.n_slots, "sites": sites,
        "inputs": plan.n_inputs, "scalars": plan.n_scalars, "outputs": plan.output_bytes,
        "results": [[r.index, r.alias] for r in plan.results], "arena": plan.arena_bytes,
        "granted": plan.granted, "stops": [number for number, _ in plan.stops],
    }  # fmt: skip


def _task_out(task: Task, kernels: dict[int, int]) -> list[Any]:
    if task.parts:
        return [[_task_out(part, kernels) for part in task.parts]]
    code = kernels.setdefault(task.compiled.address, len(kernels))
    words = [_word_out(word) for word in task.words]
    return [
        code, words, task.items, task.name, task.flops, task.nbytes, task.weight_ns, task.wide
    ]  # fmt: skip


def _word_out(word: Any) -> Any:
    if isinstance(word, Slot):
        return [word.index, word.offset_bytes]
    return word.hex() if isinstance(word, float) else int(word)


def read(key: str) -> Plan | None:
    """The plan kept under a key; None if there is none that can be used."""
    content = cache.read(key)
    if content is None:
        return None
    try:
        return _plan(json.loads(content))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, InternalError):
        return None


def _plan(record: dict[str, Any]) -> Plan:
    """raises KeyError if a kernel is gone"""
    codes = [stored_code(str(key), str(symbol)) for key, symbol in record["kernels"]]
    tasks = [[_task_in(each, codes) for each in region] for region in record["regions"]]
    stops: list[Any] = [(number, []) for number in record["stops"]]
    native = NativePlan(tasks, record["slots"], {number - 1: ERRORS for number, _ in stops})
    return Plan(
        native, record["inputs"], record["scalars"], record["outputs"],
        [Result(index, alias) for index, alias in record["results"]], record["arena"],
        [_site_in(*site) for site in record["sites"]], [_launches(region) for region in tasks],
        granted=[(output, source) for output, source in record["granted"]], stops=stops,
    )  # fmt: skip


def _task_in(record: list[Any], codes: Sequence[Stored]) -> Task:
    if len(record) == 1:
        return table_task([_task_in(part, codes) for part in record[0]])
    code, words, items, name, flops, nbytes, weight_ns, wide = record
    return Task(
        codes[code], [_word_in(word) for word in words], items, name, flops, nbytes, weight_ns,
        wide=wide,
    )  # fmt: skip


def _word_in(word: Any) -> Any:
    if type(word) is list:
        index, offset = word
        return Slot(index, offset)
    return float.fromhex(word) if type(word) is str else word


def _site_in(name: str, attributes: dict[str, Any], shape: list[int], dtype: str) -> Node:
    device: Any = None
    return Node(REGISTRY[name], (), attributes, tuple(shape), as_dtype(dtype), device)


def _launches(region: list[Task]) -> list[Launch]:
    """What shows a plan needs of its launches."""
    flat = [part for task in region for part in (task.parts or (task,))]
    return [Launch(None, [], t.items, [], [], t.flops, t.nbytes, t.name) for t in flat]


Planner = Callable[[], Plan]


def found_or_made(key: str | None, make: Planner) -> Plan:
    """A plan from disk, or made and kept there."""
    plan = read(key) if key is not None else None
    if plan is None:
        plan = make()
        if key is not None:
            write(key, plan)
    return plan
