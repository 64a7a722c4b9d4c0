"""What holds for all tests: the graph is verified after every pass of the compiler."""

from __future__ import annotations

import os

os.environ.setdefault("BEDPLATE_VERIFY", "1")  # read when bedplate is imported
