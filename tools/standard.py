"""Print how much of the Array API standard there is: functions, differentiable ones, special cases.

    python tools/standard.py          the counts
    python tools/standard.py --list   each function, and what its gradient is

The names are those of array_api_strict, the calls those of the property tests, the special cases
those of `tests/standard/special_cases.py`. Whether a function is differentiable is found out by
calling it: gradients are asked for wherever an argument is floating point.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.standard import special_cases  # noqa: E402
from tests.standard.calls import Call, lowered  # noqa: E402
from tests.standard.test_properties import TABLES  # noqa: E402
from tests.standard.test_signatures import FUNCTIONS, found  # noqa: E402

import bedplate as bp  # noqa: E402
from bedplate.errors import GradientError, LinAlgError  # noqa: E402

SMOOTH, FLAT, NONE = "differentiable", "constant almost everywhere", "no gradient"
EXAMPLES = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def leaves(value: Any) -> Iterator[bp.Tensor]:
    """The tensors in a value that can have a gradient."""
    if isinstance(value, bp.Tensor):
        if value.dtype.kind in "fc":
            yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)


def slope(name: str, call: Call) -> str:
    """What the gradient of one call is."""
    arguments = [lowered(value, bp) for value in call.arguments]
    named = {key: lowered(value, bp) for key, value in call.keywords.items()}
    inputs = [leaf.requires_grad_() for leaf in leaves([*arguments, *named.values()])]
    outputs = [out for out in leaves(found(bp, name)(*arguments, **named)) if out.requires_grad]
    if not outputs:
        return NONE
    try:
        for out in outputs:
            out.backward(bp.ones_like(out), retain_graph=True)
        grads = [leaf.grad.numpy() for leaf in inputs if leaf.grad is not None]
    except (GradientError, LinAlgError):  # none, or none at this matrix
        return NONE
    return SMOOTH if any(np.any(grad) for grad in grads) else FLAT


def kind(name: str) -> str:
    """What the gradient of a function is: the most that any example has."""
    seen: set[str] = set()
    for calls in [table[name].calls for table in TABLES.values() if name in table]:

        @EXAMPLES
        @given(calls)
        def look(call: Call) -> None:
            if SMOOTH not in seen:
                seen.add(slope(name, call))

        look()
    return next((word for word in (SMOOTH, FLAT) if word in seen), NONE)


def main() -> None:
    """Print the counts."""
    kinds = {name: kind(name) for name in FUNCTIONS}
    if "--list" in sys.argv[1:]:
        for name, word in kinds.items():
            print(f"{name:28} {word}")
    extensions = sum("." in name for name in FUNCTIONS)
    print(f"Array API {bp.__array_api_version__}")
    print(f"  {len(FUNCTIONS)} functions, {extensions} of them in linalg and fft")
    for word in (SMOOTH, FLAT, NONE):
        print(f"  {list(kinds.values()).count(word)} {word}")
    print(f"  {special_cases.count()} special cases tested, in every floating point dtype")


if __name__ == "__main__":
    main()
