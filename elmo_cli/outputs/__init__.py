"""Activations to files, and files to activations.

formats          the format, layout, compression and data type of an output
writer           the output: new, at a checkpoint, or complete already
resumable_file   the file under HDF5, which goes back to its last checkpoint
hdf5             what both layouts of HDF5 share
allennlp, packed, jsonl, npz, parquet   one format each, written and read
reader           one file or several as one sequence of activations
merge            the outputs of all shards to one file
"""
