"""Linear algebra: the functions of `bedplate.linalg`.

Written by tools/namespace.py."""

__all__: list[str] = []
