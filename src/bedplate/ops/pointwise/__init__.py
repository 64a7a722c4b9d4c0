"""Element by element: arithmetic, comparisons, bits, casts, exponentials, rounding, activations."""
