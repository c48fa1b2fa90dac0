"""A model as a caller names it to its files: two files, a name or folder, or the default."""

from dataclasses import replace
from pathlib import Path

from elmo_cli.download import OnProgress, silent
from elmo_cli.errors import ModelError
from elmo_cli.pretrained import ModelFiles, find_model, model_from_files


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
    """
    if options_file is not None and weight_file is not None and model is None:
        return model_from_files(options_file, weight_file, vocabulary_file, on_progress)
    if options_file is not None or weight_file is not None:
        raise ModelError("expected options_file and weight_file, or model, or none of them")
    files = find_model(model, on_progress)
    return replace(files, vocabulary=Path(vocabulary_file)) if vocabulary_file else files
