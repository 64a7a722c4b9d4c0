"""Allocation traces of real programs, and what the memory tiers save on them."""
