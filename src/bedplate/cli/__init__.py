"""The cli floor."""
