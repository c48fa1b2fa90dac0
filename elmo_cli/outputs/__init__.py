"""Activations to files, and files to activations; docs/architecture.md lists the modules."""
