"""The printed plans of a few graphs. `REFRESH_GOLDEN=1 pytest tests/golden` writes them anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

import bedplate as bp
from bedplate.compiler.explain import explain

FOLDER = Path(__file__).parent / "plans"


def leaf(*shape, dtype=np.float32):
    return bp.tensor(np.ones(shape, dtype))


def rms_norm_gradients():
    x, w = leaf(6, 40).requires_grad_(), leaf(40).requires_grad_()
    bp.rms_norm(x, w, 1e-5).backward(leaf(6, 40))
    return x.grad, w.grad


GRAPHS = {
    "chain": lambda: (((leaf(30) + leaf(30)) * 2).relu(),),
    "softmax": lambda: (bp.softmax(leaf(6, 40), axis=-1),),
    "linear": lambda: ((leaf(6, 8) @ leaf(8, 10) + leaf(10)).relu(),),
    "transpose": lambda: (leaf(40, 50).T * 2,),
    "rms_norm_gradients": rms_norm_gradients,
}


@pytest.mark.parametrize("name", GRAPHS)
def test_plan(name):
    explanation = explain(*[tensor._node for tensor in GRAPHS[name]()])
    text = f"{explanation.graph}\n\n{explanation.schedule()}\n"
    text = re.sub(r"   from .*", "", text)
    path = FOLDER / f"{name}.txt"
    if os.environ.get("REFRESH_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), "REFRESH_GOLDEN=1 writes the plans anew"
