"""TODO errors."""
