"""Fast inference without gradients: the numbers of `model`."""
