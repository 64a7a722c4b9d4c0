"""The autograd floor."""
