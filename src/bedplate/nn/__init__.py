"""The nn floor."""
