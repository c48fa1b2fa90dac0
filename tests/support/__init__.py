"""Helpers of the tests. Nothing here is collected as a test."""
