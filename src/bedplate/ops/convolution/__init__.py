"""Convolution and its transposition in one to three dimensions."""
