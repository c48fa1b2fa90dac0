"""ELMo's computation: readable, differentiable, the reference for the fast version."""
