"""The devices floor."""
