"""Analysis of vectors: cosine similarity, word vectors."""
