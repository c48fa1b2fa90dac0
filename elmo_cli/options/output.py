"""Options of an output: its format, layout, compression and data type."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from elmo_cli.errors.checks import check_choice
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.optional_imports import load_extra, load_pyarrow
from elmo_cli.options.output_format import FORMATS, HDF5, OutputFormat

STANDARD_OUTPUT: Final = "-"


OUTPUT_FORMATS: Final = tuple(FORMATS)


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


@dataclass(frozen=True)
class OutputSettings:
    """Settings of an output: its format, layout, compression and data type."""

    # One of `OUTPUT_FORMATS`. None: chosen by the suffix.
    file_format: str | None = None
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
        return self.file_format or HDF5.name

    @property
    def format(self) -> OutputFormat:
        """Format, and what it can do; without a path it is HDF5."""
        return FORMATS[self.name]

    @property
    def can_resume(self) -> bool:
        """True if an interrupted run resumes from its last checkpoint."""
        return self.format.can_resume

    @property
    def is_packed(self) -> bool:
        """True if HDF5 has one dataset for all records."""
        return self.layout == "packed"

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


def is_hdf5_name(path: str | Path) -> bool:
    """Return whether a path has a suffix of HDF5, or none."""
    return _SUFFIXES.get(Path(path).suffix.lower() or ".h5") == "hdf5"
