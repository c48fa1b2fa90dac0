"""Quality of models: word senses, parts of speech, minimal pairs, perplexity."""
