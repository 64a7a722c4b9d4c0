"""What a case is: one row of the table, a kind of work with parameters.

This file needs NumPy alone: the peers' processes import it too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from benchmarks.indexing import INDEXING
from benchmarks.kinds import KINDS as PLAIN_KINDS
from benchmarks.kinds import Arrays, Parameters
from benchmarks.model_kinds import MODEL_KINDS
from benchmarks.network_kinds import NETWORKS
from benchmarks.spatial import SPATIAL

KINDS = {**PLAIN_KINDS, **INDEXING, **SPATIAL, **MODEL_KINDS, **NETWORKS}
# kinds that are measured in processes that begin anew each time
FIRST_STEP, IMPORT = "first_step", "import_package"


@dataclass(frozen=True)
class Case:
    """One row: a kind with parameters.

    groups      names by which `--only` chooses it, besides parts of its name
    tolerance   largest error allowed, relative to the largest magnitude of the answer
    divisor     reported time = measured time / divisor (calls or ops in one run)
    unit        of what is reported: s or B
    """

    name: str
    kind: str
    parameters: Parameters = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    tolerance: float = 1e-4
    divisor: int = 1
    unit: str = "s"

    def inputs(self) -> Arrays:
        return KINDS[self.kind].inputs(self.parameters, np.random.default_rng(7))

    def answer(self, inputs: Arrays) -> Arrays | None:
        answer = KINDS[self.kind].answer
        if answer is None:
            return None
        wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
        return answer(self.parameters, wide)

    @property
    def is_checked(self) -> bool:
        return KINDS[self.kind].answer is not None

    @property
    def flops(self) -> float:
        return KINDS[self.kind].flops(self.parameters)

    @property
    def moved(self) -> tuple[float, float]:
        return KINDS[self.kind].moved(self.parameters)

    @property
    def tokens(self) -> int:
        """Tokens that one run trains on, reads or writes; 0 if the case is not about tokens."""
        p = self.parameters
        if self.kind == "train_step":
            return p["batch"] * p["time"]
        return {"prefill": p.get("prompt", 0), "decode": p.get("new", 0)}.get(self.kind, 0)

    def suits(self, compiles: bool) -> bool:
        """Whether a peer that compiles (or is eager) may take part."""
        mode = self.parameters.get("calls")
        return mode is None or (mode == "jit") == compiles
