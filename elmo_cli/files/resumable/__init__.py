"""TODO files/resumable."""
