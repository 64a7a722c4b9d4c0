"""Inspection: what a step costs in time and memory, by kernel, module, kind and source line."""

from bedplate.inspect.profile import profile
from bedplate.inspect.report import KernelRow, MemoryTable, ModuleRow, Report

__all__ = ["KernelRow", "MemoryTable", "ModuleRow", "Report", "profile"]
