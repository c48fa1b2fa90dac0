"""A model's name to its files on disk, and those to a biLM."""
