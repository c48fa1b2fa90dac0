"""Optional packages that an output requires."""

from elmo_cli.errors.messages import Message, Template
from elmo_cli.errors.optional_imports import load_extra, load_pyarrow
from elmo_cli.options.output import OutputSettings


def load_packages(output: OutputSettings) -> None:
    """Import the packages that a format needs, or say how to install them."""
    if output.compression == "zstd":
        load_extra(Message(Template("{--compression zstd}")), "hdf5plugin", "zstd")
    if output.format.needs_pyarrow:
        load_pyarrow()
