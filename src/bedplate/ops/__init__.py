"""The ops floor."""
