"""A command a file: each parses, makes one library call and prints."""
