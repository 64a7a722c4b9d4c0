"""Scaled dot-product attention, its kernels and gradients, and rotary positions."""
