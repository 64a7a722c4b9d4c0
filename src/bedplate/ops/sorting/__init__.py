"""Sorting, selection, search in sorted rows, sets and counts."""
