"""Pictures of changes, occurrences and surprisals."""
