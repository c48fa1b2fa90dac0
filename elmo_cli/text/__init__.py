"""Text: from the bytes of a file to records, which are sentences of tokens."""
