"""Every function of the standard gives what array_api_strict gives: values, dtype, shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.standard import array_calls, elementwise_calls, linear_calls, reduction_calls
from tests.standard.calls import check

import bedplate as bp
from bedplate.devices.registry import BACKENDS

TABLES = {
    "": elementwise_calls.CALLS | array_calls.CALLS | reduction_calls.CALLS,
    "linear ": linear_calls.CALLS,
    "complex ": elementwise_calls.COMPLEX_CALLS,
    "special ": reduction_calls.SPECIAL,
}
DEVICES = st.sampled_from(["cpu", "cpu", "cpu", *sorted(BACKENDS)])
PROPERTIES = [(kind, name) for kind, calls in TABLES.items() for name in sorted(calls)]


@pytest.mark.parametrize(("kind", "name"), PROPERTIES, ids=lambda part: part.strip())
@given(data=st.data())
def test_agrees_with_array_api_strict(kind: str, name: str, data: Any) -> None:
    found = TABLES[kind][name]
    with bp.default_device(data.draw(DEVICES)):
        check(name, data.draw(found.calls), found)
