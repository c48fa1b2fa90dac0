"""Errors for missing files, and where they advise what."""

from pathlib import Path

import pytest

from elmo_cli import read_targets
from elmo_cli.errors.exceptions import (
    InputError,
    MissingFileError,
    MissingInputError,
    ModelError,
    WeightsError,
)
from elmo_cli.errors.messages import spelled_as_options
from elmo_cli.errors.missing_files import missing_file_error, unreadable_file_error


class OwnInputError(InputError, MissingFileError):
    """Second subclass of the same two kinds, as a program of a user may define."""


@pytest.mark.parametrize("kind", [InputError, ModelError, WeightsError])
def test_a_missing_file_is_an_error_of_its_kind_and_a_file_not_found_error(
    kind: type[InputError],
) -> None:
    error = missing_file_error("no/such/file", kind)
    assert isinstance(error, kind)
    assert isinstance(error, FileNotFoundError)
    assert str(error) == "no/such/file: no such file"


def test_another_subclass_of_a_user_changes_nothing() -> None:
    assert type(missing_file_error("missing", InputError)) is MissingInputError


def test_a_missing_file_suggests_one_with_a_similar_name(folder: Path) -> None:
    (folder / "corpus.txt").touch()
    error = missing_file_error(folder / "corpsu.txt", InputError, remedy="Name a file.")
    assert str(error).endswith("Did you mean 'corpus.txt'? Name a file.")


def test_vectors_are_not_suggested_for_a_list_of_words(folder: Path) -> None:
    (folder / "bank.parquet").touch()
    with pytest.raises(MissingInputError) as error:
        read_targets("bank")
    assert str(error.value) == (
        "bank: no such file. Give the name of a file with one word per line."
    )


@pytest.mark.parametrize(
    ("missing", "there"),
    [
        ("corpsu.txt", "corpus.txt"),
        ("corpus.txt", "corpus.txt.gz"),
        ("corpus.txt", "corpus.csv"),
        ("corpus", "corpus.txt"),
        ("CORPUS.TXT", "corpsu.txt"),
    ],
)
def test_a_file_is_similar_with_the_same_suffix_or_the_same_name(
    missing: str, there: str, folder: Path
) -> None:
    (folder / there).touch()
    error = missing_file_error(missing, InputError)
    assert str(error) == f"{missing}: no such file. Did you mean {there!r}?"


@pytest.mark.parametrize(
    ("missing", "there"), [("no.txt", "o.hdf5"), ("a.txt", "b.txt"), ("text", "te.h5")]
)
def test_another_kind_of_file_or_another_name_is_not_suggested(
    missing: str, there: str, folder: Path
) -> None:
    (folder / there).touch()
    error = missing_file_error(missing, InputError)
    assert str(error) == f"{missing}: no such file"


def test_advice_for_the_shell_is_not_shown_in_python() -> None:
    for cause in (FileNotFoundError(2, "gone"), IsADirectoryError(21, "a folder")):
        error = unreadable_file_error(
            "a", "input", cause, InputError, shell_remedy="Pipe it."
        )
        assert "Pipe" not in str(error)
        assert spelled_as_options(error).endswith(". Pipe it.")
