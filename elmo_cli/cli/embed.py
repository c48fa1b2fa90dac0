"""`elmo embed`: a text or FASTA file to activations."""

import os
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import flags
from elmo_cli.outputs.output_formats import OUTPUT_FORMATS, STANDARD_OUTPUT
from elmo_cli.quantities import counted
from elmo_cli.text.records import TEXT

if TYPE_CHECKING:
    from elmo_cli.cli.progress import Progress
    from elmo_cli.file_settings import FileSettings
    from elmo_cli.text.records import InputFormat

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


@click.command()
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
    mix: tuple[float, ...] | None,
    gamma: float | None,
    pooling: str | None,
    batch_size: int,
    file_friendly_logging: bool,
    vocab_path: str | None,
    include_package: tuple[str, ...],
    **options: Any,
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
    layers = _take_layers(options, mix, gamma)
    is_file = output_file != STANDARD_OUTPUT
    flags.check_effect(is_file, "with a file for OUTPUT", "overwrite", "checkpoint_seconds")
    _warn_of_old_options(vocab_path, include_package)

    from elmo_cli.cli.progress import Progress
    from elmo_cli.cli.signals import stop_on_signal
    from elmo_cli.text.lines import size_in_bytes

    settings = _take_file_settings(options)
    with flags.usage_errors():
        read_as = settings.check(
            input_file, output_file, pooled=pooling is not None, state=options["state"]
        )
    _check_files(input_file, output_file, settings)
    embedder = flags.load_embedder(**options)
    if embedder.state != "carry" and flags.given("batch_size"):
        flags.say("Warning: --batch-size does nothing without --state carry; see --batch-tokens.")
    was_there = os.path.exists(output_file)
    with (
        stop_on_signal() as should_stop,
        Progress(
            size_in_bytes(input_file), quiet=flags.is_quiet(), as_lines=file_friendly_logging
        ) as progress,
    ):
        embedder.embed_file(
            *(input_file, output_file, layers, batch_size),
            mix=mix,
            gamma=gamma,
            pooling=pooling,
            **vars(settings),
            on_progress=progress.update,
            should_stop=should_stop,
        )
    if progress.n_sentences or not was_there:  # else it was complete, which has been said
        _say_outcome(output_file, read_as, progress)


def _say_outcome(output_file: str, read_as: "InputFormat", progress: "Progress") -> None:
    unit = "sentence" if read_as is TEXT else read_as.unit
    flags.say(
        f"{flags.name_of_output(output_file)}: {counted(progress.n_sentences, unit)}, "
        f"{counted(progress.n_tokens, 'token')}, "
        f"{progress.n_tokens / progress.seconds:,.0f} tokens/s"
    )


def _take_layers(
    options: dict[str, Any], mix: tuple[float, ...] | None, gamma: float | None
) -> str:
    """Take the choice of layers out of the options."""
    old = {name: options.pop(name) for name in ("all_layers", "top", "average")}
    given = [name.removesuffix("_layers") for name, is_set in old.items() if is_set]
    layers = options.pop("layers")
    if layers is not None:
        given.append(layers)
    if gamma is not None and mix is None:
        raise click.UsageError("--gamma goes with --mix")
    if len(given) > 1:
        raise click.UsageError("choose one of --layers, --all, --top and --average")
    if given and mix is not None:
        raise click.UsageError("--mix takes the place of --layers, --all, --top and --average")
    return given[0] if given else "all"


def _take_file_settings(options: dict[str, Any]) -> "FileSettings":
    """Take what is to be read and written out of the options; those of the model are left."""
    from elmo_cli.file_settings import FileSettings

    named = {field.name: options.pop(field.name) for field in fields(FileSettings)}
    if named["file_format"] in INPUT_FORMATS:
        if named["input_format"] not in (None, named["file_format"]):
            raise click.UsageError(
                f"--format {named['file_format']} is taken for --input-format, which is "
                f"{named['input_format']}"
            )
        named |= {"input_format": named["file_format"], "file_format": None}
    return FileSettings(**named)


def _check_files(input_file: str, output_file: str, settings: "FileSettings") -> None:
    """Make sure that both can be opened, before the model is loaded, which can take a while."""
    from elmo_cli.outputs.output_path import check_output
    from elmo_cli.text.lines import check_input

    check_input(input_file)
    check_output(output_file, overwrite=settings.replaces, or_finished=True, source=input_file)
    flags.warn_of_odd_suffix(output_file, settings.file_format)


def _warn_of_old_options(vocab_path: str | None, include_package: tuple[str, ...]) -> None:
    if vocab_path is not None:
        flags.say("Warning: --vocab-path does nothing; it never did in `allennlp elmo`.")
    if include_package:
        flags.say("Warning: --include-package does nothing; it is accepted for old scripts.")
