"""Analysis of vectors: similarity, neighbours, target words, change, pictures, word vectors."""
