"""Cumulative sums, products and extremes along an axis, and the linear recurrence."""
