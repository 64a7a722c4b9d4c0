"""A NumPy function called for a node: what it gives, and its faults in the user's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bedplate.errors import LinAlgError

# what the callers of LAPACK say -> what to do about it
ADVICE = {
    "Singular matrix": "try bp.linalg.pinv or bp.linalg.lstsq, or add a multiple of the identity",
    "Matrix is not positive definite": "try bp.linalg.eigh, or add a multiple of the identity",
    "did not converge": "look for NaN and infinity in the input",
    "infs or NaNs": "look for NaN and infinity in the input",
}


def call_numpy(
    op: Any, arrays: list[Any], attributes: dict[str, Any], line: Callable[[], str]
) -> tuple[Any, ...]:
    """The values of an op by its NumPy reference, one an output.

    arrays  may show memory that is given back when this raises, so that no traceback keeps them
    line    gives `file:line` of the user's code, for the message
    raises  LinAlgError that names op, inputs and line
    """
    fault: BaseException
    try:
        with np.errstate(all="ignore"):
            result = op.reference(*arrays, **attributes)
        return tuple(result) if op.n_outputs > 1 else (result,)
    except np.linalg.LinAlgError as error:
        fault = _in_words(op, str(error), arrays, line())
    except BaseException as error:
        fault = error.with_traceback(None)
    arrays.clear()
    try:
        raise fault
    finally:
        del fault  # it holds this frame, which must not hold it


def _in_words(op: Any, fault: str, arrays: list[Any], line: str) -> LinAlgError:
    shown = [
        f"  {letter}  {tuple(array.shape)} {array.dtype}"
        for letter, array in zip("abcdefgh", arrays, strict=False)
    ]
    advice = [f"  {text}" for part, text in ADVICE.items() if part in fault]
    return LinAlgError("\n".join([f"{op.name}: {fault}", *shown, f"  used at {line}", *advice]))
