"""Mean vectors of words over their occurrences in a text, in a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import IO

from elmo_cli.analysis.word_vectors.average_vectors import write_average_vectors
from elmo_cli.callbacks import OnProgress
from elmo_cli.embedder import ElmoEmbedder, check_embedder
from elmo_cli.errors.checks import check_flag, check_function, check_path
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.options.analysis import DEFAULT_MIN_COUNT, AveragingSettings
from elmo_cli.options.layers import Layers
from elmo_cli.options.text import TextSettings
from elmo_cli.runs.open_text_and_warn import open_text_and_warn


def write_word_vectors(
    embedder: ElmoEmbedder,
    corpus: IO[str] | str | Path,
    output: str | Path,
    words: str | Path | Sequence[str] | None = None,
    *,
    layers: Layers | None = None,
    min_count: int = DEFAULT_MIN_COUNT,
    at_most: int | None = None,
    text_settings: TextSettings | None = None,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> int:
    """Write one vector per word, averaged over its occurrences in a text.

        write_word_vectors(embedder, "corpus.txt", "words.vec")
        write_word_vectors(embedder, "corpus.txt", "bank.vec", ["bank", "banks"])

    `elmo word-vectors` does the same, and `average_word_vectors` returns the
    vectors instead.

    Args:
        embedder: Model.
        corpus: Path of the text, one sentence per line or another format, or an open
            text file.
        output: Path in .vec, .txt, .w2v (.gz may follow), .bin, .npz, .tsv, .hdf5 or
            .h5. The file appears once it is complete.
        words: Words that get a vector, if they are frequent enough, in this order: a
            list, or the path of a file with one word per line. None means all words of
            the text, the most frequent first.
        layers: "all", "top", or numbers such as 2, -1 or [1, 2]. Several layers are
            averaged. None means all layers except the token layer.
        min_count: Minimum number of occurrences of a word in the text.
        at_most: Average only the first `at_most` occurrences of a word. None means all.
        text_settings: How the text is read, without `shard` and `keep_columns`. None
            means `TextSettings()`.
        overwrite: Replace an existing file.
        on_progress: Called with the number of tokens of each record that is read.

    Returns:
        The number of words.

    Raises:
        InputError: The text or the words cannot be read, or no word is frequent enough.
        SettingsError: The model lacks a layer, `at_most` is below `min_count`, or an
            option of `text_settings` has no effect.
        OutputError: `output` has another suffix, already exists or cannot be written.
    """
    check_embedder(embedder)
    check_path("output", output)
    check_flag("overwrite", overwrite)
    check_function("on_progress", on_progress)
    averaging = AveragingSettings(layers=layers, min_count=min_count, at_most=at_most)
    opened = open_text_and_warn(
        corpus, text_settings, embedder.files, argument="corpus"
    )
    with opened.source:
        for option in ("shard", "keep_columns"):
            if getattr(opened.settings, option):
                raise SettingsError(f"{option} has no effect on mean vectors of words")
        return write_average_vectors(
            embedder,
            opened,
            output,
            words=words,
            averaging=averaging,
            overwrite=overwrite,
            on_progress=on_progress,
        )
