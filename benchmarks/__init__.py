"""Bedplate beside its peers: the same work, in one interleaved run, against the machine's limits.

    python -m benchmarks --only spine --json result.json

Read `cases.py` for what is measured, `harness.py` for how.
"""
