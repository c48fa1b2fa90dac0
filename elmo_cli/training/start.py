"""What a run starts from: an architecture, a vocabulary, and weights, random or a model's."""

import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmo_cli.errors import InputError, ModelError, OptionsError
from elmo_cli.language_model.softmax import read_softmax
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.options import ManyLangsOptions, parse_options, read_json, read_options
from elmo_cli.model.tensor_files import HDF5_SUFFIXES, SAFETENSORS_SUFFIX
from elmo_cli.model.vocabulary import SPECIAL_TOKENS, Vocabulary, read_vocabulary
from elmo_cli.pretrained.loading import find_model, load_bilm, model_from_files
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.quantities import counted
from elmo_cli.training.checkpoint import CHECKPOINT, other_run, write_text
from elmo_cli.training.corpus import TrainingText, count_text
from elmo_cli.training.loss import Softmax
from elmo_cli.training.options import PRESETS, TrainingOptions

logger = logging.getLogger(__name__)

COUNTS = "counts.json"
VALIDATION = "validation.txt"
VOCABULARY_SIZE = 25_000
"""Words to predict, where they are counted and nobody says how many."""


class Architecture(NamedTuple):
    """What is known of a model before the text is read."""

    content: dict[str, Any]
    """Of its options.json."""
    name: str
    """Where it is from."""
    files: ModelFiles | None
    """Those of the model whose weights are the start."""


def choose_architecture(
    options_file: str | Path | None, preset: str | None, init_from: str | Path | None
) -> Architecture:
    """The architecture of an options.json, of a preset, or of a model to start from.

    Args:
        options_file: with `init_from` only where that is a single file of weights.
        preset: a name of `PRESETS`.
        init_from: a name, folder, zip or file of weights.

    Raises:
        ElmoError: none or two of them are given, or what is given is not as it should be.
    """
    if init_from is not None and Path(init_from).suffix in (*HDF5_SUFFIXES, SAFETENSORS_SUFFIX):
        if options_file is None:
            raise ModelError(f"{init_from}: expected an options file with a single weights file")
        files = model_from_files(options_file, init_from)
    elif [options_file, preset, init_from].count(None) != 2:
        raise ModelError("expected one of an options file, a preset and a model to start from")
    elif preset is not None:
        if preset not in PRESETS:
            raise OptionsError(f"no preset {preset}; there are {', '.join(PRESETS)}")
        return Architecture(PRESETS[preset], preset, None)
    elif options_file is not None:
        _check_kind(options_file)
        return Architecture(read_json(options_file), str(options_file), None)
    else:
        files = find_model(init_from)
    _check_kind(files.options)
    return Architecture(read_json(files.options), str(init_from), files)


def _check_kind(options_file: str | Path) -> None:
    if isinstance(read_options(options_file), ManyLangsOptions):
        raise OptionsError(
            f"{options_file}: expected an ELMo model, found one of ELMoForManyLangs, which is not "
            "trained here"
        )


def written_options(content: dict[str, Any], options: TrainingOptions) -> dict[str, Any]:
    """The options.json of a trained model: its architecture, and how its sentences start."""
    # AllenNLP wants every key to be there.
    lstm = {"cell_clip": None, "proj_clip": None, "use_skip_connections": False}
    written = {"lstm": {**lstm, **content["lstm"]}}
    if content.get("char_cnn") is not None:
        # n_characters is 261 in bilm-tf's training, 262 where a model is used.
        char_cnn = {"max_characters_per_token": 50, **content["char_cnn"], "n_characters": 262}
        written["char_cnn"] = char_cnn
    return {**written, "training": {"state": options.state}}


# The words to predict.


def choose_vocabulary(
    text: TrainingText,
    folder: Path,
    architecture: Architecture,
    vocabulary_file: str | Path | None,
    vocabulary_size: int | None,
    *,
    need_count: bool,
) -> tuple[Vocabulary, int | None]:
    """The words of a file, of the model to start from, or the most frequent of the text.

    The text is read once, unless nothing needs that or an earlier run did: what it
    counted is kept in the folder, as are the lines that are held out.

    Returns:
        The vocabulary, and the tokens of the text where they were counted.
    """
    known = None
    files = architecture.files
    if vocabulary_file is not None:
        known = read_vocabulary(vocabulary_file)
        _check_distinct(known, vocabulary_file)
    elif files is not None and files.vocabulary is not None:
        known = read_vocabulary(files.vocabulary)
    if files is not None and not architecture.content.get("char_cnn"):
        _check_input_words(files, known)
    if known is not None and not need_count and not text.validation_share:
        return known, None
    n_words = None
    if known is None:
        n_words = VOCABULARY_SIZE if vocabulary_size is None else vocabulary_size
    n_tokens = _count_once(text, folder, n_words)
    return known or read_vocabulary(folder / "vocab.txt"), n_tokens


def _check_distinct(vocabulary: Vocabulary, path: str | Path) -> None:
    """Only one of two equal words would be learned, and the other predicted for nothing."""
    lines: dict[str, int] = {}
    for number, word in enumerate(vocabulary.words, start=1):
        before = lines.setdefault(word, number)
        if before != number:
            raise InputError(f"{path}, line {number}: {word!r} is on line {before} already")


def _check_input_words(files: ModelFiles, vocabulary: Vocabulary | None) -> None:
    """A word-level model keeps the words that it reads."""
    if files.vocabulary is None:
        raise ModelError(f"{files.name}: a word-level model, which needs its vocab.txt")
    if vocabulary is not None and vocabulary.words != read_vocabulary(files.vocabulary).words:
        raise InputError(
            f"{files.name}: a word-level model, which is trained with its own vocabulary; leave "
            "out the other"
        )


def _count_once(text: TrainingText, folder: Path, n_words: int | None) -> int:
    """Count the text, unless that was done; vocab.txt gets its words if `n_words` is given."""
    made_of = {
        "text": text.identity(),
        "validation_share": text.validation_share,
        "vocabulary_size": n_words,
    }
    path = folder / COUNTS
    with suppress(OptionsError):  # not there, or damaged: it is made again
        found = read_json(path)
        n_tokens = found.get("n_tokens") if isinstance(found, dict) else None
        if type(n_tokens) is int and n_tokens > 0 and found.get("made_of") == made_of:
            return n_tokens
        if (folder / CHECKPOINT).exists():
            _check_same_text(found.get("made_of"), made_of, folder)
    logger.info("counting the tokens of %s", counted(len(text.paths), "file"))
    held_out: list[str] = []
    n_sentences, words_counted = count_text(text, held_out.append)
    if text.validation_share and not held_out:
        raise InputError(
            f"validation_share {text.validation_share}: expected a line to hold out, found none "
            f"among {counted(n_sentences, 'sentence')}; try a larger share, or name a "
            "validation file"
        )
    if text.validation_share:
        write_text(folder / VALIDATION, "".join(f"{line}\n" for line in held_out))
    if n_words is not None:
        frequent = (word for word, _ in words_counted.most_common(n_words))
        words = [*SPECIAL_TOKENS, *(word for word in frequent if word not in SPECIAL_TOKENS)]
        write_text(folder / "vocab.txt", "".join(f"{word}\n" for word in words[:n_words]))
    sizes = {"n_sentences": n_sentences, "n_tokens": words_counted.total()}
    write_text(path, json.dumps({"made_of": made_of, **sizes}) + "\n")
    logger.info(
        "%s, %s, %s",
        counted(n_sentences, "sentence"),
        counted(words_counted.total(), "token"),
        counted(len(words_counted), "word"),
    )
    return words_counted.total()


def _check_same_text(found: Any, made_of: dict[str, Any], folder: Path) -> None:
    """Make sure that the run of a folder had this text: its words and lines are written there.

    Raises:
        ModelError: it had another.
    """
    found = found if isinstance(found, dict) else {}
    changed = [name for name in ("text", "validation_share") if found.get(name) != made_of[name]]
    names = ["text"] if changed else []
    if made_of["vocabulary_size"] not in (None, found.get("vocabulary_size")):
        names.append("vocabulary")
    if names:
        raise other_run(folder, names)


# The weights.


def start_weights(
    architecture: Architecture, vocabulary: Vocabulary, options: TrainingOptions
) -> tuple[BiLm, Softmax]:
    """A biLM and its softmax: random, or those of the model to start from.

    Where the softmax of that model is not there, a new one is trained; words that it
    does not have get random vectors.
    """
    torch.manual_seed(options.seed)
    if architecture.files is None:
        bilm = BiLm(parse_options(architecture.content), vocabulary, dropout=options.dropout)
        return bilm, Softmax(len(vocabulary), bilm.options.lstm.projection_dim)
    files = architecture.files
    bilm = load_bilm(files).requires_grad_(True).train()
    bilm.dropout.p = options.dropout
    softmax = Softmax(len(vocabulary), bilm.options.lstm.projection_dim)
    if files.softmax is None or files.vocabulary is None:
        logger.info("%s has no softmax here: a new one is trained", files.name)
    else:
        _copy_rows(files, vocabulary, softmax)
    return bilm, softmax


@torch.no_grad()
def _copy_rows(files: ModelFiles, vocabulary: Vocabulary, softmax: Softmax) -> None:
    """Give words the vectors that they have in the softmax of another model."""
    assert files.softmax is not None
    assert files.vocabulary is not None
    old = read_vocabulary(files.vocabulary)
    weight, bias = read_softmax(files.softmax, len(old), softmax.weight.shape[1])
    known = [row for row, word in enumerate(vocabulary.words) if word in old]
    rows = old.indices([vocabulary.words[row] for row in known])
    softmax.weight[known] = torch.from_numpy(weight)[rows]
    softmax.bias[known] = torch.from_numpy(bias)[rows]
    if len(known) < len(vocabulary):
        logger.info("%s: its softmax has %d of %d words", files.name, len(known), len(vocabulary))
