"""Images moved, padded, cut into patches and resampled."""
