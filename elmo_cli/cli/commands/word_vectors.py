"""`elmo word-vectors`."""

from pathlib import Path
from typing import Any

import click

from elmo_cli.cli import progress_bar, shared_options, stderr
from elmo_cli.cli.command import command, option_group
from elmo_cli.cli.command_texts import open_command_text
from elmo_cli.cli.load_model import (
    load_resolved_embedder,
    say_model,
    start_garbage_collector,
)
from elmo_cli.cli.parameter_types import OUTPUT_PATH, PATH, WholeNumber
from elmo_cli.cli.shared_options import field_option
from elmo_cli.cli.usage_errors import extra_arguments_error, missing_error
from elmo_cli.errors.wording import counted
from elmo_cli.options.analysis import AveragingSettings
from elmo_cli.options.fields import settings_from
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.text.sources import Source


@command("word-vectors", "--words FILE OUTPUT")
@click.argument("inputs", metavar="INPUT", type=PATH, nargs=-1)
@click.argument("output", metavar="OUTPUT", type=OUTPUT_PATH)
@shared_options.path_option(
    "--words FILE",
    help="File of the words that get a vector, in this order. Each line is one word, "
    "without further forms. Words that occur fewer than --min-count times in INPUT are "
    "left out.",
    default_text="the words of INPUT that occur often enough, most frequent first",
)
@shared_options.mean_layers_option(requires=["INPUT"])
@field_option(AveragingSettings, "min_count", type=WholeNumber(1), requires=["INPUT"])
@field_option(AveragingSettings, "at_most", type=WholeNumber(1), requires=["INPUT"])
@shared_options.flag(
    "--softmax",
    requires=["--words"],
    excludes=["INPUT"],
    help=(
        "Write the softmax's output vectors of --words instead, without INPUT. Unknown "
        "words get the vector of <UNK>."
    ),
)
@shared_options.overwrite_option()
@shared_options.text_options(requires=["INPUT"])
@shared_options.file_options()
@option_group("Model", shared_options.softmax_option(requires=["--softmax"]))
@option_group("Speed", shared_options.device_option(excludes=["--softmax"]))
def word_vectors(
    inputs: tuple[str, ...],
    output: str,
    words: str | None,
    softmax: bool,
    overwrite: bool,
    **values: Any,
) -> None:
    """Write one vector per word to OUTPUT, from a text or from their spelling.

    \b
    $ elmo word-vectors corpus.txt.gz words.vec --min-count 5 --at-most 1000
    $ elmo word-vectors text.txt words.bin --words vocab.txt --layers 2
    $ elmo word-vectors --words vocab.txt spelling.hdf5
    $ elmo word-vectors --words vocab.txt softmax-vectors.hdf5 --softmax

    INPUT is a text with one sentence per line, a table, JSON or CoNLL-U, or - for
    standard input. The vector of a word is the mean over its occurrences in INPUT, so
    it reflects what the word means there. Upper and lower case are different words.

    Without INPUT, the words of --words get the vectors of the token encoder, which
    reflect little more than spelling. They are half as wide as those from INPUT.

    Load OUTPUT in another program, such as gensim. Its suffix chooses the format:

    \b
    .txt .vec .w2v  word2vec text; .gz may follow
    .bin            word2vec binary
    .npz            arrays "words" and "vectors", with INPUT also "counts"
    .tsv            Embedding Projector; the words, and with INPUT counts, go
                    to a second file, such as words.metadata.tsv
    .hdf5 .h5       datasets "embedding", as in bilm-tf, "words", and with
                    INPUT "counts"
    """
    from elmo_cli.analysis.word_vectors.file_formats import check_vectors_file

    if len(inputs) > 1:
        raise extra_arguments_error([*inputs, output], n_expected=2)
    if not inputs and words is None:
        raise missing_error("INPUT or --words")
    if words is not None:
        Source(words, "Give the name of a file with one word per line.").check()
    corpus = inputs[0] if inputs else None
    # Loading the model can take a while.
    check_vectors_file(Path(output), words, corpus, overwrite=overwrite)
    model_settings = settings_from(ModelSettings, values)

    from elmo_cli.pretrained.find_model import find_resolved_files, resolve_model

    if corpus is None:
        from elmo_cli.analysis.word_vectors.token_vectors import write_vectors_of_model

        resolved = resolve_model(model_settings)
        files = find_resolved_files(resolved, with_softmax=softmax)
        start_garbage_collector()
        say_model(files, model_settings, writes_file=True)
        with progress_bar.progress_bar(" words") as bar:
            n_words = write_vectors_of_model(
                files,
                str(words),
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
        text_input = open_command_text(source, text_settings, resolved)

        from elmo_cli.analysis.word_vectors.average_vectors import write_average_vectors

        embedder = load_resolved_embedder(
            resolved, check_layers=averaging.layer_numbers, writes_file=True
        )
        with progress_bar.progress_bar(" tokens") as bar:
            n_words = write_average_vectors(
                embedder,
                text_input,
                output,
                words=words,
                averaging=averaging,
                overwrite=overwrite,
                on_progress=bar.update,
            )
    stderr.say(f"Wrote {output}: {counted(n_words, 'word')}")
