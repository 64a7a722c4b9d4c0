"""The olmo floor."""
