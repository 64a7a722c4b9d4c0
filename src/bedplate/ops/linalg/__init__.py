"""Linear algebra: products by axes, norms, factors, systems of equations, eigenvalues."""
