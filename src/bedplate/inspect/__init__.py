"""Inspection: what a step costs in time and memory, by kernel, module, kind and source line;
and memory that leaks, with who holds it.
"""

from bedplate.inspect.leaks import Leaked, LeakReport
from bedplate.inspect.memory_report import MemoryReport, MemoryRow, Peak
from bedplate.inspect.profile import profile
from bedplate.inspect.report import KernelRow, MemoryTable, ModuleRow, Report

__all__ = [
    "KernelRow",
    "LeakReport",
    "Leaked",
    "MemoryReport",
    "MemoryRow",
    "MemoryTable",
    "ModuleRow",
    "Peak",
    "Report",
    "profile",
]
