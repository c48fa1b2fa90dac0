"""Fast inference without gradients. It computes what the modules of `model` compute."""
