"""Search in files of vectors: for words, and for the neighbours of vectors."""
