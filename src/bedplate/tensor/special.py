"""Special functions: the functions of `bedplate.special`.

Written by tools/namespace.py."""

__all__: list[str] = []
