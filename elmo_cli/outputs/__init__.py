"""Activations to files, and files to activations.

Records go into a file as they are computed:

    output_formats.py     which format a name or a suffix asks for (form.py: with its layout)
    output_path.py        whether a file may be written there, and what is there already
    activations.py        the file: complete, or at the checkpoint from which a run goes on
    checkpoints.py        when a run makes one, and what it says
    earlier_run.py        which checkpoint or finished file that is
    checkpointed_file.py, standard_output.py   the bytes under it (checkpoint_log.py)
    finished_output.py    what a complete file says of the run that made it
    output_size.py        how large it will be, and whether there is room

as its layout wants them:

    allennlp_layout.py    HDF5, a dataset a record (sentence_index.py; allennlp_file.py reads it)
    heap_string.py, root_names.py   what is added when HDF5 has closed it (superblock.py)
    packed_layout.py      HDF5, one dataset for all (packed_file.py reads it)
    compression.py        of both
    metadata_cache.py     what HDF5 keeps in memory of a dataset a record
    damage.py             what is checked of files that are read, and what damage is called
    object_header.py      how long attributes claim to be
    text_formats.py       JSON lines, tab-separated values
    exports.py            npz, npy, safetensors, Parquet: made of a packed file

and go out again:

    recognition.py        whether a file is one of activations
    reader.py             activations by number, sentence or key (numbered_texts.py,
                          linked_files.py)
    torch_dataset.py      the same as a data set of torch
    merge.py              the files of all shards to one, copied or linked (shard_records.py,
                          link_shards.py)
    convert_activations.py   to another layout or format
    copied_records.py     what both have in common: they go on where they were stopped
"""
