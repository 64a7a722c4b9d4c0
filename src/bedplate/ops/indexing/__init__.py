"""Elements chosen, written and joined by index or by mask."""
