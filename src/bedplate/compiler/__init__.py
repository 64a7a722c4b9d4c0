"""The compiler floor."""
