"""Text without formats: the lines of a file or pipe, tokenizers, and their choice."""
