"""Complex numbers: their parts, and how each operation on them is computed with real ones."""
