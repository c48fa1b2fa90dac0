"""`elmo word-vectors`: one vector a word, of its spelling or averaged over its uses."""

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.quantities import counted


@options.command("word-vectors")
@click.argument("arguments", metavar="[VOCABULARY] OUT", type=options.PATH, nargs=-1, required=True)
@options.flag(
    "--softmax",
    excludes="--corpus",
    help="Write the output vectors of the softmax; that of <UNK> for unknown words.",
)
@options.overwrite_option
@options.option_group(
    "Averaging",
    options.option(
        "--corpus",
        type=options.PATH,
        metavar="TEXT",
        help="Average the vectors of each word over its uses in TEXT, a sentence a line.",
    ),
    options.option(
        "--layers",
        metavar="CHOICE",
        requires="--corpus",
        help="Layers whose mean is taken, as in `elmo embed`. [default: all but layer 0]",
    ),
    options.count(
        "--min-count",
        default=5,
        requires="--corpus",
        help="Minimum number of uses; rarer words are left out.",
    ),
    options.count(
        "--at-most",
        requires="--corpus",
        help="Maximum number of uses of a word that are averaged, the first ones. [default: all]",
    ),
)
@options.text_options("whitespace", requires="--corpus")
@options.file_options
@options.option_group("Model", options.softmax_option(requires="--softmax"))
@options.option_group("Speed", options.device_option(excludes="--softmax"))
def word_vectors(
    arguments: tuple[str, ...],
    softmax: bool,
    overwrite: bool,
    corpus: str | None,
    device: str,
    **named: Any,
) -> None:
    """Write one vector a word to OUT, for the words in VOCABULARY, one a line.

    With --corpus, the vector of a word is the mean over its uses in a text: its meaning
    there. VOCABULARY may then be left out, for all words that are frequent enough, the most
    frequent first. Without, it is that of the token encoder, which does not depend on a
    sentence: layer 0 of `elmo embed`, which knows the spelling of a word and little else.

    The suffix of OUT is its format: word2vec's text (.txt, .vec, .w2v, optionally followed by
    .gz) and binary (.bin), npz with the arrays "words" and "vectors", .tsv for the Embedding
    Projector, with the words in OUT.metadata.tsv, or HDF5 (.hdf5, .h5) with a dataset
    "embedding", as in bilm-tf. OUT appears when it is complete.

    \b
    $ elmo word-vectors words.vec --corpus corpus.txt.gz --min-count 5 --at-most 1000
    $ elmo word-vectors vocab.txt words.bin --corpus corpus.txt --layers 2 --model original
    $ elmo word-vectors vocab.txt spelling.hdf5
    $ elmo word-vectors vocab.txt softmax-vectors.hdf5 --softmax --model my-model
    """
    if len(arguments) > 2 or (len(arguments) < 2 and corpus is None):
        raise click.UsageError("expected VOCABULARY and OUT; or OUT alone, with --corpus")
    output = arguments[-1]
    tokenizer = loading.take_tokenizer(named)
    averaging = {name: named.pop(name) for name in ("layers", "min_count", "at_most")}

    from elmo_cli.analysis.word_vectors import write_average_vectors, write_token_vectors
    from elmo_cli.cli.progress import progress_bar

    write: Callable[..., int]
    if corpus is None:
        files = loading.take_files(named, with_softmax=softmax)
        write = partial(
            write_token_vectors, arguments[0], output, softmax=softmax, model=files, device=device
        )
    else:
        embedder = loading.load_embedder(device=device, **named)
        words_file = arguments[0] if len(arguments) == 2 else None
        averaging |= {"tokenizer": tokenizer}
        write = partial(write_average_vectors, embedder, corpus, output, words_file, **averaging)
    with progress_bar(" words" if corpus is None else " tokens") as bar:
        n_words = write(overwrite=overwrite, on_progress=bar.update)
    messages.say(f"{output}: {counted(n_words, 'word')}")
