"""`bedplate doctor`: what this machine has, what is missing and how to get it, and a self-test."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import bedplate as bp
from bedplate.config import config
from bedplate.devices.cpu.runner import n_workers
from bedplate.devices.registry import backends, broken
from bedplate.kernel.target import host
from bedplate.kernel.types import f32, f64

HELP = """Look at this machine: versions, processor, devices, kernel cache, and a self-test.

Each thing that is missing comes with the command that installs it. Exit status 1 if the
self-test fails.

\b
Example:
  bedplate doctor
"""
DISTRIBUTION = "bedplate"
# extras that only serve the development of Bedplate itself
DEVELOPMENT = ("dev", "peers", "bench")
TELLING_FEATURES = (
    "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512bf16", "avx512fp16",
    "avx512vnni", "amx-tile", "neon", "sve", "bf16", "dotprod",
)  # fmt: skip


def doctor() -> None:
    console = Console(soft_wrap=True)
    for title, rows in (
        ("versions", versions()),
        ("processor", processor()),
        ("devices", devices()),
        ("kernel cache", cache()),
        ("optional parts", optional_parts()),
    ):
        _print_section(console, title, rows)
    results = [run_check(check) for check in CHECKS]
    _print_section(console, "self-test", [(r.name, r.text) for r in results])
    if not all(result.passed for result in results):
        print("bedplate: the self-test failed", file=sys.stderr)
        raise typer.Exit(1)
    console.print("everything works")


doctor.__doc__ = HELP


def _print_section(console: Console, title: str, rows: list[tuple[str, str]]) -> None:
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(f"  {name}", Text(value))  # brackets are no markup here
    console.print(title, style="bold")
    console.print(table)


def versions() -> list[tuple[str, str]]:
    return [
        ("bedplate", importlib.metadata.version(DISTRIBUTION)),
        ("python", f"{platform.python_version()} ({sys.executable})"),
        ("numpy", np.__version__),
        ("llvmlite", f"{llvmlite.__version__} (LLVM {'.'.join(map(str, llvm.llvm_version_info))})"),
        ("system", f"{platform.system()} {platform.machine()}"),
    ]


def processor() -> list[tuple[str, str]]:
    found = llvm.get_host_cpu_features()
    features = [name for name in TELLING_FEATURES if found.get(name)]
    target = host()
    return [
        ("model", target.cpu),
        ("vectors", f"{target.lanes(f32)} float32 or {target.lanes(f64)} float64 in a register"),
        ("features", " ".join(features) or "none that matter here"),
        ("threads", f"{n_workers()} (BEDPLATE_NUM_THREADS changes it)"),
    ]


def devices() -> list[tuple[str, str]]:
    found = [
        (name, f"{backend.count()} x {backend.description}") for name, backend in backends().items()
    ]
    return found + [(name, f"cannot be loaded: {why}") for name, why in broken().items()]


def cache() -> list[tuple[str, str]]:
    """Where compiled kernels are kept, how full it is, whether it can be written."""
    if not config.cache_dir:
        return [("folder", "none: kernels are compiled anew in each process")]
    folder = Path(config.cache_dir)
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    parent = next(path for path in (folder, *folder.parents) if path.exists())
    writable = os.access(parent, os.W_OK)
    state = (
        "writable" if writable else f"NOT writable; set BEDPLATE_CACHE_DIR or chmod u+w {parent}"
    )
    return [
        ("folder", f"{folder} ({state})"),
        ("holds", f"{len(sizes)} files, {sum(sizes) / 2**20:.1f} of {config.cache_size} MiB"),
    ]


def requirements_by_extra() -> dict[str, list[str]]:
    """The package names that each extra of this distribution asks for, from its metadata."""
    found: dict[str, list[str]] = {}
    for requirement in importlib.metadata.requires(DISTRIBUTION) or []:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        package = re.match(r"[\w.-]+", requirement)
        if extra and package and extra[1] not in DEVELOPMENT:
            found.setdefault(extra[1], []).append(package[0])
    return found


def optional_parts() -> list[tuple[str, str]]:
    return [(extra, _extra_state(extra, names)) for extra, names in requirements_by_extra().items()]


def _extra_state(extra: str, packages: list[str]) -> str:
    missing = [name for name in packages if not _installed(name)]
    if not missing:
        return f"installed ({', '.join(packages)})"
    python = shlex.quote(sys.executable)  # this one: the extra belongs beside this Bedplate
    return f"missing {', '.join(missing)}: {python} -m pip install 'bedplate[{extra}]'"


def _installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@dataclass(frozen=True)
class CheckResult:
    name: str
    passed: bool
    text: str


def _check_elementwise() -> tuple[np.ndarray, np.ndarray]:
    """element-wise kernel"""
    x = np.linspace(-4, 4, 1000, dtype=np.float32)
    return (bp.tensor(x) * 2 + 1).relu().numpy(), np.maximum(x * 2 + 1, 0)


def _check_matmul() -> tuple[np.ndarray, np.ndarray]:
    """matrix product"""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((67, 67), np.float32) for _ in range(2))
    return (bp.tensor(a) @ bp.tensor(b)).numpy(), a.astype(np.float64) @ b


def _check_gradient() -> tuple[np.ndarray, np.ndarray]:
    """gradient"""
    values = np.linspace(-2, 2, 30, dtype=np.float32)
    x = bp.tensor(values, requires_grad=True)
    (x * x * x).sum().backward()
    grad = x.grad
    return np.empty(0) if grad is None else grad.numpy(), 3 * values**2


def _check_threads() -> tuple[np.ndarray, np.ndarray]:
    """same bits on 1 and on all threads"""
    x = bp.tensor(np.random.default_rng(1).standard_normal((512, 512), np.float32))
    with config(threads=False):
        alone = x.exp().sum(axis=1).numpy()
    return x.exp().sum(axis=1).numpy(), alone


Check = Callable[[], tuple[np.ndarray, np.ndarray]]
CHECKS: tuple[Check, ...] = (_check_elementwise, _check_matmul, _check_gradient, _check_threads)


def run_check(check: Check) -> CheckResult:
    """Run one check; whatever it raises is its result."""
    name = (check.__doc__ or check.__name__).strip()
    start = time.perf_counter()
    try:
        found, expected = check()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    except Exception as error:  # a self-test reports every kind of failure
        return CheckResult(name, False, f"FAILED: {type(error).__name__}: {error}".strip())
    return CheckResult(name, True, f"passed in {(time.perf_counter() - start) * 1e3:.0f} ms")
