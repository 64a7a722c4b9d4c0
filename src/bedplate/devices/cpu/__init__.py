"""The CPU: a thread pool and a plan runner in the kernel language."""

from bedplate.devices.cpu.runner import NativePlan, Slot, Task
from bedplate.devices.cpu.workers import cores, n_workers

__all__ = ["NativePlan", "Slot", "Task", "cores", "n_workers"]
