"""The start of a run: architecture, vocabulary, and weights that are random or a model's."""

import json
import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmo_cli.errors.checks import Sentence
from elmo_cli.errors.exceptions import (
    InputError,
    ModelError,
    OptionsError,
    SettingsError,
)
from elmo_cli.errors.wording import counted
from elmo_cli.files.atomic import write_lines
from elmo_cli.language_model.softmax_file import check_softmax, read_rows
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.options import (
    ManyLangsOptions,
    parse_options,
    read_json,
    read_options,
)
from elmo_cli.model.tensor_files import WEIGHTS_SUFFIXES
from elmo_cli.model.vocabulary import (
    SPECIAL_TOKENS,
    Vocabulary,
    read_vocabulary,
    read_words,
)
from elmo_cli.options.model import ModelSettings
from elmo_cli.pretrained.files import ModelFiles
from elmo_cli.pretrained.find import files_of
from elmo_cli.pretrained.load import load_bilm
from elmo_cli.pretrained.softmax import with_own_softmax
from elmo_cli.training.corpus import TrainingText
from elmo_cli.training.loss import Objective, Softmax
from elmo_cli.training.training_options import PRESETS, StartOptions, TrainingOptions

logger = logging.getLogger(__name__)

_VOCABULARY_SIZE = 25_000  # default number of words to predict
# words of a vocabulary that may have white space inside, at most
_MAX_COLUMNS_SHARE = 0.5
# share of a text that a vocabulary covers without a warning, at least
_MIN_COVERAGE = 0.5


class Start(NamedTuple):
    """Everything about the model that is known before the text is read."""

    content: dict[str, Any]  # content of its options.json
    name: str  # name of the model, preset or file with the architecture
    files: (
        ModelFiles | None
    )  # model whose weights are the start; None for random weights
    vocabulary: Vocabulary | None  # None for the most frequent words of the text
    vocabulary_file: (
        str | Path | None
    )  # file with these words, if it is not the model's own
    n_words: int | None  # maximum number of words to predict, if the text gives them


def choose_start(options: StartOptions) -> Start:
    """Choose the architecture of an options.json, of a preset, or of a model to start from."""
    vocabulary_file = options.vocabulary_file
    vocabulary = None if vocabulary_file is None else _read_words(vocabulary_file)
    if options.preset is not None:
        name, content, files = options.preset, PRESETS[options.preset], None
    else:
        files = _find_files(options)
        path = options.options_file if files is None else files.options
        if path is None:
            raise ModelError(
                "no architecture. Give --preset, --options-file or --init-from."
            )
        if isinstance(read_options(path), ManyLangsOptions):
            raise OptionsError(
                f"{path}: a model of ELMoForManyLangs cannot be trained. Choose an ELMo model."
            )
        name, content = str(options.init_from or path), read_json(path)
    if files is not None and files.vocabulary is not None:
        if vocabulary is not None and not content.get("char_cnn"):
            problem = (
                "a word-level model keeps its own vocabulary. Remove --vocabulary-file."
            )
            raise SettingsError(f"{files.name}: {problem}")
        vocabulary = vocabulary or read_vocabulary(files.vocabulary)
    if vocabulary is not None and options.vocabulary_size is not None:
        logger.warning(
            "Warning: --vocabulary-size has no effect: the words to predict are those of %s.",
            vocabulary_file or name,
        )
    n_words = None if vocabulary else options.vocabulary_size or _VOCABULARY_SIZE
    return Start(content, name, files, vocabulary, vocabulary_file, n_words)


def _read_words(path: str | Path) -> Vocabulary:
    """Read a vocabulary file, and check that its lines are words without further columns."""
    words = read_words(path)
    others = [
        number for number, word in enumerate(words, start=1) if len(word.split()) > 1
    ]
    if len(others) > max(0, _MAX_COLUMNS_SHARE * (len(words) - len(SPECIAL_TOKENS))):
        line = others[0]
        first, *_ = words[line - 1].split()
        column = 2 if first.replace(".", "", 1).isdecimal() else 1
        raise InputError(
            f"{path}, line {line}: expected one word per line, found {words[line - 1][:60]!r}. "
            f"Remove the other columns, for example with `awk '{{print ${column}}}' {path}`."
        )
    return read_vocabulary(path)


def check_coverage(start: Start, path: Path, sentences: Sequence[Sentence]) -> None:
    """Log how much of the beginning of a text the vocabulary covers; warn if it is little."""
    vocabulary, name = start.vocabulary, start.vocabulary_file or start.name
    tokens = [token for sentence in sentences for token in sentence]
    if vocabulary is None or not tokens:
        return
    n_known = sum(token in vocabulary for token in tokens)
    part = f"the first {counted(len(tokens), 'token')} of {path}"
    if n_known == 0 and start.vocabulary_file is not None:
        words = ", ".join(map(repr, vocabulary.words[3:6]))
        raise InputError(
            f"{name}: none of {part} is in this vocabulary, whose words begin with {words}. Give "
            "the words as they are in the text, one per line."
        )
    share = n_known / len(tokens)
    log, prefix = (
        (logger.info, "") if share >= _MIN_COVERAGE else (logger.warning, "Warning: ")
    )
    log("%sthe vocabulary of %s covers %.1f %% of %s", prefix, name, 100 * share, part)


def _find_files(options: StartOptions) -> ModelFiles | None:
    model, options_file = options.init_from, options.options_file
    if model is None:
        return None
    weights = model if Path(model).suffix in WEIGHTS_SUFFIXES else None
    if (weights is None) != (options_file is None):
        problem = (
            "a file of weights requires" if weights else "the model has options. Remove"
        )
        raise SettingsError(f"--init-from {model}: {problem} --options-file.")
    return with_own_softmax(
        files_of(
            ModelSettings(
                model=None if weights else model,
                options_file=options_file,
                weight_file=weights,
            )
        )
    )


def count_text(
    text: TrainingText, folder: Path, n_words: int | None
) -> tuple[int, list[str]]:
    """Count the tokens of a text, and write its validation lines into a folder.

    Return their number; special tokens and the most frequent words, at most `n_words`, or none.
    """
    logger.info("Counting the tokens of %s", counted(len(text.paths), "file"))
    words: Counter[str] = Counter()
    validation_lines: list[str] = []
    n_sentences = 0
    is_plain = text.is_plain
    for entry in (entry for path in text.paths for entry in text.read_file(path)):
        if entry.sentences and text.is_validation(entry.text):
            rows = (json.dumps({"tokens": sentence}) for sentence in entry.sentences)
            validation_lines += [entry.text] if is_plain else rows
        else:
            for sentence in entry.sentences:
                words.update(sentence)
                n_sentences += 1
    if n_sentences == 0:
        raise InputError(f"{text.names}: no sentence to train on.")
    if text.validation_share:
        if not validation_lines:
            raise InputError(
                f"--validation-share {text.validation_share}: no line chosen among "
                f"{counted(n_sentences, 'sentence')}. Use a larger share or --validation-file."
            )
        write_lines(folder / text.validation_name, validation_lines)
    sizes = {"sentence": n_sentences, "token": words.total(), "word": len(words)}
    logger.info(", ".join(counted(number, unit) for unit, number in sizes.items()))
    most_common = [
        word for word, _ in words.most_common(n_words) if Vocabulary.has_line_for(word)
    ]
    return words.total(), [] if n_words is None else [*SPECIAL_TOKENS, *most_common][
        :n_words
    ]


def start_weights(
    start: Start, vocabulary: Vocabulary, options: TrainingOptions
) -> Objective:
    """Make a biLM and its softmax from the model to start from; what it lacks is random."""
    torch.manual_seed(options.seed)
    files = start.files
    if files is None:
        bilm = BiLm(parse_options(start.content), vocabulary, dropout=options.dropout)
    else:
        bilm = load_bilm(files).requires_grad_(True).train()
        bilm.dropout.p = options.dropout
    softmax = Softmax(len(vocabulary), bilm.options.lstm.projection_dim)
    if files is not None and files.softmax is not None and files.vocabulary is not None:
        _copy_rows(
            files.softmax, read_vocabulary(files.vocabulary), softmax, vocabulary
        )
    elif files is not None:
        logger.info("%s: no softmax on this disk; a new one is trained", files.name)
    return Objective(bilm, softmax)


@torch.no_grad()
def _copy_rows(
    path: Path, old: Vocabulary, softmax: Softmax, vocabulary: Vocabulary
) -> None:
    """Copy the rows of the words that another model's softmax has."""
    check_softmax(path, len(old), softmax.weight.shape[1])
    [(_, weight, bias)] = read_rows(path, len(old))
    rows = [row for row, word in enumerate(vocabulary.words) if word in old]
    old_rows = old.indices([vocabulary.words[row] for row in rows])
    softmax.weight[rows] = weight[old_rows]
    softmax.bias[rows] = bias[old_rows]
    if len(rows) < len(vocabulary):
        logger.info("%s: %d of %d words", path, len(rows), len(vocabulary))
