"""OpenCL: kernels as SPIR-V on any device whose driver takes it, one of them the CPU itself."""

from bedplate.devices.opencl.backend import BACKEND

__all__ = ["BACKEND"]
