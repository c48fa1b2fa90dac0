"""One vector per word, in a file: over a corpus, or without a context."""

from collections.abc import Sequence
from pathlib import Path

from elmo_cli.analysis.average_vectors import AveragingSettings, write_average_vectors
from elmo_cli.analysis.token_vectors import write_token_vectors
from elmo_cli.callbacks import OnProgress
from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.errors.checks import check_type
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.options.selection import Layers
from elmo_cli.options.text import (
    DEFAULT_TEXT_SETTINGS,
    InputFormatName,
    Quotes,
    text_settings,
)
from elmo_cli.options.tokenizer_names import AUTO
from elmo_cli.records.open_input import open_input
from elmo_cli.text.choose_tokenizer import log_tokenizer_warning


def write_word_vectors(
    embedder: ElmoEmbedder,
    output: str | Path,
    words_file: str | Path | None = None,
    *,
    corpus: str | Path | None = None,
    layers: Layers | None = None,
    min_count: int = 1,
    at_most: int | None = None,
    softmax: bool = False,
    input_format: InputFormatName | None = None,
    tokenizer: str | None = AUTO,
    language: str | None = None,
    split_sentences: bool = False,
    delimiter: str | None = None,
    quotes: Quotes | None = None,
    no_header: bool = False,
    text_column: str | None = None,
    word_column: str | None = None,
    id_column: str | Sequence[str] | None = None,
    paragraphs: bool = False,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> int:
    """Write one vector per word, like `elmo word-vectors`.

        write_word_vectors(embedder, "words.vec", corpus="corpus.txt", min_count=5)
        write_word_vectors(embedder, "spelling.hdf5", "vocab.txt")

    With a corpus, the vector of a word is the mean over its occurrences there, so it
    reflects the word's meaning. Without one, it comes from the token encoder (layer 0)
    and reflects little more than spelling.

    Args:
        embedder: Model.
        output: Path in .vec, .txt, .w2v (.gz may follow), .bin, .npz, .tsv, .hdf5 or
            .h5. The file appears once it is complete.
        words_file: Path of the words, one per line, that get a vector, in this order.
            None means all words of the corpus, the most frequent first.
        corpus: Path of a text, one sentence per line, or another format.
        layers: "all", "top", or numbers such as 2, -1 or [1, 2]. Several layers are
            averaged. None means all layers except the token layer.
        min_count: Minimum number of occurrences of a word in the corpus.
        at_most: Average only the first `at_most` occurrences of a word. None means all.
        softmax: Without a corpus, write the output vectors of the softmax. A word
            outside its vocabulary gets the vector of `<UNK>`.
        input_format: This and the following options of the corpus, up to `paragraphs`,
            are those of `ElmoEmbedder.embed_file`. By default, the tokenizer is
            chosen by the corpus.
        overwrite: Replace an existing file.
        on_progress: Called with the number of tokens that were read, or without a
            corpus of words that were computed, since the last call.

    Returns:
        The number of words.

    Raises:
        InputError: The corpus or the words cannot be read, no word is frequent enough,
            or options contradict each other.
        OutputError: `output` has another suffix, already exists or cannot be written.
        ModelError: `softmax` is set, and the model has none.
    """
    check_type("embedder", embedder, ElmoEmbedder, "an ElmoEmbedder")
    averaging = AveragingSettings(layers=layers, min_count=min_count, at_most=at_most)
    settings = text_settings(
        input_format=input_format,
        tokenizer=tokenizer,
        language=language,
        split_sentences=split_sentences,
        delimiter=delimiter,
        quotes=quotes,
        no_header=no_header,
        text_column=text_column,
        word_column=word_column,
        id_column=id_column,
        paragraphs=paragraphs,
    )
    if corpus is not None:
        if softmax:
            raise SettingsError("softmax: cannot be used with corpus")
        text = open_input(
            corpus,
            settings,
            trained=embedder.files.tokenizer,
            language=embedder.files.language,
        )
        log_tokenizer_warning(text.tokenizer)
        return write_average_vectors(
            embedder,
            text,
            output,
            words_file,
            averaging=averaging,
            overwrite=overwrite,
            on_progress=on_progress,
        )
    if words_file is None:
        raise SettingsError("words_file: expected the path of words, or a corpus")
    if averaging != AveragingSettings() or settings != DEFAULT_TEXT_SETTINGS:
        raise SettingsError(
            "corpus: missing, and layers, min_count, at_most and the options of a text "
            "have no effect without it"
        )
    return write_token_vectors(
        words_file,
        output,
        softmax=softmax,
        model=embedder.files,
        device=embedder.device,
        overwrite=overwrite,
        on_progress=on_progress,
    )
