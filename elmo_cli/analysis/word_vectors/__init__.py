"""`elmo word-vectors`: one vector per word, in a file."""
