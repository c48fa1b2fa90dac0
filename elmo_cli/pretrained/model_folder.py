"""A folder to the files of the model in it."""

from pathlib import Path

from elmo_cli.errors.exceptions import MissingModelError, ModelError
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.pretrained.other_programs import refuse_other_program
from elmo_cli.pretrained.roles import (
    FILE_NAMES,
    find_candidates,
    only_file,
)


def read_folder(folder: Path, name: str, start_of_error: str = "") -> ModelFiles:
    """Return the files of the model in a folder.

    `name` is the name of the model as the user gave it. The error for a folder without
    a model begins with `start_of_error`.
    """
    options = find_candidates(folder, "options")
    weights = find_candidates(folder, "weights")
    if len(options) != 1 or len(weights) != 1:
        raise _no_single_model_error(folder, options, weights, start=start_of_error)
    files = ModelFiles(
        name=name,
        options=options[0],
        weights=weights[0],
        vocabulary=only_file(folder, "vocabulary"),
        softmax=only_file(folder, "softmax"),
    )
    _check_regular(files)
    return files


def _no_single_model_error(
    folder: Path, options: list[Path], weights: list[Path], *, start: str
) -> ModelError | MissingModelError:
    """Return the error for a folder that lacks a file of a model, or has several."""
    if not options and not weights:
        neither = f"neither {FILE_NAMES['options']} nor {FILE_NAMES['weights']}"
        found = [neither]
    else:
        found = []
        for role, paths in (("options", options), ("weights", weights)):
            if not paths:
                found.append(f"no {FILE_NAMES[role]}")
            elif len(paths) > 1:
                names = ", ".join(path.name for path in paths)
                found.append(f"several files that may be {FILE_NAMES[role]}: {names}")
    kind = "no single model" if options and weights else "no model"
    problem = f"{start}{folder}: {kind}: it has {' and '.join(found)}"
    for path in sorted(folder.glob("*")):
        refuse_other_program(path, f"{problem}. {path.name} is")
    if options and weights:
        return ModelError(problem, remedy="Give the two files instead of the folder.")
    return MissingModelError(problem, remedy="Give the folder of a model.")


def _check_regular(files: ModelFiles) -> None:
    """Raise an error for a file that is not a regular one, or of another program."""
    for path in files.paths:
        # Reading a named pipe or a device would never end.
        if not path.is_file():
            raise ModelError(f"{path}: expected a regular file, found another kind")
        if path.suffix != ".pkl":
            refuse_other_program(path)
