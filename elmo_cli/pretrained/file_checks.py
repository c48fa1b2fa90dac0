"""Check of a downloaded or copied file before it becomes part of a model."""

from pathlib import Path

from elmo_cli.model.options_json import read_architecture
from elmo_cli.model.vocabulary_files import read_vocabulary
from elmo_cli.pretrained.checksums import check_sha256
from elmo_cli.pretrained.other_programs import refuse_other_program


def check_file(
    path: Path, *, role: str | None, expected_sha256: str | None = None
) -> None:
    """Raise an error unless a file can be read in its role, and has its SHA-256."""
    check_sha256(path, expected_sha256)
    is_pickle = path.suffix == ".pkl"
    if not is_pickle:
        refuse_other_program(path)
    if role == "options":
        read_architecture(path)
    elif role == "vocabulary":
        read_vocabulary(path)
    elif role is not None and not is_pickle:
        from elmo_cli.model.tensor_files import open_tensors

        with open_tensors(path):
            pass
