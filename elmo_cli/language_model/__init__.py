"""What the biLM predicts: softmax, scores, perplexity, words."""
