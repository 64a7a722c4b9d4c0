"""One file per peer: functions named after the kinds of `kinds.py`, each giving a thing to run.

A function takes (parameters, inputs) and returns a callable without arguments, which does the
work completely, waits for it, and returns its results. `as_arrays(results)` makes NumPy arrays
of them. A kind that a peer does not have is simply absent from its file.
"""
