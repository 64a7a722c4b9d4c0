"""Bedplate: the foundation layer under the OLMo 3 language models."""
