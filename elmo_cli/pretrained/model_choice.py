"""A model as a caller names it to its files: two files, a name or folder, or the default.

`choose_model` finds what embedding takes, `choose_language_model` what predicting takes.
"""

from dataclasses import replace
from pathlib import Path

from elmo_cli.errors import InputError, ModelError
from elmo_cli.model.options import reads_words
from elmo_cli.pretrained.download import OnProgress, silent
from elmo_cli.pretrained.loading import (
    find_model,
    local_file,
    model_from_files,
    models_with_softmax,
)
from elmo_cli.pretrained.model_files import ModelFiles, only_file


def choose_model(
    model: str | Path | None = None,
    options_file: str | Path | None = None,
    weight_file: str | Path | None = None,
    vocabulary_file: str | Path | None = None,
    on_progress: OnProgress = silent,
) -> ModelFiles:
    """Find the files of a model.

    Args:
        model: a name or folder; the default model if nothing is given.
        options_file: options.json, a path or URL; with `weight_file`, in place of `model`.
        weight_file: weights.hdf5, a path or URL.
        vocabulary_file: the words of a word-level model, in place of those beside its weights.
        on_progress: told of each piece of a download.

    Raises:
        ModelError: the model is not there, or named twice or by half.
        InputError: a vocabulary is named for a model that reads characters.
    """
    named = (model, options_file, weight_file, vocabulary_file)
    files = _find(*named, on_progress, with_softmax=False)
    if vocabulary_file is not None and not reads_words(files.options):
        raise InputError(
            f"{files.name}: a model that reads characters takes no vocabulary; leave "
            "--vocabulary-file out"
        )
    return files


def _find(
    model: str | Path | None,
    options_file: str | Path | None,
    weight_file: str | Path | None,
    vocabulary_file: str | Path | None,
    on_progress: OnProgress,
    *,
    with_softmax: bool,
) -> ModelFiles:
    if options_file is not None and weight_file is not None and model is None:
        return model_from_files(options_file, weight_file, vocabulary_file, on_progress)
    if options_file is not None or weight_file is not None:
        raise ModelError("expected options_file and weight_file, or model, or none of them")
    files = find_model(model, on_progress, with_softmax=with_softmax)
    if not vocabulary_file:
        return files
    return replace(files, vocabulary=local_file(vocabulary_file, "vocabulary", on_progress))


def choose_language_model(
    model: str | Path | None = None,
    options_file: str | Path | None = None,
    weight_file: str | Path | None = None,
    vocabulary_file: str | Path | None = None,
    softmax_file: str | Path | None = None,
    on_progress: OnProgress = silent,
) -> ModelFiles:
    """Find the files of a model, its softmax and the vocabulary of that among them.

    Args:
        model, options_file, weight_file, on_progress: as in `choose_model`.
        vocabulary_file: the words of the softmax, a path or URL; the vocabulary beside the
            weights, else beside the softmax, if not given.
        softmax_file: the softmax, a path or URL; that beside the weights if not given.

    Raises:
        ModelError: one of them is not there.
    """
    files = _find(
        *(model, options_file, weight_file, vocabulary_file, on_progress),
        with_softmax=softmax_file is None,
    )
    if softmax_file is not None:
        files = replace(files, softmax=local_file(softmax_file, "softmax", on_progress))
    if files.softmax is None:
        raise ModelError(
            f"{files.name}: no softmax, which predicting words needs; expected softmax.hdf5 "
            f"beside {files.weights}, or --softmax-file; models that have one: "
            f"{', '.join(models_with_softmax())}"
        )
    vocabulary = files.vocabulary or only_file(files.softmax.parent, "vocabulary")
    if vocabulary is None:
        raise ModelError(
            f"{files.name}: no vocabulary, the words of its softmax; expected vocab.txt beside "
            f"{files.softmax}, or --vocabulary-file"
        )
    return replace(files, vocabulary=vocabulary)
