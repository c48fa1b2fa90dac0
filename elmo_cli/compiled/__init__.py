"""Functions in C, compiled for this processor, and the linear layers that use them."""
