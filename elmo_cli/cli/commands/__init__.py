"""Commands, one per file: each parses, makes one library call and prints."""
