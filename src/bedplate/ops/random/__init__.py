"""Random values from a counter."""
