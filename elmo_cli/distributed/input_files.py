"""Files of inputs, on a local disk or another file system: opened and hashed."""

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from elmo_cli.errors.exceptions import (
    ElmoError,
    InputError,
    MissingInputError,
    OtherInputError,
)
from elmo_cli.errors.wording import first_line
from elmo_cli.files.shared_folder import find_file_system
from elmo_cli.outputs.part_files import OTHER_FOLDER

_BUFFER_BYTES: Final = 1 << 20


@contextmanager
def open_input_file(path: str) -> Iterator[io.BufferedReader]:
    """Open a file. Errors of the file in the block name it."""
    file_system, inner = find_file_system(path)
    from pyarrow import ArrowInvalid

    try:
        if not file_system.get_file_info(inner).is_file:
            raise MissingInputError(f"{path}: no such file")
        with io.BufferedReader(
            file_system.open_input_file(inner), _BUFFER_BYTES
        ) as file:
            yield file
    except ElmoError:
        raise
    except (ArrowInvalid, OSError) as error:
        raise InputError(
            f"{path}: cannot read the input: {first_line(error)}"
        ) from error


def sha256_of(path: str) -> str:
    """Return the hash of a file."""
    digest = hashlib.sha256()
    with open_input_file(path) as file:
        while content := file.read(_BUFFER_BYTES):
            digest.update(content)
    return digest.hexdigest()


def changed_error(path: str) -> OtherInputError:
    """Return the error for an input that is not the plan's any more."""
    return OtherInputError(
        f"{path}: the file has changed since the plan was made", remedy=OTHER_FOLDER
    )
