"""Layer, RMS, batch, group and instance normalisation."""
