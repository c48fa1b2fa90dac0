"""Characters on disk to sentences."""
