"""Discrete Fourier transforms: the functions of `bedplate.fft`.

Written by tools/namespace.py."""

__all__: list[str] = []
