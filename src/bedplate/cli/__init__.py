"""The command line: train, generate, doctor, profile."""
