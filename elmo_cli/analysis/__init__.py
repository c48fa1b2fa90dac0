"""Analysis of vectors: neighbours, target words, change, pictures, word vectors."""
