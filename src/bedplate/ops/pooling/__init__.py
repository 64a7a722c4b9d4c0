"""Pooling in one to three dimensions."""
