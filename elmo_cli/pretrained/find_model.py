"""A model's name, path or two files to its `ModelFiles`. Start reading here.

find_files_by_settings  any of the ways in which a user gives a model
find_files_by_name      a name or a path: published, on the hub, a folder or a zip file
resolve_model           what is known of a model before it is downloaded
find_resolved_files     the files of such a model, which are not looked for again
"""

import logging
import os
import zipfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from elmo_cli.errors.checks import check_type
from elmo_cli.errors.exceptions import ElmoError, ModelError, SettingsError
from elmo_cli.errors.messages import Message, literal, option_of
from elmo_cli.options.model import ModelSettings
from elmo_cli.pretrained.archive import unpack_once
from elmo_cli.pretrained.hub import HUB_PREFIX, find_in_hub
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.pretrained.model_folder import read_folder
from elmo_cli.pretrained.other_programs import refuse_other_program
from elmo_cli.pretrained.published import download_model
from elmo_cli.pretrained.registry import default_model, model_of_url, published_model
from elmo_cli.pretrained.require_directions import require_both_directions
from elmo_cli.pretrained.require_softmax import require_softmax
from elmo_cli.pretrained.roles import only_file
from elmo_cli.pretrained.unknown_names import no_such_model_error
from elmo_cli.pretrained.url_files import download_if_url

logger = logging.getLogger(__name__)


def find_files_by_settings(
    settings: ModelSettings, *, with_softmax: bool = False
) -> ModelFiles:
    """Find the files of a model from any of the ways to give one.

    Without a vocabulary or softmax, the file next to the weights is used.
    `with_softmax` requires a softmax, and a vocabulary next to it or to the weights.
    Without it, the files are for vectors, which need both directions.
    """
    files = _find_files(settings, with_softmax=with_softmax)
    if not with_softmax:
        require_both_directions(files)
    return files


def _find_files(settings: ModelSettings, *, with_softmax: bool = False) -> ModelFiles:
    """Find the files of a model, whichever directions it has."""
    files = _find_options_and_weights(settings, with_softmax=with_softmax)
    if settings.vocabulary_file is not None:
        vocabulary = download_if_url(settings.vocabulary_file, "vocabulary")
        files = replace(files, vocabulary=vocabulary)
    if settings.softmax_file is not None:
        softmax = download_if_url(settings.softmax_file, "softmax")
        refuse_other_program(softmax)
        files = replace(files, softmax=softmax)
    if with_softmax:
        return require_softmax(files)
    if settings.vocabulary_file is not None:
        _check_reads_words(files)
    return files


def _check_reads_words(files: ModelFiles) -> None:
    if files.architecture.char_cnn is not None:
        raise SettingsError(
            f"{files.name}: the model reads characters and takes no vocabulary",
            remedy="Remove {--vocabulary-file}.",
        )


def _find_options_and_weights(
    settings: ModelSettings, *, with_softmax: bool
) -> ModelFiles:
    """Find the files of a model, before a vocabulary or softmax of its own is given."""
    if isinstance(settings.model, ModelFiles):
        return settings.model
    if settings.options_file is not None and settings.weight_file is not None:
        return _find_two_files(
            options_file=settings.options_file, weight_file=settings.weight_file
        )
    is_softmax_missing = with_softmax and settings.softmax_file is None
    return find_files_by_name(settings.model, with_softmax=is_softmax_missing)


def _find_two_files(*, options_file: str | Path, weight_file: str | Path) -> ModelFiles:
    """Return the files of a model with options and weights given by path or URL."""
    _check_is_file("options_file", options_file)
    _check_is_file("weight_file", weight_file)
    options = download_if_url(options_file, "options")
    weights = download_if_url(weight_file, "weights")
    if weights.suffix != ".pkl":
        refuse_other_program(weights)
    files = ModelFiles(
        name=str(weight_file),
        options=options,
        weights=weights,
        vocabulary=only_file(weights.parent, "vocabulary"),
        softmax=only_file(weights.parent, "softmax"),
    )
    published = model_of_url(str(weight_file))
    if published is None or published != model_of_url(str(options_file)):
        return files
    return replace(files, name=published.name, language=published.language_code)


def _check_is_file(name: str, file: str | Path) -> None:
    """Raise a `SettingsError` for a model or a folder in place of one of its files."""
    option = option_of(name)
    if isinstance(file, str) and file == "":
        raise SettingsError("{option}: the name of the file is empty", option=option)
    if os.path.isdir(file):
        raise SettingsError(
            "{option}: expected a file, found the folder {folder}",
            remedy="Name the file in it.",
            option=option,
            folder=file,
        )
    if isinstance(file, str) and published_model(file) is not None:
        raise SettingsError(
            "{option}: expected a file, found the model {model}",
            remedy=f"Use {{--model {file}}} alone.",
            option=option,
            model=file,
        )


def find_files_by_name(
    name: str | Path | None = None, *, with_softmax: bool = False
) -> ModelFiles:
    """Find the files of a model, and download them, with the softmax if `with_softmax`.

    The name is in the registry or on the hub, or the path of a folder or zip file. A
    `Path` is never a name. By default it is the environment variable ELMO_MODEL, else
    the bundled model.
    """
    start_of_error = ""
    if name is None:
        start_of_error = "ELMO_MODEL: "
        name = default_model()
    check_type("model", name, (str, os.PathLike), "a name or a path")
    if name == "":  # Its Path would be the current folder.
        problem = "the name of the model is empty"
        raise ModelError(problem, remedy="Give a name, a folder or a zip file.")
    if isinstance(name, str):
        published = published_model(name)
        if published is not None:
            if os.path.isdir(name):
                warning = Message(
                    f"{name} means the published model",
                    remedy=f"For the folder, use ./{literal(name)}.",
                )
                logger.warning("%s", warning)
            return download_model(published, with_softmax=with_softmax)
        if name.startswith(HUB_PREFIX):
            return find_in_hub(name, with_softmax=with_softmax)
    path = Path(os.path.expanduser(name))  # An unknown user is left unchanged.
    if os.path.isdir(path):
        return read_folder(path, str(name), start_of_error)
    refuse_other_program(path)
    if not os.path.isfile(path):
        raise no_such_model_error(name, start_of_error)
    if path.suffix != ".zip" and not zipfile.is_zipfile(path):
        problem = "expected a name, a folder or a zip file, found another file"
        raise ModelError(
            f"{path}: {problem}",
            remedy=(
                "Give the folder that has the options.json and the weights of the "
                "model."
            ),
        )
    return replace(read_folder(unpack_once(path), str(name)), archive=path)


@dataclass(frozen=True)
class ResolvedModel:
    """A model that a user named, as far as it is known without a download."""

    settings: ModelSettings
    """How the user named it."""
    language: str | None = None
    """Language code (ISO 639)."""
    tokenizer: str | None = None
    """Tokenizer of its training text. None if unknown, as for published models."""
    files: ModelFiles | None = None
    """Its files, if they have been found."""


def resolve_model(settings: ModelSettings) -> ResolvedModel:
    """Resolve a model before its text is opened. Only one of the hub is downloaded."""
    if settings.options_file is not None:
        published = model_of_url(str(settings.options_file))
        is_local = os.path.isfile(settings.options_file)
    else:
        name = settings.model
        if name is None:
            name = default_model()
        published = published_model(name) if isinstance(name, str) else None
        is_local = True
    if published is not None:
        return ResolvedModel(settings, language=published.language_code)
    if is_local:
        # `find_resolved_files` reports the errors of a model later.
        with suppress(ElmoError):
            files = _find_files(settings)
            return ResolvedModel(
                settings,
                language=files.language,
                tokenizer=files.tokenizer,
                files=files,
            )
    return ResolvedModel(settings)


def find_resolved_files(
    model: ResolvedModel, *, with_softmax: bool = False
) -> ModelFiles:
    """Find the files of a resolved model, unless they have been found.

    A softmax on the hub is not found by `resolve_model`, which does not download it.
    """
    files = model.files
    if files is None:
        return find_files_by_settings(model.settings, with_softmax=with_softmax)
    if not with_softmax:
        require_both_directions(files)
        return files
    if files.softmax is None and files.name.startswith(HUB_PREFIX):
        return find_files_by_settings(model.settings, with_softmax=True)
    return require_softmax(files)
