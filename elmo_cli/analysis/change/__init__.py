"""Change of words between two corpora."""
