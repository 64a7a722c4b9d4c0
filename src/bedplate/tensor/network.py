"""Functions of neural networks that are ops.

Written by tools/namespace.py."""

__all__: list[str] = []
