"""Options of an output: its format, layout, compression and data type."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Template, option_of
from elmo_cli.options.fields import check_choices, option
from elmo_cli.options.output_format import (
    HDF5,
    OUTPUT_FORMATS_BY_NAME,
    PARQUET,
    FileFormat,
    OutputFormat,
    format_of_suffix,
)

STANDARD_OUTPUT: Final = "-"
OUTPUT_FORMATS: Final = tuple(OUTPUT_FORMATS_BY_NAME)
OCCURRENCE_FORMATS: Final = (HDF5.name, PARQUET.name)
"""Formats of target words."""
Layout = Literal["allennlp", "packed"]
LAYOUTS: Final = get_args(Layout)
"""Layouts of HDF5: one dataset per record, or one dataset for all records."""
Compression = Literal["gzip", "zstd"]
OUTPUT_COMPRESSIONS: Final = get_args(Compression)
RowKind = Literal["sentences", "tokens"]
ROWS: Final = get_args(RowKind)
Dtype = Literal["float32", "float16"]
DTYPES: Final = get_args(Dtype)
_TABLES: Final = (".csv", ".tsv", ".xls", ".xlsx", ".ods", ".arrow", ".feather")
_DOCUMENTS: Final = (
    *(".txt", ".md", ".json", ".xml", ".html", ".htm", ".conllu", ".fasta"),
    *(".pdf", ".doc", ".docx", ".odt", ".rtf"),
)
_PICTURES: Final = (".png", ".svg", ".jpg", ".jpeg", ".gif")
_ARCHIVES: Final = (".gz", ".bz2", ".xz", ".zst", ".zip", ".tar")
_TENSORS: Final = (".pkl", ".pickle", ".pt", ".pth", ".safetensors", ".vec")
REFUSED_SUFFIXES: Final = _TABLES + _DOCUMENTS + _PICTURES + _ARCHIVES + _TENSORS
"""Suffixes that need --format, because HDF5 with such a name would be a mistake."""


@dataclass(frozen=True)
class OutputSettings:
    """Settings of an output: its format, layout, compression and data type."""

    file_format: FileFormat | None = option(
        None,
        "Format of OUTPUT.",
        default_text="from its suffix, or hdf5 if that is unknown",
        choices=OUTPUT_FORMATS,
        name="--format",
    )
    layout: Layout | None = option(
        None,
        "Layout of HDF5: allennlp (one dataset per line) or packed (one dataset, for "
        "large corpora).",
        default_text="allennlp",
        choices=LAYOUTS,
    )
    compression: Compression | None = option(
        None, "Compression of HDF5.", default_text="none", choices=OUTPUT_COMPRESSIONS
    )
    dtype: Dtype = option("float32", "Data type of the values.", choices=DTYPES)
    forget_sentences: bool = option(False, "Omit sentence_to_index from the file.")
    use_sentence_keys: bool = option(
        False,
        "Name datasets by their sentence instead of their number; requires HDF5 of "
        "{--layout allennlp}.",
    )
    overwrite: bool = option(
        False,
        "Replace OUTPUT, or an unfinished run with other options or another input.",
    )
    rows: RowKind = option(
        "sentences",
        "Rows of Parquet and jsonl: one per sentence, or one per token.",
        choices=ROWS,
    )
    pooled: bool = field(default=False, kw_only=True)
    """True if each record has one vector, so that there is no axis of tokens."""
    column_types: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """Arrow types of the kept columns of the input, as far as they are known."""

    def __post_init__(self) -> None:
        check_choices(self)

    @property
    def name(self) -> FileFormat:
        """Name of the format; without a path it is HDF5."""
        return self.file_format or HDF5.name

    @property
    def format(self) -> OutputFormat:
        """Format, and what it can do; without a path it is HDF5."""
        return OUTPUT_FORMATS_BY_NAME[self.name]

    @property
    def can_resume(self) -> bool:
        """True if an interrupted run resumes from its last checkpoint."""
        return self.format.can_resume

    @property
    def is_packed(self) -> bool:
        """True if HDF5 has one dataset for all records."""
        return self.layout == "packed"

    @property
    def ids_name_datasets(self) -> bool:
        """True if ids name datasets, so that they must be valid and not repeat."""
        return self.format.has_named_arrays and not self.is_packed

    def for_path(self, path: str | Path, *, pooled: bool) -> "OutputSettings":
        """Return the settings with the format of a path, after all checks."""
        suffix = Path(path).suffix.lower()
        if self.file_format is None and suffix in REFUSED_SUFFIXES:
            raise SettingsError(
                f"{path}: vectors are not written as {suffix}",
                remedy="Choose .hdf5, .jsonl, .npz, .npy or .parquet, or name a "
                "format with {--format}.",
            )
        name = self.file_format or (format_of_suffix(path) or HDF5).name
        if str(path) == STANDARD_OUTPUT and not OUTPUT_FORMATS_BY_NAME[name].can_stream:
            raise SettingsError(
                f"-: {name} cannot be written to standard output",
                remedy="Use {--format jsonl}.",
            )
        chosen = replace(self, file_format=name, pooled=pooled)
        chosen._check_hdf5_options()
        chosen._check_rows(path)
        return chosen

    def _check_hdf5_options(self) -> None:
        """Raise a `SettingsError` for an option of HDF5 with another format."""
        if not self.format.has_layouts:
            for option_name in ("layout", "compression"):
                if getattr(self, option_name) is not None:
                    raise SettingsError(
                        "{option}: requires HDF5, found the output format {name}",
                        remedy="Remove {option}, or write a .hdf5 file.",
                        option=option_of(option_name),
                        name=self.name,
                    )
        if self.use_sentence_keys and self.is_packed:
            raise SettingsError(
                Template(
                    "{--use-sentence-keys True}: requires HDF5 of {--layout allennlp}, "
                    "found {--layout packed}"
                )
            )
        if self.use_sentence_keys and not self.format.has_layouts:
            raise SettingsError(
                "{--use-sentence-keys True}: requires HDF5 of {--layout allennlp}, "
                "found the output format {name}",
                name=self.name,
            )

    def _check_rows(self, path: str | Path) -> None:
        """Raise a `SettingsError` for rows that the format or the pooling excludes."""
        if self.format.needs_pooling and not self.pooled:
            raise SettingsError(
                "{path}: {name} holds one vector per sentence",
                remedy="Add {--pooling mean}.",
                path=path,
                name=self.name,
            )
        if self.rows == "tokens" and not self.format.has_rows:
            raise SettingsError(
                "{--rows tokens}: requires Parquet or JSON lines, found {name}",
                remedy="Write a .parquet or .jsonl file.",
                name=self.format.title,
            )
        if self.rows == "tokens" and self.pooled:
            raise SettingsError(
                Template("{--rows tokens}: requires one vector per token"),
                remedy="Remove {--pooling}.",
            )

    def to_attributes(self) -> dict[str, str]:
        """Return the attributes of an output that name its format."""
        attributes: dict[str, str] = {"layout": self.layout or "allennlp"}
        if self.compression is not None:
            attributes["compression"] = self.compression
        attributes["dtype"] = self.dtype
        attributes["sentence_keys"] = str(self.use_sentence_keys)
        attributes["forget_sentences"] = str(self.forget_sentences)
        return attributes


def is_hdf5_name(path: str | Path) -> bool:
    """Return whether a path has a suffix of HDF5, or none."""
    return format_of_suffix(path) is HDF5
