"""What an output file is to be: its format, and how records lie in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from numpy.typing import NDArray

from elmo_cli.errors import InputError
from elmo_cli.outputs.allennlp_layout import AllenNlpLayout
from elmo_cli.outputs.compression import dataset_settings
from elmo_cli.outputs.exports import check_export
from elmo_cli.outputs.output_formats import TEXT_FORMATS, find_output_format
from elmo_cli.outputs.packed_layout import PackedLayout
from elmo_cli.outputs.text_formats import TextLayout
from elmo_cli.text.lines import Record

LAYOUTS: Final = ("allennlp", "packed")


class Layout(Protocol):
    """How records lie in a file. The file holds its last checkpoint when it is opened."""

    def open(self, sink: Any, attributes: Mapping[str, str], n_records: int) -> None:
        """Begin the file, or go on with it where the sink has a state, after so many records."""

    def skip(self, number: int, record: Record) -> None:
        """Take note of a record that the file has already."""

    def write(self, number: int, record: Record, values: NDArray[Any]) -> None:
        """Add the next record."""

    def flush(self) -> None:
        """Pass on to the sink all that was written."""

    def finish(self, attributes: Mapping[str, str]) -> None:
        """Add what belongs at the end, these attributes among it, and let go of the sink."""

    def close(self) -> None:
        """Let go of the sink after an error; also after `finish`."""


class Form(NamedTuple):
    """What a file is to be; see `choose_form`."""

    file_format: str
    layout: str
    compression: str | None
    pooled: bool
    forget_sentences: bool
    use_sentence_keys: bool

    @property
    def is_exported(self) -> bool:
        """Whether the file is made of a packed one, in the end."""
        return self.file_format not in (*TEXT_FORMATS, "hdf5")

    @property
    def is_packed(self) -> bool:
        """Whether all records lie in one dataset while it is written."""
        return self.is_exported or (self.file_format == "hdf5" and self.layout == "packed")

    def open(self) -> Layout:
        """How its records lie while it is written."""
        sentences = {"forget_sentences": self.forget_sentences}
        if self.file_format in TEXT_FORMATS:
            return TextLayout(self.file_format, pooled=self.pooled, **sentences)
        if self.is_packed:
            return PackedLayout(self.compression, pooled=self.pooled, **sentences)
        return AllenNlpLayout(
            self.compression, use_sentence_keys=self.use_sentence_keys, **sentences
        )


def choose_form(
    path: str | Path,
    file_format: str | None = None,
    layout: str | None = None,
    compression: str | None = None,
    *,
    pooled: bool = False,
    forget_sentences: bool = False,
    use_sentence_keys: bool = False,
) -> Form:
    """What an output file is to be; the arguments are those of `ActivationsWriter`.

    Raises:
        InputError: there is no such form, or its parts do not go together.
        ElmoError: a package for it is not installed.
    """
    form = find_output_format(path, file_format, pooled=pooled)
    if layout is not None and layout not in LAYOUTS:
        raise InputError(f"layout {layout!r}: expected {' or '.join(LAYOUTS)}")
    for option, given in (("--layout", layout), ("--compression", compression)):
        if form != "hdf5" and given is not None:
            raise InputError(f"{option} is for HDF5, and the output is {form}")
    if use_sentence_keys and (form, layout or "allennlp") != ("hdf5", "allennlp"):
        found = "--layout packed" if form == "hdf5" else form
        raise InputError(
            f"--use-sentence-keys names datasets of HDF5, which --layout allennlp has; the output "
            f"is {found}"
        )
    dataset_settings(compression)
    check_export(form)
    return Form(
        form, layout or "allennlp", compression, pooled, forget_sentences, use_sentence_keys
    )
