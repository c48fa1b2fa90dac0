"""Pretrained models: from a name to files on disk, and from files to a biLM."""
