"""Files that a run can be killed at any time while it writes them, and continue later."""
