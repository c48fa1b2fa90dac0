"""Runs over a file: plan, read, embed, write, checkpoint."""
