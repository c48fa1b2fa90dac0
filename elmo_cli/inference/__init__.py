"""The same numbers as `model`, fast and without gradients."""
