"""The start of a run: architecture, vocabulary, and random or given weights."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from elmo_cli.errors.exceptions import (
    InputError,
    ModelError,
    SettingsError,
)
from elmo_cli.errors.messages import Message
from elmo_cli.errors.wording import counted
from elmo_cli.language_model.softmax_file import check_softmax, read_rows
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.json_objects import read_json
from elmo_cli.model.many_langs_config import ManyLangsArchitecture
from elmo_cli.model.options_json import parse_architecture, read_architecture
from elmo_cli.model.tensor_files import WEIGHTS_SUFFIXES
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.model.vocabulary_files import read_vocabulary
from elmo_cli.options.model import ModelSettings
from elmo_cli.pretrained.find_model import find_files_by_settings
from elmo_cli.pretrained.load_bilm import load_bilm
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.pretrained.require_softmax import with_softmax_in_weights
from elmo_cli.training.loss import OutputLayer
from elmo_cli.training.objective import Objective
from elmo_cli.training.presets import PRESETS
from elmo_cli.training.training_settings import StartSettings, TrainingSettings
from elmo_cli.training.word_list import read_word_list
from elmo_cli.types import Sentence

logger = logging.getLogger(__name__)

_VOCABULARY_SIZE = 25_000
"""Default number of words to predict."""
_MIN_COVERAGE = 0.5
"""Minimum share of a text that a vocabulary covers without a warning."""


@dataclass(frozen=True)
class Start:
    """Everything about the model that is known before the text is read."""

    content: Mapping[str, Any]
    """Content of its options.json."""
    name: str
    """Name of the model, preset or file with the architecture."""
    files: ModelFiles | None = None
    """Model whose weights are the start; None for random weights."""
    vocabulary: Vocabulary | None = None
    """None for the most frequent words of the text."""
    vocabulary_file: str | Path | None = None
    """File with these words, if it is not the model's own."""
    n_words: int | None = None
    """Maximum number of words to predict, if the text gives them."""


def choose_start(settings: StartSettings) -> Start:
    """Choose an architecture: of an options.json, a preset, or a model to start from.

    The words to predict are those of `vocabulary_file`, else of the model to start
    from, else the most frequent ones of the text.
    """
    vocabulary = None
    if settings.vocabulary_file is not None:
        vocabulary = read_word_list(settings.vocabulary_file)
    files = None
    content: Mapping[str, Any]
    if settings.preset is not None:
        name = settings.preset
        content = PRESETS[settings.preset]
    else:
        files = _find_files(settings)
        path = settings.options_file if files is None else files.options
        name = str(settings.init_from or path)
        content = _read_architecture(path)
    if files is not None and files.vocabulary is not None:
        if vocabulary is None:
            vocabulary = read_vocabulary(files.vocabulary)
        elif not content.get("char_cnn"):
            raise SettingsError(
                f"{files.name}: a word-level model keeps its own vocabulary",
                remedy="Remove {--vocabulary-file}.",
            )
    n_words = None
    if vocabulary is None:
        n_words = settings.vocabulary_size or _VOCABULARY_SIZE
    elif settings.vocabulary_size is not None:
        logger.warning(
            "%s",
            Message(
                "{--vocabulary-size} has no effect: the words to predict are those of "
                "{name}",
                name=settings.vocabulary_file or name,
            ),
        )
    return Start(
        content=content,
        name=name,
        files=files,
        vocabulary=vocabulary,
        vocabulary_file=settings.vocabulary_file,
        n_words=n_words,
    )


def _find_files(settings: StartSettings) -> ModelFiles | None:
    """Find the files of the model whose weights are the start, if there is one."""
    model = settings.init_from
    if model is None:
        return None
    if Path(model).suffix in WEIGHTS_SUFFIXES:
        if settings.options_file is None:
            raise SettingsError(
                "{--init-from} {model}: a file of weights requires {--options-file}",
                model=model,
            )
        model_settings = ModelSettings(
            options_file=settings.options_file, weight_file=model
        )
    else:
        if settings.options_file is not None:
            raise SettingsError(
                "{--init-from} {model}: the model has options",
                remedy="Remove {--options-file}.",
                model=model,
            )
        model_settings = ModelSettings(model=model)
    return with_softmax_in_weights(find_files_by_settings(model_settings))


def _read_architecture(path: str | Path | None) -> Mapping[str, Any]:
    """Read an options.json, which must describe a model that can be trained."""
    if path is None:
        raise ModelError(
            "no architecture",
            remedy="Give {--preset}, {--options-file} or {--init-from}.",
        )
    if isinstance(read_architecture(path), ManyLangsArchitecture):
        raise ModelError(
            f"{path}: a model of ELMoForManyLangs cannot be trained",
            remedy="Choose an ELMo model.",
        )
    return read_json(path)


def check_coverage(start: Start, path: Path, sentences: Sequence[Sentence]) -> None:
    """Log how much of the beginning of a text the vocabulary covers; warn if little."""
    vocabulary = start.vocabulary
    tokens = [token for sentence in sentences for token in sentence]
    if vocabulary is None or not tokens:
        return
    name = start.vocabulary_file or start.name
    part = f"the first {counted(len(tokens), 'token')} of {path}"
    n_known = sum(token in vocabulary for token in tokens)
    if n_known == 0 and start.vocabulary_file is not None:
        words = ", ".join(repr(word) for word in vocabulary.words[3:6])
        raise InputError(
            f"{name}: none of {part} is in this vocabulary, whose words begin with "
            f"{words}",
            remedy="Give the words as they are in the text, one per line.",
        )
    share = n_known / len(tokens)
    coverage = f"{name}: the vocabulary covers {share:.1%} of {part}"
    if share >= _MIN_COVERAGE:
        logger.info("%s", coverage)
    else:
        logger.warning("%s", coverage)


def start_weights(
    start: Start, vocabulary: Vocabulary, settings: TrainingSettings
) -> Objective:
    """Make a biLM and its softmax from the model to start from, else random ones."""
    torch.manual_seed(settings.seed)
    files = start.files
    if files is None:
        bilm = BiLm(
            parse_architecture(start.content), vocabulary, dropout=settings.dropout
        )
        softmax = OutputLayer(
            n_words=len(vocabulary),
            projection_dim=bilm.architecture.lstm.projection_dim,
        )
        return Objective(bilm, softmax)
    bilm = load_bilm(files).requires_grad_(True).train()
    bilm.dropout.p = settings.dropout
    softmax = OutputLayer(
        n_words=len(vocabulary), projection_dim=bilm.architecture.lstm.projection_dim
    )
    if files.softmax is not None and files.vocabulary is not None:
        old = read_vocabulary(files.vocabulary)
        _copy_rows(files.softmax, old=old, softmax=softmax, vocabulary=vocabulary)
    else:
        logger.info("%s: no softmax on this disk; a new one is trained", files.name)
    return Objective(bilm, softmax)


@torch.no_grad()
def _copy_rows(
    path: Path, old: Vocabulary, softmax: OutputLayer, vocabulary: Vocabulary
) -> None:
    """Copy the rows of the words that another model's softmax has."""
    check_softmax(path, n_words=len(old), dim=softmax.weight.shape[1])
    # All words are read together.
    [(_, weight, bias)] = read_rows(path, len(old))
    rows = [row for row, word in enumerate(vocabulary.words) if word in old]
    words = [vocabulary.words[row] for row in rows]
    old_rows = old.indices(words)
    softmax.weight[rows] = weight[old_rows]
    softmax.bias[rows] = bias[old_rows]
    if len(rows) < len(vocabulary):
        logger.info("%s: %d of %d words", path, len(rows), len(vocabulary))
