"""A file of activations to the other layout, another format, precision or compression."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from elmo_cli.outputs.copied_records import Source, copy_records, records_of
from elmo_cli.outputs.output_formats import STANDARD_OUTPUT, check_dtype, find_output_format
from elmo_cli.outputs.output_path import check_output
from elmo_cli.outputs.reader import open_activations
from elmo_cli.outputs.writer import ActivationsWriter


class ConvertedActivations(NamedTuple):
    """What was written."""

    n_records: int
    dtype: str
    n_bytes: int


def convert_activations(
    source: str | Path,
    target: str | Path,
    dtype: str | None = None,
    *,
    file_format: str | None = None,
    layout: str | None = None,
    compression: str | None = None,
    overwrite: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
) -> ConvertedActivations:
    """Write the activations of a file as another file, a few MB in memory at a time.

    Sentences, keys and attributes are kept. AllenNLP's layout knows the text of the last of
    equal sentences only; the others come out without.

    What was stopped, or killed, goes on from its last checkpoint, where the source is as it was.

    Args:
        source: HDF5 of either layout, as `elmo embed` or `allennlp elmo` wrote it.
        target: appears when it is complete.
        dtype: of the values, `float32` or `float16`; that of `source` if not given.
        file_format: of `target`; by its suffix if not given.
        layout: of HDF5; that of `source` if not given.
        compression: of HDF5, `gzip`, `lzf` or `zstd`.
        overwrite: replace a file that is there.
        should_stop: asked after each record.

    Raises:
        InputError: `source` is no file of activations, or what is asked for contradicts itself.
        OutputError: `target` is there already or cannot be written, or there is an unfinished
            run of other settings or over another source.
        ElmoError: a package for a format or compression is not installed.
        StoppedError: it was told to stop.
    """
    check_dtype(dtype)
    with open_activations(source) as activations:
        check_output(target, overwrite=overwrite, source=source)
        made = {name: str(value) for name, value in activations.attributes.items()}
        for of_source in ("layout", "compression"):
            made.pop(of_source, None)
        dtype = dtype or activations.dtype
        form = find_output_format(target, file_format, pooled="pooling" in made)
        writer = ActivationsWriter(
            target,
            made,
            dtype=dtype,
            forget_sentences=not activations.has_sentences,
            file_format=form,
            layout=layout or (activations.layout if form == "hdf5" else None),
            compression=compression,
            overwrite=overwrite,
        )
        with writer:
            copy_records(
                lambda n_kept: (
                    (activations, record, values)
                    for record, _, values in records_of(activations, n_kept)
                ),
                *(writer, Source(str(source), _mark(source)), {}),
                overwrite=overwrite,
                should_stop=should_stop,
            )
    n_bytes = 0 if str(target) == STANDARD_OUTPUT else Path(target).stat().st_size
    return ConvertedActivations(writer.n_records, dtype, n_bytes)


def _mark(path: str | Path) -> str:
    """What changes with a file: files of AllenNLP do not say what they were made of."""
    status = os.stat(path)
    return f"conversion of {status.st_size} bytes of {status.st_mtime_ns}"
