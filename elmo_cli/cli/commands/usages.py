"""`elmo usages`: the occurrences of target words in a text."""

from functools import partial

import click

from elmo_cli.cli import messages, options
from elmo_cli.cli.command import command, option_group, receives
from elmo_cli.cli.loading import (
    check_language,
    choose_tokenizer,
    load_embedder,
    model_language,
    usage_errors,
)
from elmo_cli.cli.options import choice, flag, option
from elmo_cli.errors import counted
from elmo_cli.outputs.formats import COMPRESSIONS, LAYOUTS, STANDARD_OUTPUT
from elmo_cli.settings import ModelSettings, OutputSettings, Selection, TextSettings
from elmo_cli.text.lines import check_input


@command()
@click.argument("text", metavar="TEXT", type=options.PATH)
@click.argument("output_file", metavar="OUT", type=options.PATH)
@option_group(
    "Input",
    option(
        "--words",
        metavar="FILE",
        type=options.PATH,
        required=True,
        help="Target words, one per line, or with their forms: lemma,form,form; or a table with "
        "the columns word and form.",
    ),
    options.text_options("whitespace"),
    flag("--skip-errors", help="Skip a line that cannot be read, or is too long for memory."),
    option(
        "--shard",
        metavar="I/N",
        help="Read every N-th line from the I-th. `elmo change` and others read a pattern of the N "
        "outputs as one.",
    ),
)
@options.model_options
@option_group(
    "Output",
    options.layer_options("top"),
    flag("--normalize", help="Scale every vector to length 1."),
    options.dtype_option,
    choice(
        "--format",
        ("hdf5", "npz", "parquet", "jsonl"),
        help="Format of OUT. [default: by its suffix, else hdf5]",
    ),
    choice(
        "--layout",
        LAYOUTS,
        help="Layout of HDF5: one dataset per line, or one for all lines. [default: allennlp]",
    ),
    options.keep_columns_option,
    choice("--compression", COMPRESSIONS, help="Compression of HDF5. [default: none]"),
    flag("--overwrite", help="Replace OUT if it exists, or an unfinished run that differs."),
)
@options.speed_options
@option_group("Speed", options.batch_tokens_option)
@receives(model_settings=ModelSettings, text_settings=TextSettings)
def usages(
    text: str,
    output_file: str,
    words: str,
    layers: str | None,
    mix: tuple[float, ...] | None,
    gamma: float | None,
    normalize: bool,
    dtype: str,
    format: str | None,
    layout: str | None,
    compression: str | None,
    overwrite: bool,
    model_settings: ModelSettings,
    text_settings: TextSettings,
) -> None:
    """Write the vectors of target words in TEXT, one sentence per line, to OUT.

    Only sentences with a target word are computed. OUT is by its suffix: a table with one
    row per occurrence (.parquet, .jsonl): word, form, line (from 1), id, position (from 0),
    sentence and vector; .npz with one matrix per word; or HDF5 with one record per line, as
    of `elmo embed`, which resumes after an interruption. TEXT may be - for standard input,
    and OUT - with --format jsonl. `elmo change`, `elmo plot` and `elmo neighbours` read all
    of these. Prints the number of occurrences of each word on standard error; the exit
    status is 1 if no word occurs.

    \b
    $ elmo usages corpus.txt usages.parquet --words targets.txt
    $ elmo usages corpus.txt usages.npz --words targets.txt --tokenizer moses
    $ elmo usages corpus.txt usages.hdf5 --words targets.txt --layers all --cuda 0
    $ zcat corpus.gz | elmo usages - - --words targets.txt --format jsonl | jq .word
    """
    from elmo_cli.analysis.target_words import read_targets
    from elmo_cli.analysis.usages import DEFAULT_LAYERS, embed_usages, plan_usages

    targets = read_targets(words)
    check_language(text_settings)
    text_settings = choose_tokenizer(text_settings, model_settings, text)
    with usage_errors():
        default = DEFAULT_LAYERS if mix is None else "all"
        plan = plan_usages(
            *(text, output_file, text_settings),
            Selection(layers or default, mix, gamma, normalize=normalize),
            OutputSettings(format, layout, compression, dtype, overwrite=overwrite),
            state=model_settings.state,
            model_language=model_language(model_settings),
        )
    check_input(text)  # Loading the model can take a while.
    engine = load_embedder(model_settings).engine

    from elmo_cli.cli.runs import progress_bar, show_summary, stop_on_signal

    with stop_on_signal() as should_stop, progress_bar(source=text) as bar:
        counts, summary = embed_usages(
            engine, plan, targets, partial(show_summary, bar), should_stop
        )
    _show_counts(counts)
    if not summary.was_complete:  # embed_file logs it.
        name = "standard output" if output_file == STANDARD_OUTPUT else output_file
        messages.say(
            f"{name}: {counted(sum(counts.values()), 'occurrence')} in "
            f"{counted(summary.n_sentences, plan.input_format.unit)}"
        )


def _show_counts(counts: dict[str, int]) -> None:
    """Print the number of occurrences of each word, and the words that never occur."""
    for word, count in counts.items():
        if count:
            messages.say(f"{word}: {counted(count, 'occurrence')}")
    missing = [word for word, count in counts.items() if not count]
    if missing:
        number = "" if len(missing) == 1 else f"{len(missing):,} words: "
        messages.say(f"Warning: no occurrence of {number}{', '.join(missing)}")
