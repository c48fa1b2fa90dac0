"""Measurements of speed and memory. `python benchmarks/measure.py` runs them."""
