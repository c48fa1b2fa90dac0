"""Activations to files, and files to activations: a writer per format, and one reader."""
