"""What shows memory, by the names that users know it by: `bp.memory.leaks()` and its like.

It reads every floor, so it stands above them all, in `inspect`; here its functions are imported
when they are first called. What editors and type checkers see is inspection.pyi.
"""

from __future__ import annotations

from bedplate.later import deferred

report = deferred("bedplate.inspect.memory_report", "report")
peak = deferred("bedplate.inspect.memory_report", "peak")
leaks = deferred("bedplate.inspect.leaks", "leaks")
expect_no_leak = deferred("bedplate.inspect.leaks", "expect_no_leak")
