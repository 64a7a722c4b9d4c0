"""NVIDIA's GPUs: the same kernels as PTX, compiled and run by NVIDIA's driver."""

from bedplate.devices.cuda.backend import BACKEND

__all__ = ["BACKEND"]
