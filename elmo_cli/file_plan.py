"""What a run over a file reads and writes: chosen once, before a model is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from elmo_cli.atomic import check_output
from elmo_cli.errors import InputError
from elmo_cli.outputs.formats import STANDARD_OUTPUT, OutputFormat, choose_output_format
from elmo_cli.text.records import FASTA, TEXT, InputFormat, Shard, find_format, parse_shard
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer


@dataclass(frozen=True)
class FilePlan:
    """What is read, and what is written; see `plan_file`."""

    source: IO[str] | str | Path
    output: str | Path
    input_format: InputFormat
    tokenizer: Tokenizer
    words: Mapping[str, str] | None
    output_format: OutputFormat
    shard: Shard | None
    skip_errors: bool
    overwrite: bool
    checkpoint_seconds: float


def plan_file(
    source: IO[str] | str | Path,
    output: str | Path,
    *,
    input_format: str | None = None,
    tokenizer: Tokenizer = WHITESPACE,
    words: Mapping[str, str] | None = None,
    file_format: str | None = None,
    layout: str | None = None,
    compression: str | None = None,
    dtype: str = "float32",
    pooling: str | None = None,
    state: str | None = None,
    forget_sentences: bool = False,
    use_sentence_keys: bool = False,
    shard: str | None = None,
    skip_errors: bool = False,
    overwrite: bool = False,
    checkpoint_seconds: float = 30.0,
) -> FilePlan:
    """Choose the formats of the input and the output; nothing is opened.

    Args:
        state: None where the initial state of sentences is not known yet.

    The other arguments are those of `ElmoEmbedder.embed_file`.

    Raises:
        InputError: there is no such choice, or two contradict each other.
        OutputError: the output cannot be written.
        ElmoError: a package for one of them is not installed.
    """
    read_as = find_format(source, input_format, tokenizer)
    if use_sentence_keys and read_as is not TEXT:
        raise InputError(f"--use-sentence-keys has no effect with {read_as.name}, which has ids")
    if tokenizer.splits_by is not None:
        read_as = replace(read_as, unit="sentence")
    share = None if shard is None else parse_shard(shard)
    if share is not None and state == "carry":
        raise InputError(
            "--shard requires --state zero or warm: carried states need all lines in their order; "
            "leave out --shard"
        )
    if not checkpoint_seconds >= 0:  # nan neither
        raise InputError(f"checkpoint_seconds {checkpoint_seconds}: expected 0 or more")
    output_format = choose_output_format(
        *(output, file_format, layout, compression, dtype),
        pooled=pooling is not None,
        forget_sentences=forget_sentences or read_as is FASTA,
        use_sentence_keys=use_sentence_keys,
    )
    if words is not None:
        _check_words(output_format, state)
    if str(output) != STANDARD_OUTPUT:
        path = source if isinstance(source, (str, Path)) else None
        check_output(output, overwrite=True, source=path)
    settings = (share, skip_errors, overwrite, checkpoint_seconds)
    return FilePlan(source, output, read_as, tokenizer, words, output_format, *settings)


def _check_words(output_format: OutputFormat, state: str | None) -> None:
    """Raise an `InputError` unless the uses of some words alone can be written."""
    if state == "carry":
        raise InputError("--words requires --state zero or warm: carried states need all lines")
    if output_format.name not in ("hdf5", "npz"):
        raise InputError(f"--words requires HDF5 or npz, found {output_format.name}")
    if output_format.pooled:
        raise InputError("--words requires a vector a token; leave out --pooling")
    if output_format.forget_sentences or output_format.use_sentence_keys:
        raise InputError("--words requires lines of text with their numbers")
