"""`elmo word-vectors`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from elmo_cli.callbacks import ignore
from elmo_cli.cli import progress_bar, shared_options, stderr
from elmo_cli.cli.command import command, option_group
from elmo_cli.cli.load_model import (
    find_model_files,
    load_embedder,
    resolve_model,
    say_model,
)
from elmo_cli.cli.open_text import open_text
from elmo_cli.cli.parameter_types import PATH, WholeNumber
from elmo_cli.cli.shared_options import field_option
from elmo_cli.cli.usage_errors import missing_error, misused_error
from elmo_cli.errors.wording import counted
from elmo_cli.options.analysis import AveragingSettings
from elmo_cli.options.fields import settings_from
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.selection import SelectionSettings, layers_text
from elmo_cli.options.text import TextSettings
from elmo_cli.text.sources import Source


@command("word-vectors")
@click.argument(
    "arguments", metavar="[VOCABULARY] OUTPUT", type=PATH, nargs=-1, required=True
)
@shared_options.flag(
    "--softmax",
    excludes=["--corpus"],
    help=(
        "Write the output vectors of the softmax instead. Unknown words get the vector "
        "of <UNK>."
    ),
)
@shared_options.overwrite_option()
@option_group(
    "Averaging",
    shared_options.path_option(
        "--corpus FILE",
        help=(
            "Text in which each word is averaged over its occurrences, one sentence "
            "per line."
        ),
    ),
    shared_options.mean_layers_option(metavar="all|top|N,...", requires=["--corpus"]),
    field_option(
        AveragingSettings, "min_count", type=WholeNumber(1), requires=["--corpus"]
    ),
    field_option(
        AveragingSettings, "at_most", type=WholeNumber(1), requires=["--corpus"]
    ),
)
@shared_options.text_options(requires=["--corpus"])
@shared_options.file_options()
@option_group(
    "Model", shared_options.softmax_option(requires=["--softmax"], hidden=True)
)
@option_group("Speed", shared_options.device_option(excludes=["--softmax"]))
def word_vectors(
    arguments: tuple[str, ...],
    softmax: bool,
    overwrite: bool,
    corpus: str | None,
    **values: Any,
) -> None:
    """Write one vector per word to OUTPUT, from a corpus or from its spelling.

    \b
    $ elmo word-vectors words.vec --corpus corpus.txt.gz --min-count 5 --at-most 1000
    $ elmo word-vectors vocab.txt words.bin --corpus text.txt --layers 2
    $ elmo word-vectors vocab.txt spelling.hdf5
    $ elmo word-vectors vocab.txt softmax-vectors.hdf5 --softmax

    VOCABULARY has one word per line. With --corpus, the vector of a word is the mean
    over its occurrences in a text, so it reflects what the word means there. Without
    VOCABULARY, OUTPUT has all words that occur often enough, the most frequent first.
    Without --corpus, the vectors come from the token encoder (layer 0 of `elmo embed`)
    and reflect little more than spelling.

    The suffix of OUTPUT chooses its format. OUTPUT appears once it is complete.

    \b
    .txt .vec .w2v  word2vec text; .gz may follow
    .bin            word2vec binary
    .npz            arrays "words" and "vectors"
    .tsv            Embedding Projector, with the words in OUTPUT.metadata.tsv
    .hdf5 .h5       dataset "embedding", as in bilm-tf
    """
    from elmo_cli.analysis.word_vectors.file_formats import check_vectors_file

    *words_files, output = arguments
    if not words_files and corpus is None:
        raise missing_error("VOCABULARY or --corpus")
    if len(words_files) > 1:
        raise misused_error(f"{words_files[1]}: unexpected", "Give one VOCABULARY.")
    words_file = words_files[0] if words_files else None
    if words_file is not None:
        Source(words_file, "Give the name of a file with one word per line.").check()
    # Loading the model can take a while.
    check_vectors_file(Path(output), words_file, corpus, overwrite=overwrite)
    model_settings = settings_from(ModelSettings, values)
    if corpus is None:
        from elmo_cli.analysis.word_vectors.token_vectors import write_vectors_of_model

        resolved = resolve_model(model_settings)
        files = find_model_files(resolved, with_softmax=softmax)
        say_model(files, model_settings, writes_file=True)
        with progress_bar.progress_bar(" words") as bar:
            n_words = write_vectors_of_model(
                files,
                str(words_file),
                output,
                softmax=softmax,
                device=model_settings.device,
                overwrite=overwrite,
                on_progress=bar.update,
            )
    else:
        source = Source(corpus)
        source.check()
        text_settings = settings_from(TextSettings, values)
        averaging = settings_from(AveragingSettings, values)
        resolved = resolve_model(model_settings)
        text_input = open_text(source, text_settings, resolved)

        from elmo_cli.analysis.word_vectors.average_vectors import write_average_vectors

        check_layers: Callable[[int], object] = ignore
        if averaging.layers is not None:
            check_layers = SelectionSettings(layers_text(averaging.layers)).for_model
        embedder = load_embedder(resolved, check_layers=check_layers, writes_file=True)
        with progress_bar.progress_bar(" tokens") as bar:
            n_words = write_average_vectors(
                embedder,
                text_input,
                output,
                words_file,
                averaging=averaging,
                overwrite=overwrite,
                on_progress=bar.update,
            )
    stderr.say(f"Wrote {output}: {counted(n_words, 'word')}")
