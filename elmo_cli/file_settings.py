"""How a file is embedded: what is read of the input, what the output is to be."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from elmo_cli.errors import InputError
from elmo_cli.outputs.checkpoints import CHECKPOINT_SECONDS
from elmo_cli.outputs.form import choose_form
from elmo_cli.outputs.output_formats import check_dtype
from elmo_cli.outputs.writer import ActivationsWriter
from elmo_cli.text.records import WHOLE, InputFormat, Shard, check_shard, find_format, parse_shard


@dataclass(frozen=True)
class FileSettings:
    """The settings of `ElmoEmbedder.embed_file` that are not the model's."""

    input_format: str | None = None
    """`text` or `fasta`; by the suffix of the input if not given."""
    skip_errors: bool = False
    """Give records that cannot be read, or are too long for memory, an empty dataset, and name
    them in the attribute `skipped`."""
    shard: str | None = None
    """`3/16` embeds every 16th record from the third."""
    file_format: str | None = None
    """Of the output, one of `output_formats.OUTPUT_FORMATS`; by its suffix if not given, else
    HDF5."""
    layout: str | None = None
    """Of HDF5: `allennlp`, a dataset a record, if not given; or `packed`, one for all."""
    compression: str | None = None
    """Of HDF5, `gzip`, `lzf` or `zstd`."""
    dtype: str = "float32"
    """Of the values in the output, `float32` or `float16`."""
    forget_sentences: bool = False
    """Leave `sentence_to_index` out."""
    use_sentence_keys: bool = False
    """Name datasets by their sentence, not by number."""
    overwrite: bool | None = None
    """True replaces an output that is there; None does so unless `append`. False leaves one of
    the same input and settings as it is, and refuses any other."""
    append: bool = False
    """Where the output is of the first records of this input, add the others."""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """How much work an end without warning can cost."""

    @property
    def replaces(self) -> bool:
        """Whether an output that is there is replaced."""
        return not self.append if self.overwrite is None else self.overwrite

    @property
    def share(self) -> Shard:
        """The part of the input that is embedded."""
        return WHOLE if self.shard is None else parse_shard(self.shard)

    def check(
        self, source: IO[str] | str | Path, output: str | Path, *, pooled: bool, state: str | None
    ) -> InputFormat:
        """Make sure that the settings go together, and with the input and the output.

        Args:
            source: the input.
            output: its path.
            pooled: whether a record gets one vector.
            state: where sentences start; None where that is not known yet.

        Returns:
            The format of the input.

        Raises:
            InputError: there is no such setting, or two of them contradict each other.
            ElmoError: a package for one of them is not installed.
        """
        check_dtype(self.dtype)
        input_format = find_format(source, self.input_format)
        input_format.check_sentence_keys(self.use_sentence_keys)
        if self.shard is not None:
            check_shard(self.shard, state)
        form = choose_form(
            *(output, self.file_format, self.layout, self.compression),
            pooled=pooled,
            use_sentence_keys=self.use_sentence_keys,
        )
        if self.append and self.overwrite:
            raise InputError("--append adds to the output that is there, --overwrite replaces it")
        if self.append and form.file_format != "hdf5":
            raise InputError(f"--append is for HDF5, and the output is {form.file_format}")
        return input_format

    def open_output(
        self, output: str | Path, attributes: Mapping[str, str], input_format: InputFormat
    ) -> ActivationsWriter:
        """Open the output; see `ActivationsWriter`."""
        return ActivationsWriter(
            output,
            attributes,
            dtype=self.dtype,
            forget_sentences=self.forget_sentences or input_format.has_keys,
            use_sentence_keys=self.use_sentence_keys,
            file_format=self.file_format,
            layout=self.layout,
            compression=self.compression,
            overwrite=self.replaces,
            append=self.append,
        )
