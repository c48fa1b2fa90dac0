"""`elmo plot`, `elmo word-vectors` and `elmo change`: all occurrences of words in corpora."""

import math
from functools import partial
from typing import TYPE_CHECKING

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.answers import print_rows
from elmo_cli.cli.command import command, option_group
from elmo_cli.errors import counted
from elmo_cli.settings import ModelSettings, TextSettings
from elmo_cli.text.sources import Source

if TYPE_CHECKING:
    from elmo_cli.analysis.change import Change


@command()
@click.argument(
    "arguments",
    metavar="WORD FILE... OUTPUT",
    type=options.PATH,
    nargs=-1,
    required=True,
)
@options.choice(
    "--method", ["pca", "tsne"], default="pca", help="Projection of the vectors."
)
@options.count(
    "--clusters",
    least=2,
    help="Colour N clusters found by k-means. [default: one colour per FILE]",
)
@options.mean_layers_option()
@options.output_option()
@options.overwrite_option()
def plot(
    arguments: tuple[str, ...],
    method: str,
    clusters: int | None,
    layers: str | None,
    overwrite: bool,
) -> None:
    """Draw the occurrences of WORD in FILE as points, to OUTPUT: .svg, .png, .pdf or .html.

    FILE may be any file from `elmo usages`, HDF5 from `elmo embed`, a folder from `elmo
    distribute`, or a pattern such as '*.hdf5'. In `elmo usages` files, WORD includes all its
    forms. Similar occurrences are close together, so that the senses of a word such as "bank"
    form separate groups. Some points have a label, and in SVG and HTML each point shows its
    sentence under the mouse pointer. The legend lists the files in their order. At most 2,000
    occurrences are drawn. The command needs pip install "elmo-cli[plot]".

    \b
    $ elmo plot bank corpus.hdf5 bank.svg
    $ elmo plot bank corpus.hdf5 bank.html --method tsne --clusters 2
    $ elmo plot bank old.parquet new.parquet change.png
    """
    if len(arguments) < 3:
        raise click.UsageError(
            "give WORD FILE... OUTPUT, as in `elmo plot bank old.hdf5 bank.svg`"
        )
    word, *files, output = arguments

    with messages.progress_bar(" records", leave=False) as bar:
        bar.set_description_str("loading")

        from elmo_cli.analysis.occurrences import open_occurrences
        from elmo_cli.analysis.scatter import plot_occurrences

        with open_occurrences(*files, on_progress=bar.update) as opened:
            if opened.has_token_layer(layers):
                messages.say(
                    "Warning: layer 0 in these vectors separates words by spelling."
                )
            draw = partial(
                plot_occurrences, method=method, clusters=clusters, layers=layers
            )
            on_step = bar.set_description_str
            picture = draw(opened, word, output, overwrite=overwrite, on_step=on_step)
    shares = " and ".join(f"{share:.0%}" for share in picture.variance)
    drawn = f"{picture.n_drawn:,} of {counted(picture.n_occurrences, 'occurrence')}"
    axes = f"; the axes show {shares} of the variance" if shares else ""
    messages.say(f"Wrote {output}: {drawn}{axes}")


@command("word-vectors")
@click.argument(
    "arguments",
    metavar="[VOCABULARY] OUTPUT",
    type=options.PATH,
    nargs=-1,
    required=True,
)
@options.flag(
    "--softmax",
    excludes="--corpus",
    help="Write the output vectors of the softmax. Unknown words get the vector of <UNK>.",
)
@options.output_option()
@options.overwrite_option()
@option_group(
    "Averaging",
    options.path_option(
        "--corpus FILE",
        help="Average each word over its occurrences in a text with one sentence per line.",
    ),
    options.mean_layers_option(metavar="all|top|N,...", requires="--corpus"),
    options.count(
        "--min-count",
        default=5,
        requires="--corpus",
        help="Skip words with a lower count.",
    ),
    options.count(
        "--at-most",
        requires="--corpus",
        help="Average only the first N occurrences of a word. [default: all]",
    ),
)
@options.text_options(options.BY_INPUT, requires="--corpus")
@options.file_options
@option_group("Model", options.softmax_option(requires="--softmax"))
@option_group("Speed", options.device_option(excludes="--softmax"))
def word_vectors(
    arguments: tuple[str, ...],
    softmax: bool,
    overwrite: bool,
    corpus: str | None,
    layers: str | None,
    min_count: int,
    at_most: int | None,
    model_settings: ModelSettings,
    text_settings: TextSettings,
) -> None:
    """Write one vector per word to OUTPUT, for the words in VOCABULARY, one per line.

    With --corpus, the vector of a word is the mean over its occurrences in a text, so that it
    reflects its meaning there. If you leave out VOCABULARY, OUTPUT contains all words that
    are frequent enough, the most frequent first. Without --corpus, the vectors come from the
    token encoder (layer 0 of `elmo embed`) and reflect little more than the spelling.

    The suffix of OUTPUT chooses its format: word2vec text (.txt, .vec, .w2v, also with .gz),
    word2vec binary (.bin), .npz with the arrays "words" and "vectors", .tsv for the Embedding
    Projector, with the words in OUTPUT.metadata.tsv, or HDF5 (.hdf5, .h5) with a dataset
    "embedding", as in bilm-tf. OUTPUT appears when it is complete.

    \b
    $ elmo word-vectors words.vec --corpus corpus.txt.gz --min-count 5 --at-most 1000
    $ elmo word-vectors vocab.txt words.bin --corpus corpus.txt --mean-layers 2 --model original
    $ elmo word-vectors vocab.txt spelling.hdf5
    $ elmo word-vectors vocab.txt softmax-vectors.hdf5 --softmax --model my-model
    """
    words_file, output = arguments[0] if len(arguments) == 2 else None, arguments[-1]
    if len(arguments) > 2 or (words_file is None and corpus is None):
        raise click.UsageError("give VOCABULARY and OUTPUT, or --corpus and OUTPUT")
    if words_file is not None:
        Source(words_file, "Give the name of a file with one word per line.").check()
    if corpus is not None:
        source = Source(corpus)
        source.check()
        text = loading.open_text(source, text_settings, model_settings)

    from elmo_cli.analysis import word_vectors as vectors

    if corpus is None:
        files = loading.find_files(model_settings, with_softmax=softmax)
        device = model_settings.device
        write = partial(
            vectors.write_token_vectors, softmax=softmax, model=files, device=device
        )
        with messages.progress_bar(" words") as bar:
            n_words = write(
                arguments[0], output, overwrite=overwrite, on_progress=bar.update
            )
    else:
        embedder = loading.load_embedder(model_settings)
        averaging = vectors.Averaging(layers, min_count, at_most)
        average = partial(
            vectors.write_average_vectors, embedder, text, averaging=averaging
        )
        with messages.progress_bar(" tokens") as bar:
            n_words = average(
                output, words_file, overwrite=overwrite, on_progress=bar.update
            )
    messages.say(f"Wrote {output}: {counted(n_words, 'word')}")


_LEVEL = 0.05


@command()
@click.argument("old", type=options.PATH)
@click.argument("new", type=options.PATH)
@options.choice(
    "--measure",
    ["apd", "prt", "jsd"],
    default="apd",
    help="apd: mean cosine distance of all pairs; prt: inverse cosine of the means; jsd: "
    "Jensen-Shannon divergence over clusters.",
)
@options.count(
    "--permutations",
    help="Test each change with N random divisions of its occurrences. [default: none]",
)
@options.choice(
    "--correction",
    ["bh", "bonferroni"],
    requires="--permutations",
    help="Adjust p for the number of words: bh (false discovery rate) or bonferroni. "
    "[default: none]",
)
@options.words_option(" [default: the target words of OLD and NEW]")
@options.input_format_options("words", "word", requires="--words")
@options.choice(
    "--match",
    ["form", "lemma"],
    help="Require files of `elmo usages` with this --match. [default: any]",
)
@options.ignore_case_option(requires="--words")
@options.mean_layers_option()
@options.figure_options("the list")
@options.row_options()
def change(
    old: str,
    new: str,
    measure: str,
    permutations: int | None,
    correction: str | None,
    words: str | None,
    input_format: str | None,
    text_column: str | None,
    match: str | None,
    ignore_case: bool,
    layers: str | None,
    plot: str | None,
    overwrite: bool,
    row_format: str | None,
) -> None:
    """Measure how much words changed from OLD to NEW, the most changed word first.

    OLD and NEW are `elmo usages` files for two corpora, in any format, or patterns of such
    names. With --words, they can also be HDF5 files with all tokens. The output is a table
    with one row per word: the word, its change, and how often it occurs in OLD and in NEW.
    --permutations adds p: the occurrences are divided at random into two groups of the same
    sizes, and p is the share of divisions with at least this much change. Because some of
    many words have a small p by chance, --correction adds an adjusted p. Words with fewer
    than 3 occurrences in OLD or NEW are skipped.

    \b
    $ elmo usages old.txt old.parquet --words targets.txt
    $ elmo usages new.txt new.parquet --words targets.txt
    $ elmo change old.parquet new.parquet --permutations 10000 --correction bh
    $ elmo change old.npz new.npz --measure prt --plot change.svg
    $ elmo change old.hdf5 new.hdf5 --words targets.txt --format csv
    """
    from elmo_cli.analysis.change import measure_change, read_occurrences
    from elmo_cli.analysis.targets import read_targets

    if plot is not None:
        from elmo_cli.analysis.pictures import check_figure

        check_figure(plot, overwrite=overwrite)
    targets = None if words is None else read_targets(words, input_format, text_column)
    with messages.progress_bar(" records", leave=False) as bar:
        read = partial(read_occurrences, match=match, ignore_case=ignore_case)
        occurrences = read(old, new, targets, layers, on_progress=bar.update)
    n = permutations or 0
    find = partial(
        measure_change, *occurrences, measure, permutations=n, correction=correction
    )
    with messages.progress_bar(" words", leave=False) as bar:
        changes = find(on_progress=bar.update)
    _print(changes, measure, row_format)
    if old == new:
        messages.say("Warning: OLD and NEW are the same file.")
    if correction is not None:
        _check_permutations(changes, n)
    if plot is not None:
        from elmo_cli.analysis.pictures import plot_changes

        n_drawn = plot_changes(changes, plot, measure, overwrite=overwrite)
        messages.say(f"Wrote {plot}: {counted(n_drawn, 'word')}")


def _print(changes: "list[Change]", measure: str, row_format: str | None) -> None:
    from elmo_cli.analysis.change import MIN_OCCURRENCES, change_columns

    measured = [change for change in changes if change.change is not None]
    names = change_columns(measured)
    constants = {"measure": measure} if row_format == "jsonl" else {}
    with print_rows(row_format, names) as rows:
        rows.write(
            ([getattr(change, name) for name in names] for change in measured),
            constants,
        )
    for change in changes[len(measured) :]:
        numbers = (
            f"{counted(change.n_old, 'occurrence')} in OLD and {change.n_new:,} in NEW"
        )
        messages.say(f"Skipped {change.word}: {numbers}. Each needs {MIN_OCCURRENCES}.")


def _check_permutations(changes: "list[Change]", permutations: int) -> None:
    """Print a warning if a single changed word cannot have a small adjusted p."""
    n_words = sum(change.p is not None for change in changes)
    least = n_words / (permutations + 1)
    if least >= _LEVEL:
        tests = f"{permutations:,} permutations of {counted(n_words, 'word')}"
        problem = (
            f"the adjusted p of a single changed word is at least {min(1.0, least):.2g}"
        )
        remedy = f"Use --permutations {math.ceil(n_words / _LEVEL)} or more."
        messages.say(f"Warning: with {tests}, {problem}. {remedy}")
