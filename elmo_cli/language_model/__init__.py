"""Predictions of the biLM: softmax, scores, perplexity, words."""
