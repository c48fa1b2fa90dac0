"""What a run starts from: an architecture, a vocabulary, and weights, random or a model's."""

import logging
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmo_cli.errors import InputError, ModelError, OptionsError, counted
from elmo_cli.language_model.softmax import check_softmax, read_rows
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.options import ManyLangsOptions, parse_options, read_json, read_options
from elmo_cli.model.vocabulary import SPECIAL_TOKENS, Vocabulary, read_vocabulary
from elmo_cli.model.weights import SUFFIXES
from elmo_cli.pretrained.loading import choose_model, load_bilm
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.training.corpus import TrainingText, lines_from
from elmo_cli.training.loss import Objective, Softmax
from elmo_cli.training.options import PRESETS, TrainingOptions
from elmo_cli.training.run import write_lines

logger = logging.getLogger(__name__)

VALIDATION = "validation.txt"


class Start(NamedTuple):
    """What is known of a model before the text is read."""

    content: dict[str, Any]
    """Of its options.json."""
    name: str
    """Where the architecture is from."""
    files: ModelFiles | None = None
    """Those of the model whose weights are the start."""
    vocabulary: Vocabulary | None = None
    """The words to predict; None where they are counted."""


def choose_start(
    options_file: str | Path | None = None,
    preset: str | None = None,
    init_from: str | Path | None = None,
    vocabulary_file: str | Path | None = None,
) -> Start:
    """The architecture of an options.json, of a preset, or of a model to start from.

    An options.json goes with a model only where that is a single file of weights.
    """
    vocabulary = None if vocabulary_file is None else read_vocabulary(vocabulary_file)
    if preset is not None:
        return Start(PRESETS[preset], preset, None, vocabulary)
    files = None
    if init_from is not None and Path(init_from).suffix in SUFFIXES:
        if options_file is None:
            raise ModelError(f"{init_from}: expected an options file with a single weights file")
        files = choose_model(None, options_file, init_from)
    elif init_from is not None:
        files = choose_model(init_from, options_file)
    path = files.options if files else options_file
    assert path is not None
    if isinstance(read_options(path), ManyLangsOptions):
        raise OptionsError(
            f"{path}: expected an ELMo model, found one of ELMoForManyLangs, which is not trained "
            "here"
        )
    content = read_json(path)
    if files is not None and files.vocabulary is not None:
        if vocabulary is None:
            vocabulary = read_vocabulary(files.vocabulary)
        elif not content.get("char_cnn"):
            raise InputError(
                f"{files.name}: a word-level model, which is trained with its own vocabulary; "
                "leave out the other"
            )
    return Start(content, str(init_from or options_file), files, vocabulary)


def count_tokens(text: TrainingText, folder: Path, n_words: int | None) -> int:
    """Count the tokens of a text, and write the lines that are held out of it into a folder.

    So many words, the most frequent, are written as vocab.txt; none for None.
    """
    logger.info("counting the tokens of %s", counted(len(text.paths), "file"))
    words: Counter[str] = Counter()
    held_out, n_sentences = [], 0
    lines = (line for path in text.paths for line, _, _ in lines_from(path))
    for line in filter(None, lines):
        if text.is_validation(line):
            held_out.append(line)
        else:
            for sentence in text.sentences(line):
                words.update(sentence)
                n_sentences += 1
    if n_sentences == 0:
        raise InputError(f"{', '.join(map(str, text.paths))}: no sentence to train on")
    if text.validation_share:
        if not held_out:
            raise InputError(
                f"validation_share {text.validation_share}: expected a line to hold out, found "
                f"none among {counted(n_sentences, 'sentence')}; try a larger share, or name a "
                "validation file"
            )
        write_lines(folder / VALIDATION, held_out)
    if n_words is not None:
        frequent = (word for word, _ in words.most_common(n_words) if word not in SPECIAL_TOKENS)
        write_lines(folder / "vocab.txt", [*SPECIAL_TOKENS, *frequent][:n_words])
    sizes = {"sentence": n_sentences, "token": words.total(), "word": len(words)}
    logger.info(", ".join(counted(number, unit) for unit, number in sizes.items()))
    return words.total()


def start_weights(start: Start, vocabulary: Vocabulary, options: TrainingOptions) -> Objective:
    """A biLM and its softmax: those of the model to start from, random where it has none."""
    torch.manual_seed(options.seed)
    files = start.files
    if files is None:
        bilm = BiLm(parse_options(start.content), vocabulary, dropout=options.dropout)
    else:
        bilm = load_bilm(files).requires_grad_(True).train()
        bilm.dropout.p = options.dropout
    softmax = Softmax(len(vocabulary), bilm.options.lstm.projection_dim)
    if files is not None and files.softmax is not None and files.vocabulary is not None:
        _copy_rows(files.softmax, read_vocabulary(files.vocabulary), softmax, vocabulary)
    elif files is not None:
        logger.info("%s has no softmax here: a new one is trained", files.name)
    return Objective(bilm, softmax)


@torch.no_grad()
def _copy_rows(path: Path, old: Vocabulary, softmax: Softmax, vocabulary: Vocabulary) -> None:
    """Give words the vectors that they have in the softmax of another model."""
    check_softmax(path, len(old), softmax.weight.shape[1])
    [(_, weight, bias)] = read_rows(path, len(old))
    known = [row for row, word in enumerate(vocabulary.words) if word in old]
    rows = old.indices([vocabulary.words[row] for row in known])
    softmax.weight[known] = weight[rows]
    softmax.bias[known] = bias[rows]
    if len(known) < len(vocabulary):
        logger.info("%s has %d of %d words", path, len(known), len(vocabulary))
