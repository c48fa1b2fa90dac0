"""What ELMo computes: readable, differentiable, the truth."""
