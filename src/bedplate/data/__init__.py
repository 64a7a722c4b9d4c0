"""The data floor."""
