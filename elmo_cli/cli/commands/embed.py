"""`elmo embed`: a text or FASTA file to activations."""

from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.options import choice, flag, option, option_group
from elmo_cli.outputs.formats import (
    COMPRESSIONS,
    LAYOUTS,
    OUTPUT_FORMATS,
    STANDARD_OUTPUT,
    has_unknown_suffix,
)
from elmo_cli.quantities import counted
from elmo_cli.text.records import FORMATS, TEXT

if TYPE_CHECKING:
    from elmo_cli.embed_file import Summary
    from elmo_cli.file_plan import FilePlan

_LAYERS = "--layers or --mix or --all or --top or --average"


@options.command()
@click.argument("input_file", metavar="INPUT", type=options.PATH)
@click.argument("output_file", metavar="OUTPUT", type=options.PATH)
@option_group(
    "Input",
    choice(
        "--input-format",
        list(FORMATS),
        help="Format of INPUT. [default: fasta for .fasta, .fa, .faa, .fas, conllu for .conllu, "
        "jsonl for .jsonl, .ndjson, also with .gz; else text]",
    ),
    options.text_options("whitespace"),
    flag(
        "--skip-errors",
        help="Give a line that cannot be read, or is too long for memory, an empty dataset.",
    ),
    option(
        "--words",
        metavar="FILE",
        excludes="--pooling or --forget-sentences or --use-sentence-keys or --state carry",
        help="Write only the uses of the words in FILE, one a line, or with its forms: "
        "lemma,form,form. Only lines with one are computed; npz has a matrix a word.",
    ),
    option(
        "--shard",
        metavar="I/N",
        help="Embed every N-th line from the I-th; `elmo merge` puts the N outputs together.",
    ),
)
@options.model_options
@options.selection_options
@option_group(
    "Output",
    flag("--normalize", help="Scale every vector to length 1."),
    option(
        *("--format", "file_format"),
        type=click.Choice([*OUTPUT_FORMATS, "text", "fasta"]),
        metavar="[" + "|".join(OUTPUT_FORMATS) + "]",
        help="Format of OUTPUT. [default: by its suffix, else hdf5] text and fasta are taken for "
        "--input-format.",
    ),
    choice(
        "--layout",
        LAYOUTS,
        help="Layout of HDF5: a dataset a line, or one for all lines, for large corpora. "
        "[default: allennlp]",
    ),
    choice("--compression", COMPRESSIONS, help="Compression of HDF5. [default: none]"),
    flag("--overwrite", help="Replace OUTPUT if it exists, or an unfinished run that differs."),
    options.checkpoint_option(default=30),
)
@options.speed_options
@option_group("Speed", options.batch_tokens_option)
@option_group(
    "AllenNLP's old flags",
    flag("--all", "all_layers", excludes=_LAYERS, help="The same as --layers all."),
    flag("--top", excludes=_LAYERS, help="The same as --layers top."),
    flag("--average", excludes=_LAYERS, help="The same as --layers average."),
    options.batch_size_option(),
    flag("--forget-sentences", help="Leave sentence_to_index out of the file."),
    flag("--use-sentence-keys", help="Name datasets by their sentence, not by number."),
    flag("--file-friendly-logging", help="Show progress as lines, one every 10 seconds."),
    option("--vocab-path", metavar="PATH", hidden=True),
    option("--include-package", metavar="NAME", multiple=True, hidden=True),
)
def embed(
    input_file: str,
    output_file: str,
    mix: tuple[float, ...] | None,
    gamma: float | None,
    normalize: bool,
    batch_size: int,
    file_friendly_logging: bool,
    vocab_path: str | None,
    include_package: tuple[str, ...],
    **named: Any,
) -> None:
    """Embed a text file: INPUT, a sentence a line, to OUTPUT, HDF5 or another format.

    Tokens are what white space separates, or --tokenizer; in FASTA, residues. INPUT may
    be gzip (by its suffix .gz), or - for standard input. OUTPUT holds one dataset a
    line, named "0", "1", ... (where records have ids, by these), float32 of shape
    (layers, tokens, width), without the axes that --layers, --mix and --pooling take
    away. JSON lines can go to standard output: OUTPUT -, with --format jsonl. A file
    appears when it is complete. A run to HDF5 that was interrupted resumes when the
    same command is given again; other formats start anew.

    \b
    $ elmo embed sentences.txt vectors.hdf5
    $ elmo embed book.txt vectors.hdf5 --tokenizer moses --split-sentences
    $ elmo embed corpus.txt uses.npz --words targets.txt --layers top
    $ elmo embed proteins.fasta proteins.h5 --model seqvec --layers sum --pooling mean
    $ zcat corpus.gz | elmo embed - vectors.hdf5 --layers average --cuda 0
    $ elmo embed sentences.txt sentence-vectors.parquet --layers average --pooling mean
    $ cat text | elmo embed - - --layers top --pooling mean --format jsonl | jq .activations
    """
    layers = _take_layers(named)
    if output_file == STANDARD_OUTPUT:
        for name in options.given("--overwrite", "--checkpoint-seconds"):
            raise click.UsageError(f"{name} requires a file for OUTPUT")
    _warn_of_old_options(vocab_path, include_package)
    plan = _take_plan(input_file, output_file, named)
    pooling = named.pop("pooling")
    embedder = loading.load_embedder(**named)
    if embedder.state != "carry" and options.given("--batch-size"):
        messages.say(
            "Warning: --batch-size has no effect without --state carry; see --batch-tokens."
        )

    from elmo_cli.cli.progress import ProgressBar
    from elmo_cli.cli.signals import stop_on_signal
    from elmo_cli.embed_file import embed_file
    from elmo_cli.inference.selection import select
    from elmo_cli.text.lines import size_in_bytes

    n_layers = embedder.options.n_layers
    selection = select(n_layers, layers, mix, gamma, pooling, normalize=normalize)
    with (
        stop_on_signal() as should_stop,
        ProgressBar(total=size_in_bytes(input_file), as_lines=file_friendly_logging) as bar,
    ):
        summary = embed_file(embedder, plan, selection, batch_size, bar.show, should_stop)
    if not summary.was_complete:  # which has been said
        _say_summary(output_file, plan, summary)


def _say_summary(output_file: str, plan: "FilePlan", summary: "Summary") -> None:
    name = "standard output" if output_file == STANDARD_OUTPUT else output_file
    unit = "sentence" if plan.input_format is TEXT else plan.input_format.unit
    messages.say(
        f"{name}: {counted(summary.n_sentences, unit)}, "
        f"{counted(summary.n_tokens, 'token')}, "
        f"{summary.n_tokens / max(summary.seconds, 1e-9):,.0f} tokens/s"
    )


def _take_layers(named: dict[str, Any]) -> str:
    """Take the choice of layers out of the options."""
    old = [name for name in ("all_layers", "top", "average") if named.pop(name)]
    return named.pop("layers") or (old[0].removesuffix("_layers") if old else "all")


_OF_PLAN = (
    *("input_format", "file_format", "layout", "compression", "dtype", "forget_sentences"),
    *("use_sentence_keys", "shard", "skip_errors", "overwrite", "checkpoint_seconds"),
)


def _take_plan(input_file: str, output_file: str, named: dict[str, Any]) -> "FilePlan":
    """Take what is to be read and written out of the options; those of the model are left."""
    from elmo_cli.file_plan import FilePlan
    from elmo_cli.text.lines import check_input
    from elmo_cli.text.targets import read_targets

    of_plan = {name: named.pop(name) for name in _OF_PLAN}
    words = named.pop("words")
    of_plan["words"] = None if words is None else read_targets(words)
    tokenizer = loading.take_tokenizer(named)
    file_format, input_format = of_plan["file_format"], of_plan["input_format"]
    if file_format in ("text", "fasta"):
        if input_format not in (None, file_format):
            raise click.UsageError(
                f"--format {file_format} is taken for --input-format, which is {input_format}"
            )
        of_plan |= {"input_format": file_format, "file_format": None}
    with loading.usage_errors():
        plan = FilePlan(
            *(input_file, output_file),
            **of_plan,
            tokenizer=tokenizer,
            pooling=named["pooling"],
            state=named["state"],
        )
    check_input(input_file)  # before the model is loaded, which can take a while
    if of_plan["file_format"] is None and has_unknown_suffix(output_file):
        messages.say(
            f"Warning: {output_file} will be HDF5; --format or the suffix names another format."
        )
    return plan


def _warn_of_old_options(vocab_path: str | None, include_package: tuple[str, ...]) -> None:
    if vocab_path is not None:
        messages.say("Warning: --vocab-path has no effect; it never had one in `allennlp elmo`.")
    if include_package:
        messages.say("Warning: --include-package has no effect; it is accepted for old scripts.")
