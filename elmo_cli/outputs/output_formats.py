"""Formats of outputs: the settings that choose one, its attributes, and the base of its writers.

`OutputSettings` are what a user sets, and `for_path` completes them with what the path says. The
attributes record how a file was made. They are texts in the file, checked when it is opened.
Importing this module loads neither torch nor numpy.
"""

from typing import TYPE_CHECKING, Any

from elmo_cli.options.output import OutputSettings
from elmo_cli.outputs.attributes import Attributes, has_own_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray


def names_datasets_by_id(output: OutputSettings) -> bool:
    """Return whether ids name datasets, so that they must be valid and not repeat."""
    return output.name == "npz" or (output.name == "hdf5" and not output.is_packed)


def shows_repeated_ids(output: OutputSettings) -> bool:
    """Return whether records whose ids may repeat get their number as `line`.

    Parquet and rows of tokens have numbers next to the ids anyway.
    """
    return output.name == "jsonl" and output.rows == "sentences"


def keeps_tokens(output: OutputSettings, attributes: Attributes) -> bool:
    """Return whether an output with these attributes has the tokens next to each record."""
    return has_own_tokens(attributes) and not output.forget_sentences


def as_dtype(values: "NDArray[Any]", dtype: str) -> "NDArray[Any]":
    """Convert values to a data type. torch rounds like NumPy, in a tenth of the time."""
    if values.dtype == dtype:
        return values
    import torch

    rounded: NDArray[Any] = torch.from_numpy(values).to(getattr(torch, dtype)).numpy()
    return rounded
