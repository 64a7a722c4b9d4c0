"""The memory floor."""
