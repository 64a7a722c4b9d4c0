"""hooks: where a profile listens to the floors below it.

Nobody listens by default: each hook is None, and a place that would tell something pays for one
look at it, 2 to 3 ns. The floor `inspect` sets them while a profile runs. A place reads its hook
once, and calls what it read: another thread may end the profile in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Hooks:
    """Functions that are called when something happens, or None.

    site       (frame) -> site: in place of the user's line that `user_site` would find
    gradient   (entry, gradients): the tape has made the gradients of an entry's inputs
    plan_key   (signature) -> what keeps its plan apart from others of the same structure;
               also tells that a plan is looked up
    planned    (plan, regions, buffers): a plan was made; regions of launches, buffers by node
    run        (native plan, slots, first, end, limit): in place of its native call
    host       (task, begin_ns, end_ns): a NumPy function was called by a plan
    compiled   (name, begin_ns, end_ns): a kernel was made ready, from a cache or by LLVM
    together   (begin_ns, end_ns): so were all kernels of a plan
    generated  (symbol, begin_ns, end_ns): LLVM made its machine code
    """

    __slots__ = (
        "compiled", "generated", "gradient", "host", "plan_key", "planned", "run", "site",
        "together",
    )  # fmt: skip

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Listen to nothing."""
        self.site: Callable[[Any], Any] | None = None
        self.gradient: Callable[[Any, Any], None] | None = None
        self.plan_key: Callable[[Any], Any] | None = None
        self.planned: Callable[[Any, Any, Any], None] | None = None
        self.run: Callable[[Any, int, int, int, int], None] | None = None
        self.host: Callable[[Any, int, int], None] | None = None
        self.compiled: Callable[[str, int, int], None] | None = None
        self.together: Callable[[int, int], None] | None = None
        self.generated: Callable[[str, int, int], None] | None = None


hooks = Hooks()
