"""`make test` runs one in six of the kernels of the language here, `make sweep` all of them."""

from __future__ import annotations

import zlib

import pytest
from tests.conftest import SWEEP

ONE_IN = 6


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = [item for item in items if item.path.name == "test_language.py"]
    for item in here:
        item.add_marker(pytest.mark.sweep)
    if SWEEP == "full":
        return
    left = {item for item in here if zlib.crc32(item.name.encode()) % ONE_IN}
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=list(left))
