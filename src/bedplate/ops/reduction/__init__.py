"""Sums, products, extremes, means and softmax over axes, and how sums are accumulated."""
