"""Formats of outputs: the settings that choose one, its attributes, and the base of its writers.

`OutputSettings` are what a user sets, and `for_path` completes them with what the path says. The
attributes record how a file was made. They are texts in the file, checked when it is opened.
Importing this module loads neither torch nor numpy.
"""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from elmo_cli.errors import InputError, SettingsError, check_choice, load_extra, shown
from elmo_cli.json_form import parse_json
from elmo_cli.text.ids import IdUse
from elmo_cli.text.records import Record, parse_shard
from elmo_cli.text.sources import STANDARD_INPUT

if TYPE_CHECKING:
    from numpy.typing import NDArray

STANDARD_OUTPUT: Final = STANDARD_INPUT

OUTPUT_FORMATS: Final = ("hdf5", "jsonl", "npz", "npy", "parquet")
LAYOUTS: Final = ("allennlp", "packed")
"""Layouts of HDF5: one dataset per record, or one dataset for all records."""
COMPRESSIONS: Final = ("gzip", "zstd")
ROWS: Final = ("sentences", "tokens")
FORMATS_WITH_ROWS: Final = ("jsonl", "parquet")
"""Formats with rows, which have ids and columns of the input."""
DTYPES: Final = ("float32", "float16")
_SUFFIXES: Final = {".h5": "hdf5"} | {f".{name}": name for name in OUTPUT_FORMATS}
_TEXT_SUFFIXES: Final = (".csv", ".tsv", ".txt", ".json", ".xlsx", ".pkl")
"""Suffixes that need --format, because HDF5 with such a name would be a mistake."""

KEYS: Final = (
    "keys"  # attribute of an output with ids, where the input format does not decide
)
Attributes = Mapping[str, str]
_FLAGS: Final = ("forget_sentences", "keys", "normalize", "sentence_keys")
_INTEGERS: Final = (
    "batch_size",
    "input_records",
    "line",
    "n_skipped",
    "records",
    "tokens",
)
# Input formats whose tokens are stored next to the sentence.
_FORMATS_WITH_TOKENS: Final = ("conllu", "jsonl", "json", "csv", "tsv", "parquet")

_OPTIONS: Final = {
    "elmo_cli_version": "version of elmo-cli",
    "format": "input format",
    "input_records": "number of input records",
    "input_sha256": "content of the input",
    "key_column": "--id-column",
    "model_sha256": "weights of the model",
    "normalization": "normalization",
    "options": "options of the model",
    "output format": "--format",
    "sentence_keys": "--use-sentence-keys",
}
"""Names in messages of attributes that are not called like the option that they record."""


@dataclass(frozen=True)
class OutputSettings:
    """Settings of an output: its format, layout, compression and data type."""

    file_format: str | None = (
        None  # One of `OUTPUT_FORMATS`. None: chosen by the suffix.
    )
    layout: str | None = None  # One of `LAYOUTS`, of HDF5. None is AllenNLP's.
    compression: str | None = None  # one of `COMPRESSIONS`, of HDF5
    dtype: str = "float32"  # one of `DTYPES`, of the stored values
    forget_sentences: bool = False
    use_sentence_keys: bool = False
    overwrite: bool = False
    rows: str = "sentences"  # one of `ROWS`, of Parquet and JSON lines
    pooled: bool = field(default=False, kw_only=True)
    """True if each record has one vector, so that activations have no axis of tokens."""
    column_types: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """Arrow types of the kept columns of the input, as far as they are known."""

    def __post_init__(self) -> None:
        check_choice("dtype", self.dtype, DTYPES)
        check_choice("rows", self.rows, ROWS)
        for name, value, choices in (
            ("format", self.file_format, OUTPUT_FORMATS),
            ("layout", self.layout, LAYOUTS),
            ("compression", self.compression, COMPRESSIONS),
        ):
            if value is not None:
                check_choice(name, value, choices)

    @property
    def name(self) -> str:
        """Name of the format; without a path it is HDF5."""
        return self.file_format or "hdf5"

    @property
    def can_resume(self) -> bool:
        """True if an interrupted run resumes from its last checkpoint."""
        return self.name == "hdf5"

    @property
    def is_packed(self) -> bool:
        """True if HDF5 has one dataset for all records."""
        return self.layout == "packed"

    @property
    def id_use(self) -> IdUse:
        """Use of the ids of the input. Parquet and rows of tokens have numbers next to them."""
        if self.name == "npz" or (self.name == "hdf5" and not self.is_packed):
            return "datasets"
        return "rows" if self.name == "jsonl" and self.rows == "sentences" else "all"

    def for_path(self, path: str | Path, *, pooled: bool) -> "OutputSettings":
        """Return the settings with the format of a path, after all checks."""
        suffix = Path(path).suffix.lower()
        if self.file_format is None and suffix in _TEXT_SUFFIXES:
            remedy = "Choose .hdf5, .jsonl, .npz or .parquet, or name a format with --format."
            raise SettingsError(
                f"{path}: vectors are not written as {suffix}. {remedy}"
            )
        name = self.file_format or _SUFFIXES.get(suffix, "hdf5")
        if str(path) == STANDARD_OUTPUT and name != "jsonl":
            raise SettingsError(
                f"format {name} cannot go to standard output. Use --format jsonl."
            )
        for option in ("layout", "compression"):
            if getattr(self, option) is not None and name != "hdf5":
                raise SettingsError(
                    f"--{option} requires HDF5, found the output format {name}"
                )
        chosen = replace(self, file_format=name, pooled=pooled)
        chosen._check_flags()
        if self.compression == "zstd":
            load_extra("compression zstd", "hdf5plugin", "zstd")
        if name == "parquet":
            load_pyarrow()
        return chosen

    def _check_flags(self) -> None:
        name = self.name
        if name == "npy" and not self.pooled:
            raise SettingsError("format npy requires --pooling: one vector per line.")
        if self.rows == "tokens" and name not in FORMATS_WITH_ROWS:
            raise SettingsError(
                f"--rows tokens requires Parquet or JSON lines, found {name}"
            )
        if self.rows == "tokens" and self.pooled:
            raise SettingsError(
                "--rows tokens requires one vector per token. Remove --pooling."
            )
        if self.use_sentence_keys and (name != "hdf5" or self.is_packed):
            other = "--layout packed" if self.is_packed else f"the output format {name}"
            raise SettingsError(
                f"--use-sentence-keys requires HDF5 of --layout allennlp, found {other}"
            )

    def to_attributes(self) -> dict[str, str]:
        """Return the attributes of an output that name its format."""
        return {
            "layout": self.layout or "allennlp",
            **({"compression": self.compression} if self.compression else {}),
            "dtype": self.dtype,
            "sentence_keys": str(self.use_sentence_keys),
            "forget_sentences": str(self.forget_sentences),
        }

    def keeps_tokens(self, attributes: Attributes) -> bool:
        """Return whether an output with these attributes has the tokens next to each record."""
        return has_own_tokens(attributes) and not self.forget_sentences


def is_hdf5_name(path: str | Path) -> bool:
    """Return whether a path has a suffix of HDF5, or none."""
    return _SUFFIXES.get(Path(path).suffix.lower() or ".h5") == "hdf5"


def load_pyarrow() -> Any:
    """Import pyarrow; raise an `ElmoError` if it is missing."""
    return load_extra("format parquet", "pyarrow", "parquet")


def as_dtype(values: "NDArray[Any]", dtype: str) -> "NDArray[Any]":
    """Convert values to a data type. torch rounds like NumPy, in a tenth of the time."""
    if values.dtype == dtype:
        return values
    import torch

    rounded: NDArray[Any] = torch.from_numpy(values).to(getattr(torch, dtype)).numpy()
    return rounded


class RecordFilter:
    """Rule for what a run embeds and writes of each record. The base class keeps everything."""

    attributes: Attributes = MappingProxyType({})
    """Further attributes of the output. A run resumes only where they are equal."""
    writer_type: "type[FormatWriter] | None" = None
    """Writer that replaces the output format's writer. It cannot resume."""

    def begin(self) -> None:
        """Prepare to see all records. The method is called again if a run starts over."""

    def prepare(self, record: Record) -> Record:
        """Return the record to embed. The original record has been hashed already."""
        return record

    def select(self, record: Record, activations: "NDArray[Any]") -> "NDArray[Any]":
        """Return the activations of a prepared record that are written."""
        return activations

    def finish(self) -> None:
        """Raise an `ElmoError` if the output should not be kept. All records have been seen."""


def option_name(attribute: str) -> str:
    """Return the option that an attribute records, for a message."""
    return _OPTIONS.get(attribute, "--" + attribute.replace("_", "-"))


class FormatWriter:
    """Base of the writers, one per format, which add records to an open file."""

    def __init__(
        self, file: Any, output_format: OutputSettings, attributes: Attributes
    ) -> None:
        self._file, self._format, self._attributes = file, output_format, attributes

    def skip(self, number: int, record: Record) -> None:
        """Pass over a record that the file contains already, from an earlier run."""

    def write(self, number: int, record: Record, values: "NDArray[Any]") -> None:
        """Add a record, by its number from 0, and its values (L, T, W) or (T, W).

        The values may share memory with others: a writer copies what it keeps.
        """
        raise NotImplementedError

    def describe(self, example: Record, values: "NDArray[Any]") -> None:
        """Take a record and its values, for a format whose columns and types a file always has."""

    def flush(self) -> None:
        """Write everything that is buffered."""

    def finish(self, attributes: Attributes) -> None:
        """Complete the file, with attributes that are known only at the end."""

    def publish(self, rename: Callable[[], object]) -> None:
        """Give the finished file its name by calling `rename`."""
        rename()

    def close(self) -> None:
        """Close the file."""


_TEXT: Final = ("a text", lambda text: True)
_COUNT: Final = ("a number", re.compile(r"[0-9]{1,18}").fullmatch)
_LAYERS: Final = re.compile(r"[a-z_0-9]+|[0-9]{1,4}(,[0-9]{1,4})+")
_CHECKS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    **dict.fromkeys(
        ("model", "model_sha256", "state", "pooling", "format", "layout"), _TEXT
    ),
    **dict.fromkeys(
        ("compression", "sentence_keys", "tokenizer", "normalization"), _TEXT
    ),
    **dict.fromkeys(("records", "input_records"), _COUNT),
    "layers": ("a choice of layers", _LAYERS.fullmatch),
    "mix": (
        "numbers",
        lambda text: all(map(math.isfinite, map(float, text.split(",")))),
    ),
    "gamma": ("a number", lambda text: math.isfinite(float(text))),
    "shard": ("a shard such as 3/16", parse_shard),
    "words": (
        "JSON of words",
        lambda text: parse_json(text, dict[str, str], "words") is not None,
    ),
}
"""Description of valid texts, and a function that returns a false value, or raises a `ValueError`,
for an invalid text."""


def check_attributes(attributes: Mapping[str, Any], path: object) -> None:
    """Raise an `InputError` for a known attribute of another form than a run writes."""
    names = [
        *attributes,
        *(["gamma"] if "mix" in attributes else []),
    ]  # A mix needs it.
    for name in filter(_CHECKS.__contains__, names):
        value, (expected, accepts) = attributes.get(name), _CHECKS[name]
        with suppress(ValueError):  # An `InputError` is one.
            if isinstance(value, str) and accepts(value):
                continue
        found = "none" if value is None else " ".join(shown(repr(value)).split())
        raise InputError(
            f"{path}: the file is damaged: attribute {name}: expected {expected}, found {found}"
        )


def has_own_tokens(attributes: Mapping[str, Any]) -> bool:
    """Return whether the tokens of an output can differ from its text split at white space."""
    is_tokenized = any(
        name in attributes for name in ("tokenizer", "split_sentences", "words")
    )
    return is_tokenized or attributes.get("format") in _FORMATS_WITH_TOKENS


def as_text(attributes: Mapping[str, object]) -> dict[str, str]:
    """Return attributes as files store them."""
    return {name: str(value) for name, value in attributes.items()}


def with_types(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes of a file with the types that `as_text` has removed."""
    return {name: _with_type(name, value) for name, value in attributes.items()}


def _with_type(name: str, value: Any) -> Any:
    if not isinstance(value, str):  # Other programs' files may have values of NumPy.
        return value.item() if getattr(value, "shape", None) == () else value
    with suppress(ValueError):
        if name in _FLAGS and value in ("True", "False"):
            return value == "True"
        if name in _INTEGERS:
            return int(value)
        if name == "gamma":
            return float(value)
    return value
