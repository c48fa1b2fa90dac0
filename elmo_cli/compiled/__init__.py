"""Functions in C, for the processor at hand, where they were compiled."""
