"""Special functions, element by element: error, gamma and Bessel functions and their kin."""
