"""The commands: each parses, makes one library call and prints."""
