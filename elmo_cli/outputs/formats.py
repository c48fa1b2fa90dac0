"""The format of an output: chosen once, from its path and the options."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elmo_cli.errors import InputError, check_choice, load_extra
from elmo_cli.text.lines import STANDARD_INPUT, Record
from elmo_cli.text.records import LINE

if TYPE_CHECKING:
    from numpy.typing import NDArray

STANDARD_OUTPUT: Final = STANDARD_INPUT

LAYOUTS: Final = ("allennlp", "packed")
"""Layouts of HDF5: a dataset a record, or one dataset for all records."""
COMPRESSIONS: Final = ("gzip", "lzf", "zstd")
"""Compressions of HDF5."""
DTYPES: Final = ("float32", "float16")
"""Data types of the stored values."""
SUFFIXES: Final = {
    "hdf5": (".hdf5", ".h5"),
    "jsonl": (".jsonl",),
    "npz": (".npz",),
    "npy": (".npy",),
    "parquet": (".parquet",),
}
OUTPUT_FORMATS: Final = tuple(SUFFIXES)


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

    @property
    def value_bytes(self) -> int:
        """About how many bytes a value takes, before compression."""
        return 14 if self.name == "jsonl" else int(self.dtype.removeprefix("float")) // 8

    def settings(self) -> dict[str, str]:
        """The attributes of an output that name it."""
        return {
            "layout": self.layout,
            **({"compression": self.compression} if self.compression else {}),
            "dtype": self.dtype,
            "sentence_keys": str(self.use_sentence_keys),
            "forget_sentences": str(self.forget_sentences),
        }


def has_own_tokens(attributes: Mapping[str, Any]) -> bool:
    """Whether the records of an output are not lines whose tokens white space separates."""
    is_cut = any(name in attributes for name in ("tokenizer", "split_sentences", "words"))
    return is_cut or attributes.get("format") in ("conllu", "jsonl")


def format_of(settings: Mapping[str, str]) -> OutputFormat:
    """The format of an HDF5 output, by its attributes: see `OutputFormat.settings`."""
    return OutputFormat(
        layout=settings["layout"],
        compression=settings.get("compression"),
        dtype=settings["dtype"],
        pooled="pooling" in settings,
        forget_sentences=settings["forget_sentences"] == "True",
        use_sentence_keys=settings["sentence_keys"] == "True",
    )


def choose_output_format(
    path: str | Path,
    name: str | None = None,
    layout: str | None = None,
    compression: str | None = None,
    dtype: str = "float32",
    *,
    pooled: bool = False,
    forget_sentences: bool = False,
    use_sentence_keys: bool = False,
) -> OutputFormat:
    """Choose the format of an output.

    Args:
        path: of the output, or `-` for standard output.
        name: one of `OUTPUT_FORMATS`; by the suffix of the path if not given, else HDF5.
        layout: one of `LAYOUTS`, of HDF5; `allennlp` if not given.
        compression: one of `COMPRESSIONS`, of HDF5.
        dtype: one of `DTYPES`.
        pooled: one vector a record.
        forget_sentences: leave the sentences out.
        use_sentence_keys: name datasets by their sentence, not by key or number.

    Raises:
        InputError: there is no such format, or its parts contradict each other.
        ElmoError: a package for it is not installed.
    """
    check_choice("dtype", dtype, DTYPES)
    if name is not None:
        check_choice("format", name, OUTPUT_FORMATS)
    suffix = Path(path).suffix.lower()
    name = name or next((format_ for format_, known in SUFFIXES.items() if suffix in known), "hdf5")
    if str(path) == STANDARD_OUTPUT and name != "jsonl":
        raise InputError(f"format {name} cannot go to standard output; --format jsonl can")
    if name == "npy" and not pooled:
        raise InputError("format npy requires --pooling: it is one array of a vector a line")
    for option, value, choices in (
        ("layout", layout, LAYOUTS),
        ("compression", compression, COMPRESSIONS),
    ):
        if value is not None:
            check_choice(option, value, choices)
            if name != "hdf5":
                raise InputError(f"--{option} requires HDF5, found the output format {name}")
    if use_sentence_keys and (name, layout or "allennlp") != ("hdf5", "allennlp"):
        found = "--layout packed" if name == "hdf5" else f"the output format {name}"
        raise InputError(f"--use-sentence-keys requires HDF5 of --layout allennlp, found {found}")
    if compression == "zstd":
        load_extra("compression zstd", "hdf5plugin", "zstd")
    if name == "parquet":
        load_pyarrow()
    return OutputFormat(
        *(name, layout or "allennlp", compression, dtype),
        pooled=pooled,
        forget_sentences=forget_sentences,
        use_sentence_keys=use_sentence_keys,
    )


def has_unknown_suffix(path: str | Path) -> bool:
    """Whether the path has a suffix of no supported format, as `.csv` or `.gz`."""
    suffix = Path(path).suffix.lower()
    return suffix != "" and not any(suffix in known for known in SUFFIXES.values())


def load_pyarrow() -> Any:
    """Import pyarrow; an `ElmoError` if it is not installed."""
    return load_extra("format parquet", "pyarrow", "parquet")


class FormatWriter:
    """Adds records to an open file: what the writers share, one for each format."""

    def __init__(
        self, file: Any, output_format: OutputFormat, attributes: Mapping[str, str]
    ) -> None:
        self._file, self._form, self._attributes = file, output_format, attributes
        self.keeps_tokens = has_own_tokens(attributes) and not output_format.forget_sentences
        """Whether records have their tokens beside them."""

    def write(self, number: int, record: Record, values: "NDArray[Any]") -> None:
        """Add a record by its number in the input, and its activations: (L, T, W) or (T, W)."""
        raise NotImplementedError

    def _facts(self, number: int, record: Record) -> dict[str, Any]:
        """What the output says of a record beside its values."""
        facts: dict[str, Any] = {"number": number} if record.key is None else {"key": record.key}
        facts |= record.attributes
        if LINE in facts:
            facts[LINE] = int(facts[LINE])
        if not self._form.forget_sentences:
            facts["sentence"] = record.text
        if self.keeps_tokens:
            facts["tokens"] = record.tokens
        return facts

    def skip(self, number: int, record: Record) -> None:
        """Note a record that the file has already, of an earlier run."""

    def flush(self) -> None:
        """Pass on what is held."""

    def finish(self, attributes: Mapping[str, str]) -> None:
        """Complete the file, with attributes that are known at the end only."""

    def close(self) -> None:
        """Let go of the file."""
