"""Every kernel of every op as PTX, assembled by NVIDIA's `ptxas` where that is installed.

`make test` takes the first sample of each tenth op, for sm_90;
`make sweep` that of every op in all its dtypes for sm_90, one of them for sm_80 and sm_100 too, and
the kernels of a train step. BEDPLATE_PTX=all takes all samples for all three: an hour and more.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bedplate as bp
from bedplate.kernel import bf16, f16, f32
from bedplate.kernel.device.ptx import ARCHITECTURES, make_ptx, ptx_text
from bedplate.olmo import Config, Olmo3
from bedplate.ops.attention import tensor_cores as attention
from bedplate.ops.attention import tensor_cores_reverse as reverse
from bedplate.ops.attention.tiles import Geometry
from bedplate.ops.matmul import tensor_cores
from bedplate.testing.samples import Case, cases

# a sum or product without its rounding, which the driver's compiler may contract
LOOSE = re.compile(r"\b(?:add|sub|mul|mad)\.(?:ftz\.)?f(?:16|32|64)\b")


@cache
def assembler() -> Path | None:
    """Where `ptxas` is, if NVIDIA's package with it is installed."""
    spec = find_spec("nvidia")
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    found = [path for folder in folders for path in Path(folder).glob("*/bin/ptxas")]
    return max(found, default=None)


def kernels_of(values: Iterable[Any]) -> list[Any]:
    """The kernels of the plan that computes values."""
    pending = [value for value in values if value._node.block is None]
    launches = bp.explain(*pending).launches() if pending else []
    return [launch.kernel for launch in launches if launch.kernel is not None]


_done: set[tuple[str, str]] = set()  # (program, architecture): ops share kernels


def check(kernels: list[Any], architectures: Iterable[str], folder: Path) -> None:
    """Make PTX of kernels, and assemble it."""
    for kernel in kernels:
        for name in architectures:
            if (str(kernel.ir), name) in _done:
                continue
            _done.add((str(kernel.ir), name))
            ptx = make_ptx(ptx_text(kernel.ir, "entry", name))
            assert f".target {name}" in ptx and ".entry entry(" in ptx
            assert not LOOSE.search(ptx), LOOSE.search(ptx)
            assert ("mma.sync.aligned.m16n8k16" in ptx) == (" = mma " in str(kernel.ir))
            _assemble(kernel.name, ptx, name, folder)


def _assemble(kernel: str, ptx: str, name: str, folder: Path) -> None:
    program = assembler()
    if program is None:
        return
    path = folder / "kernel.ptx"
    path.write_text(ptx)
    # the code itself is not run here: the quickest level takes a tenth of the time
    command = [program, f"-arch={name}", "-O0", path, "-o", folder / "kernel.cubin"]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, f"{kernel}: {answer.stderr}"


@cache
def by_op() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for case in cases():
        found.setdefault(case.op.name, []).append(case)
    return found


QUICK = 10  # of so many ops `make test` takes one
EVERYTHING = os.environ.get("BEDPLATE_PTX") == "all"


@pytest.mark.parametrize("name", by_op())
def test_the_kernels_of_an_op(name: str, sweep: str, tmp_path: Path) -> None:
    chosen = by_op()[name]
    if sweep != "full" and not EVERYTHING:
        chosen = chosen[:1] if list(by_op()).index(name) % QUICK == 0 else []
    for case in chosen:
        if case.number and not EVERYTHING:
            continue
        every = EVERYTHING or (sweep == "full" and case is chosen[0])
        value = case.run(*[bp.tensor(array) for array in case.arrays()])
        check(kernels_of([value]), ARCHITECTURES if every else ("sm_90",), tmp_path)


def test_the_kernels_of_a_train_step(sweep: str, tmp_path: Path) -> None:
    sizes = {"vocab_size": 96, "d_model": 32, "n_heads": 2, "intermediate_size": 48, "n_layers": 1}
    model = Olmo3(Config(**sizes))
    ids = np.arange(34).reshape(2, 17)
    table = bp.Autograd.current().backward(model.loss(ids[:, :-1], ids[:, 1:]))
    grads = [table[parameter] for parameter in model.parameters()]
    if sweep == "full" or EVERYTHING:
        check(kernels_of(grads), ARCHITECTURES, tmp_path)
    else:
        check(kernels_of(grads)[:1], ("sm_90",), tmp_path)


def tensor_core_kernels() -> list[Any]:
    """Products in every layout, cut and type."""
    kinds = ("along", "across", "general")
    return [
        tensor_cores.make_kernel(
            tensor_cores.Kind(element, out, a, b, (aligned,) * 3, 2, False), cut, None
        )
        for element, out in ((bf16, bf16), (f16, f16), (bf16, f32))
        for cut in (tensor_cores.LARGE, tensor_cores.SMALL, tensor_cores.FLAT)
        for a in kinds
        for b in kinds
        for aligned in (True, False)
    ]


def check_some(kernels: list[Any], sweep: str, folder: Path) -> None:
    """One of them; in `make sweep` one in three for sm_90, one in 27 for the others."""
    if EVERYTHING:
        check(kernels, ARCHITECTURES, folder)
    elif sweep == "full":
        check(kernels[::3], ("sm_90",), folder)
        check(kernels[::27], ARCHITECTURES, folder)
    else:
        check(kernels[2:3], ("sm_90",), folder)


def test_products_by_tensor_cores(sweep: str, tmp_path: Path) -> None:
    check_some(tensor_core_kernels(), sweep, tmp_path)


def test_attention_by_tensor_cores(sweep: str, tmp_path: Path) -> None:
    kernels = [
        make(Geometry(element, width, causal, windowed, counted), aligned)
        for make in (attention.forward_kernel, reverse.queries_kernel, reverse.keys_kernel)
        for element in (bf16, f16)
        for width in (16, 64, 80, attention.LARGEST_HEAD, 5)
        for causal, windowed in ((False, False), (True, False), (True, True))
        for counted in (False, True)
        for aligned in ((True, False) if width % 8 == 0 else (False,))
    ]
    check_some(kernels, sweep, tmp_path)


def test_a_wrong_program_is_refused(tmp_path: Path) -> None:
    """The assembler is asked in earnest."""
    if assembler() is not None:
        with pytest.raises(AssertionError, match="broken"):
            _assemble("broken", ".version 7.0\n.target sm_90\nnonsense", "sm_90", tmp_path)
