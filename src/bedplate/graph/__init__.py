"""The graph floor."""
