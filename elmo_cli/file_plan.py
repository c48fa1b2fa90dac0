"""What a run over a file reads and writes: chosen once, before a model is loaded."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO

from elmo_cli.atomic import check_output
from elmo_cli.errors import InputError
from elmo_cli.outputs.formats import STANDARD_OUTPUT, choose_output_format
from elmo_cli.text.input_formats import find_format
from elmo_cli.text.shards import parse_shard
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer


class FilePlan:
    """What is read, and what is written. Nothing is opened."""

    def __init__(
        self,
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
    ) -> None:
        """Choose the formats, by the arguments of `ElmoEmbedder.embed_file`.

        The `state` is None where the initial state of sentences is not known yet.
        """
        self.source, self.output = source, output
        self.tokenizer, self.words = tokenizer, words
        self.skip_errors, self.overwrite = skip_errors, overwrite
        self.input_format = find_format(source, input_format, tokenizer)
        is_text, is_fasta = (self.input_format.name == name for name in ("text", "fasta"))
        if use_sentence_keys and not is_text:
            name = self.input_format.name
            raise InputError(f"--use-sentence-keys has no effect with {name}, which has ids")
        if tokenizer.splits_by is not None:
            self.input_format = replace(self.input_format, unit="sentence")
        self.shard = None if shard is None else parse_shard(shard)
        if shard is not None and state == "carry":
            raise InputError(
                "--shard requires --state zero or warm: carried states need all lines in their "
                "order; leave out --shard"
            )
        self.output_format = choose_output_format(
            *(output, file_format, layout, compression, dtype),
            pooled=pooling is not None,
            forget_sentences=forget_sentences or is_fasta,
            use_sentence_keys=use_sentence_keys,
        )
        if words is not None and self.output_format.name not in ("hdf5", "npz"):
            raise InputError(f"--words requires HDF5 or npz, found {self.output_format.name}")
        if words is not None and (
            state == "carry" or pooling or use_sentence_keys or self.output_format.forget_sentences
        ):
            raise InputError(
                "--words requires --state zero or warm, a vector a token, and lines of text with "
                "their numbers; leave out --pooling, --forget-sentences and --use-sentence-keys"
            )
        if str(output) != STANDARD_OUTPUT:
            path = source if isinstance(source, (str, Path)) else None
            check_output(output, overwrite=True, source=path)
