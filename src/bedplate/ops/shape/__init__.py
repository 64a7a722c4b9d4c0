"""The same elements in another shape or order, and values made from nothing but a shape."""
