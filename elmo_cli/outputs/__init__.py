"""Activations to files, and files to activations.

formats          the format, layout, compression and data type of an output
writer           the output: new, at a checkpoint, or complete already; shards to one
resumable_file   the file under HDF5, which goes back to its last checkpoint
hdf5             what both layouts of HDF5 share
allennlp, packed   a layout of HDF5 each, written and read
streams          the other formats: JSON lines, npz, npy, Parquet
parts            the folder of Parquet that `elmo distribute` writes
reader           one file or several as one sequence of activations
"""
