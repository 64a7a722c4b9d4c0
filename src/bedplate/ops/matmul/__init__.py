"""The matrix product: its record, its kernels and how the work is cut."""
