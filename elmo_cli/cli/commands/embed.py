"""`elmo embed`: a text or FASTA file to activations; `elmo merge`: its shards to one file."""

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.options import choice, flag, option, option_group
from elmo_cli.errors import counted
from elmo_cli.outputs.formats import (
    COMPRESSIONS,
    LAYOUTS,
    OUTPUT_FORMATS,
    STANDARD_OUTPUT,
    has_unknown_suffix,
)
from elmo_cli.text.input_formats import FORMATS, TEXT
from elmo_cli.text.lines import check_input, size_in_bytes

if TYPE_CHECKING:
    from elmo_cli.file_plan import FilePlan

_LAYERS = "--layers or --mix or --all or --top or --average"
_OF_MODEL = (
    *("model", "options_file", "weight_file", "vocabulary_file"),
    *("state", "device", "precision", "batch_tokens"),
)


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
        type=click.Choice(OUTPUT_FORMATS),
        help="Format of OUTPUT. [default: by its suffix, else hdf5]",
    ),
    choice(
        "--layout",
        LAYOUTS,
        help="Layout of HDF5: a dataset a line, or one for all lines, for large corpora. "
        "[default: allennlp]",
    ),
    choice("--compression", COMPRESSIONS, help="Compression of HDF5. [default: none]"),
    flag("--overwrite", help="Replace OUTPUT if it exists, or an unfinished run that differs."),
)
@options.speed_options
@option_group("Speed", options.batch_tokens_option)
@option_group(
    "AllenNLP's old flags",
    flag("--all", excludes=_LAYERS, help="The same as --layers all."),
    flag("--top", excludes=_LAYERS, help="The same as --layers top."),
    flag("--average", excludes=_LAYERS, help="The same as --layers average."),
    options.batch_size_option(),
    flag("--forget-sentences", help="Leave sentence_to_index out of the file."),
    flag("--use-sentence-keys", help="Name datasets by their sentence, not by number."),
    flag("--file-friendly-logging", help="Show progress as lines, one every 10 seconds."),
    option("--vocab-path", hidden=True, expose_value=False),
    option("--include-package", multiple=True, hidden=True, expose_value=False),
)
def embed(
    input_file: str,
    output_file: str,
    mix: tuple[float, ...] | None,
    gamma: float | None,
    normalize: bool,
    batch_size: int,
    file_friendly_logging: bool,
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
    for name in options.given("--vocab-path", "--include-package"):
        messages.say(f"Warning: {name} has no effect; it is accepted for old scripts.")
    old = [name for name in ("all", "top", "average") if named.pop(name)]
    layers = named.pop("layers") or next(iter(old), "all")

    named["tokenizer"] = loading.take_tokenizer(named)
    of_model = {name: named.pop(name) for name in _OF_MODEL}
    plan = _plan(input_file, output_file, state=of_model["state"], **named)
    embedder = loading.load_embedder(**of_model)
    if embedder.state != "carry" and options.given("--batch-size"):
        messages.say(
            "Warning: --batch-size has no effect without --state carry; see --batch-tokens."
        )

    from elmo_cli.cli.runs import progress_bar, show_summary, stop_on_signal
    from elmo_cli.embed_file import embed_file
    from elmo_cli.inference.selection import select

    n_layers = embedder.options.n_layers
    selection = select(n_layers, layers, mix, gamma, named["pooling"], normalize=normalize)
    with (
        stop_on_signal() as should_stop,
        progress_bar(total=size_in_bytes(input_file), as_lines=file_friendly_logging) as bar,
    ):
        show = partial(show_summary, bar)
        done = embed_file(embedder, plan, selection, batch_size, show, should_stop)
    if not done.was_complete:  # which has been said
        unit = "sentence" if plan.input_format.name == TEXT.name else plan.input_format.unit
        messages.say(
            f"{'standard output' if output_file == STANDARD_OUTPUT else output_file}: "
            f"{counted(done.n_sentences, unit)}, {counted(done.n_tokens, 'token')}, "
            f"{done.n_tokens / max(done.seconds, 1e-9):,.0f} tokens/s"
        )


def _plan(input_file: str, output_file: str, words: str | None, **named: Any) -> "FilePlan":
    """Choose what is read and written, before the model is loaded, which can take a while."""
    from elmo_cli.file_plan import FilePlan
    from elmo_cli.text.target_words import read_targets

    named["words"] = None if words is None else read_targets(words)
    with loading.usage_errors():
        plan = FilePlan(input_file, output_file, **named)
    check_input(input_file)
    if named["file_format"] is None and has_unknown_suffix(output_file):
        messages.say(
            f"Warning: {output_file} will be HDF5; --format or the suffix names another format."
        )
    return plan


@options.command()
@click.argument("output_file", metavar="OUTPUT", type=options.PATH)
@click.argument("shards", metavar="SHARD...", type=options.PATH, nargs=-1, required=True)
@options.flag("--overwrite", help="Replace OUTPUT if it exists.")
def merge(output_file: str, shards: tuple[str, ...], overwrite: bool) -> None:
    """Copy the outputs of `elmo embed --shard`, every SHARD, to OUTPUT.

    OUTPUT is what `elmo embed` would have written without --shard. All shards have to
    be there, of the same input and settings; they are left as they are. Few need to
    merge: `open_activations` reads all shards as one file.

    \b
    $ elmo embed corpus.txt shard-1.hdf5 --shard 1/2
    $ elmo embed corpus.txt shard-2.hdf5 --shard 2/2
    $ elmo merge vectors.hdf5 shard-*.hdf5
    """
    from elmo_cli.cli.runs import stop_on_signal
    from elmo_cli.outputs.writer import merge_shards

    with stop_on_signal() as should_stop:
        n_records = merge_shards(output_file, shards, overwrite=overwrite, should_stop=should_stop)
    messages.say(f"{output_file}: {counted(len(shards), 'shard')}, {counted(n_records, 'record')}")
