"""`elmo embed`: a text or FASTA file to activations."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from elmo_cli.allocator import keep_few_primitives
from elmo_cli.cli import flags
from elmo_cli.errors import InputError
from elmo_cli.outputs.output_formats import OUTPUT_FORMATS
from elmo_cli.quantities import counted
from elmo_cli.records import TEXT, find_format

INPUT_FORMATS = ("text", "fasta")


def _numbers(
    ctx: click.Context, parameter: click.Parameter, text: str | None
) -> tuple[float, ...] | None:
    """Read numbers with commas between."""
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        message = f"expected numbers with commas between, found {text!r}"
        raise click.BadParameter(message, ctx, parameter) from None


@click.command(short_help="Embed a text or FASTA file.")
@click.argument("input_file", metavar="INPUT")
@click.argument("output_file", metavar="OUTPUT")
@click.option(
    "--input-format",
    type=click.Choice(INPUT_FORMATS),
    help="Of INPUT. [default: fasta for .fasta, .fa, .faa, .fas, also with .gz; else text]",
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice([*OUTPUT_FORMATS, *INPUT_FORMATS]),
    metavar="[" + "|".join(OUTPUT_FORMATS) + "]",
    help="Of OUTPUT. [default: by its suffix, else hdf5] text and fasta are taken for "
    "--input-format.",
)
@click.option(
    "--layers",
    metavar="CHOICE",
    help="all, top, average, sum, word_emb, lstm1, lstm2, or numbers such as 0,2. [default: all]",
)
@click.option("--all", "all_layers", is_flag=True, help="The same as --layers all.")
@click.option("--top", is_flag=True, help="The same as --layers top.")
@click.option("--average", is_flag=True, help="The same as --layers average.")
@click.option(
    "--mix",
    callback=_numbers,
    metavar="S0,S1,...",
    help="Mix all layers as a task learned to: its scalar parameters as they are, before the "
    "softmax that turns them into weights.",
)
@click.option("--gamma", type=float, metavar="G", help="What --mix is scaled by. [default: 1]")
@click.option(
    "--pooling",
    type=click.Choice(["mean", "max", "first", "last"]),
    help="One vector a sentence, from its tokens; zeros for a blank line. [default: all tokens]",
)
@flags.model_options
@flags.output_options
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16"]),
    default="float32",
    show_default=True,
    help="Of the values in the output file.",
)
@flags.batch_tokens_option
@flags.batch_size_option
@click.option("--forget-sentences", is_flag=True, help="Leave sentence_to_index out of the file.")
@click.option(
    "--use-sentence-keys", is_flag=True, help="Name datasets by their sentence, not by number."
)
@click.option(
    "--overwrite",
    is_flag=True,
    help="Replace OUTPUT if it exists, or an unfinished run that differs.",
)
@click.option(
    "--append", is_flag=True, help="Where OUTPUT is of the first lines of INPUT, add the others."
)
@click.option(
    "--skip-errors",
    is_flag=True,
    help="Give a line that cannot be read, or is too long for memory, an empty dataset.",
)
@click.option(
    "--shard",
    metavar="I/N",
    help="Embed every N-th line from the I-th; `elmo merge` puts the N outputs together.",
)
@click.option(
    "--checkpoint-seconds",
    type=click.FloatRange(min=0),
    default=30,
    show_default=True,
    metavar="N",
    help="How much work an end without warning can cost.",
)
@click.option(
    "--file-friendly-logging", is_flag=True, help="Show progress as lines, one every 10 seconds."
)
@click.option("--vocab-path", metavar="PATH", hidden=True)
@click.option("--include-package", metavar="NAME", multiple=True, hidden=True)
@flags.verbosity_options
def embed(
    input_file: str,
    output_file: str,
    input_format: str | None,
    file_format: str | None,
    layers: str | None,
    all_layers: bool,
    top: bool,
    average: bool,
    mix: tuple[float, ...] | None,
    gamma: float | None,
    pooling: str | None,
    layout: str | None,
    compression: str | None,
    dtype: str,
    batch_size: int,
    forget_sentences: bool,
    use_sentence_keys: bool,
    overwrite: bool,
    append: bool,
    skip_errors: bool,
    shard: str | None,
    checkpoint_seconds: float,
    file_friendly_logging: bool,
    vocab_path: str | None,
    include_package: tuple[str, ...],
    **settings: Any,
) -> None:
    """Embed a text file: INPUT, a sentence a line, to OUTPUT, HDF5 or by its suffix another.

    Tokens are what white space separates; in FASTA, residues. INPUT may be gzip (by
    its suffix .gz), or - for standard input. OUTPUT holds one dataset a line,
    named "0", "1", ... (of FASTA, one a sequence, named by its id), float32 of shape
    (layers, tokens, width), without the axes that --layers, --mix and --pooling take
    away. Lines of text (.jsonl, .tsv) can go to standard output, OUTPUT -, with --format.
    A file appears when it is complete; a run that was interrupted goes on when the
    same command is given again.

    \b
    $ elmo embed sentences.txt vectors.hdf5
    $ elmo embed proteins.fasta proteins.h5 --model seqvec --layers sum --pooling mean
    $ zcat corpus.gz | elmo embed - vectors.hdf5 --layers average --cuda 0
    $ elmo embed sentences.txt sentence-vectors.parquet --layers average --pooling mean
    $ cat text | elmo embed - - --layers top --pooling mean --format jsonl | jq .activations
    """
    if file_format in INPUT_FORMATS:
        input_format, file_format = input_format or file_format, None
    if gamma is not None and mix is None:
        raise click.UsageError("--gamma goes with --mix")
    with _as_usage_errors():
        read_format = find_format(input_file, input_format)
        read_format.check_sentence_keys(use_sentence_keys)
    if shard is not None:
        _check_shard(shard, settings["state"])
    chosen = _choose_layers(layers, mix, all=all_layers, top=top, average=average)
    _warn_of_old_options(vocab_path, include_package)

    from elmo_cli.cli.progress import Progress
    from elmo_cli.cli.signals import stop_on_signal
    from elmo_cli.outputs.form import choose_form
    from elmo_cli.outputs.output_path import check_output
    from elmo_cli.text import check_input

    with _as_usage_errors():
        choose_form(
            output_file,
            file_format,
            layout,
            compression,
            pooled=pooling is not None,
            use_sentence_keys=use_sentence_keys,
        )
    check_input(input_file)  # before the model is loaded, which can take a while
    check_output(output_file, overwrite=overwrite, or_finished=True, source=input_file)
    flags.warn_of_odd_suffix(output_file, file_format)
    keep_few_primitives()
    embedder = flags.load_embedder(**settings)
    quiet = click.get_current_context().meta.get("verbosity", 0) < 0
    n_bytes = flags.file_size(input_file)
    was_there = os.path.exists(output_file)
    with (
        stop_on_signal() as should_stop,
        Progress(n_bytes, quiet=quiet, as_lines=file_friendly_logging) as progress,
    ):
        embedder.embed_file(
            input_file,
            output_file,
            chosen,
            batch_size,
            forget_sentences,
            use_sentence_keys,
            mix=mix,
            gamma=gamma,
            pooling=pooling,
            input_format=input_format,
            dtype=dtype,
            file_format=file_format,
            layout=layout,
            compression=compression,
            overwrite=overwrite,
            append=append,
            skip_errors=skip_errors,
            shard=shard,
            checkpoint_seconds=checkpoint_seconds,
            should_stop=should_stop,
            on_progress=progress.update,
        )
    if was_there and not progress.n_sentences:
        return  # it was complete, which has been said
    unit = "sentence" if read_format is TEXT else read_format.unit
    flags.say(
        f"{flags.name_of_output(output_file)}: {counted(progress.n_sentences, unit)}, "
        f"{counted(progress.n_tokens, 'token')}, "
        f"{progress.n_tokens / progress.seconds:,.0f} tokens/s"
    )


@contextmanager
def _as_usage_errors() -> Iterator[None]:
    """Show that options do not go together as wrong usage."""
    try:
        yield
    except InputError as error:
        raise click.UsageError(str(error)) from None


def _check_shard(shard: str, state: str | None) -> None:
    from elmo_cli.errors import InputError
    from elmo_cli.shard import check_shard

    try:
        check_shard(shard, state)
    except InputError as error:
        raise click.UsageError(str(error)) from None


def _choose_layers(layers: str | None, mix: tuple[float, ...] | None, **old_flags: bool) -> str:
    given = [name for name, is_set in old_flags.items() if is_set]
    if layers is not None:
        given.append(layers)
    if len(given) > 1:
        raise click.UsageError("choose one of --layers, --all, --top and --average")
    if given and mix is not None:
        raise click.UsageError("--mix takes the place of --layers, --all, --top and --average")
    return given[0] if given else "all"


def _warn_of_old_options(vocab_path: str | None, include_package: tuple[str, ...]) -> None:
    if vocab_path is not None:
        flags.say("Warning: --vocab-path does nothing; it never did in `allennlp elmo`.")
    if include_package:
        flags.say("Warning: --include-package does nothing; it is accepted for old scripts.")
