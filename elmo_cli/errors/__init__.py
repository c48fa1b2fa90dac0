"""Errors that a user can cause, how they are worded, and checks that raise them."""
