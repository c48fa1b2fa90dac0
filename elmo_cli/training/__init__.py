"""Text to a model: `elmo train`. `train.py` is the place to start reading."""
