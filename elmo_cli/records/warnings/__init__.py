"""Warnings about inputs that are probably not as the user wants."""
