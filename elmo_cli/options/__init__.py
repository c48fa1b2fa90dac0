"""Options: each one once, with its type, default, choices, help and check."""
