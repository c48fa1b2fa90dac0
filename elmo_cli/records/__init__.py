"""TODO records."""
