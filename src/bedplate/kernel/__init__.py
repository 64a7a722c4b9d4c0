"""The kernel floor."""
