"""Inspection: what a step costs in time and memory, by kernel, module, kind and source line."""
