"""The optim floor."""
