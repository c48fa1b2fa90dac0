"""The format of an output: chosen once, from its path and the options."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elmo_cli.errors import InputError, check_choice, load_extra
from elmo_cli.text.pipes import STANDARD_INPUT
from elmo_cli.text.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

STANDARD_OUTPUT: Final = STANDARD_INPUT

OUTPUT_FORMATS: Final = ("hdf5", "jsonl", "npz", "npy", "parquet")
LAYOUTS: Final = ("allennlp", "packed")
"""Layouts of HDF5: a dataset a record, or one dataset for all records."""
COMPRESSIONS: Final = ("gzip", "lzf", "zstd")
"""Compressions of HDF5."""
DTYPES: Final = ("float32", "float16")
"""Data types of the stored values."""
Attributes = Mapping[str, str]
"""What a file says of its making."""
_SUFFIXES: Final = {".h5": "hdf5"} | {f".{name}": name for name in OUTPUT_FORMATS}
_TEXT_SUFFIXES: Final = (".csv", ".tsv", ".txt", ".json")
"""Suffixes of text, which need a format to be named: HDF5 under such a name is a mistake."""
_FORMATS_WITH_TOKENS: Final = ("conllu", "jsonl", "json", "csv", "tsv", "parquet")
"""Input formats whose tokens are stored beside the sentence."""


@dataclass(frozen=True)
class OutputFormat:
    """How an output holds its records; see `choose_output_format`.

    Where they are `pooled`, one vector a record, the values have no axis of tokens.
    """

    name: str = "hdf5"
    layout: str = "allennlp"
    compression: str | None = None
    dtype: str = "float32"
    pooled: bool = False
    forget_sentences: bool = False
    use_sentence_keys: bool = False

    @property
    def can_resume(self) -> bool:
        """Whether an interrupted run resumes from its last checkpoint."""
        return self.name == "hdf5"

    def settings(self) -> dict[str, str]:
        """The attributes of an output that name it."""
        return {
            "layout": self.layout,
            **({"compression": self.compression} if self.compression else {}),
            "dtype": self.dtype,
            "sentence_keys": str(self.use_sentence_keys),
            "forget_sentences": str(self.forget_sentences),
        }


def choose_output_format(
    path: str | Path,
    name: str | None = None,
    layout: str | None = None,
    compression: str | None = None,
    dtype: str = "float32",
    **flags: bool,
) -> OutputFormat:
    """Choose the format of an output; the `flags` are the other fields of `OutputFormat`."""
    check_choice("dtype", dtype, DTYPES)
    suffix = Path(path).suffix.lower()
    if name is None and suffix in _TEXT_SUFFIXES:
        raise InputError(
            f"{path}: vectors are not written as {suffix}. Choose .hdf5, .jsonl, .npz, .npy or "
            ".parquet, or name a format with --format."
        )
    name = name or _SUFFIXES.get(suffix, "hdf5")
    check_choice("format", name, OUTPUT_FORMATS)
    if str(path) == STANDARD_OUTPUT and name != "jsonl":
        raise InputError(f"format {name} cannot go to standard output; --format jsonl can")
    found = OutputFormat(name, layout or "allennlp", compression, dtype, **flags)
    if name == "npy" and not found.pooled:
        raise InputError("format npy requires --pooling: it is one array of a vector a line")
    for option, value, choices in (
        ("layout", layout, LAYOUTS),
        ("compression", compression, COMPRESSIONS),
    ):
        if value is not None:
            check_choice(option, value, choices)
            if name != "hdf5":
                raise InputError(f"--{option} requires HDF5, found the output format {name}")
    if found.use_sentence_keys and (name, found.layout) != ("hdf5", "allennlp"):
        other = "--layout packed" if name == "hdf5" else f"the output format {name}"
        raise InputError(f"--use-sentence-keys requires HDF5 of --layout allennlp, found {other}")
    if compression == "zstd":
        load_extra("compression zstd", "hdf5plugin", "zstd")
    if name == "parquet":
        load_pyarrow()
    return found


def has_unknown_suffix(path: str | Path) -> bool:
    """Whether the path has a suffix of no supported format, as `.dat` or `.gz`."""
    return Path(path).suffix.lower() not in ("", *_SUFFIXES)


def load_pyarrow() -> Any:
    """Import pyarrow; an `ElmoError` if it is not installed."""
    return load_extra("format parquet", "pyarrow", "parquet")


def as_dtype(values: "NDArray[Any]", dtype: str) -> "NDArray[Any]":
    """Values in another data type; torch rounds as numpy does, in a tenth of the time."""
    if values.dtype == dtype:
        return values
    import torch

    rounded: NDArray[Any] = torch.from_numpy(values).to(getattr(torch, dtype)).numpy()
    return rounded


def has_own_tokens(attributes: Mapping[str, Any]) -> bool:
    """Whether the records of an output are not lines whose tokens white space separates."""
    is_cut = any(name in attributes for name in ("tokenizer", "split_sentences", "words"))
    return is_cut or attributes.get("format") in _FORMATS_WITH_TOKENS


class FormatWriter:
    """Adds records to an open file: what the writers share, one for each format."""

    def __init__(self, file: Any, output_format: OutputFormat, attributes: Attributes) -> None:
        self._file, self._format, self._attributes = file, output_format, attributes
        self.keeps_tokens = has_own_tokens(attributes) and not output_format.forget_sentences
        """Whether records have their tokens beside them."""

    def skip(self, number: int, record: Record) -> None:
        """Note a record that the file has already, of an earlier run."""

    def write(self, number: int, record: Record, values: "NDArray[Any]") -> None:
        """Add a record by its number in the input, and its activations: (L, T, W) or (T, W)."""
        raise NotImplementedError

    def flush(self) -> None:
        """Pass on what is held."""

    def finish(self, attributes: Attributes) -> None:
        """Complete the file, with attributes that are known at the end only."""

    def close(self) -> None:
        """Let go of the file."""
