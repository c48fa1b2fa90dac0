"""Distributed runs: a corpus to a folder of Parquet parts, by any number of workers.

inputs       text, FASTA, JSON lines and Parquet, split into parts and read again
line_reader  lines, counted and hashed
plan         parts and settings of a folder, fixed by its first run
part         one part, by a worker that holds a model
run          all parts that are missing, by an engine
progress     counts of a run, and its note in the folder
finish       the end of a run, which makes a folder complete
status       parts of a folder, and the notes of its runs
ray_engine   Ray, imported on demand
batches      one batch of another pipeline
"""
