"""A corpus to a folder of Parquet parts, by any number of workers; no engine is imported here.

inputs       text, FASTA, JSON lines and Parquet, cut into parts and read again
plan         the parts and the settings of a folder, fixed by its first run
part         one part, by a worker that holds a model
run          all parts that are not there yet, by an engine
ray_engine   Ray
batches      a batch of a pipeline of one's own
"""
