"""The tensor floor."""
