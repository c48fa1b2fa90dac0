"""Distributed runs: a corpus to a folder of Parquet parts, by any number of workers."""
