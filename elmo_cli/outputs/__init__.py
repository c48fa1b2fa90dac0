"""Files of activations: a writer per format, and one reader."""
