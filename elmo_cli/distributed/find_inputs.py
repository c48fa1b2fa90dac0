"""Inputs of a distributed run, found by their paths, URIs and patterns.

Inputs are compared by a hash of their bytes, because size and time may stay when the
content changes.
"""

import fnmatch
import glob
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from elmo_cli.distributed.input_files import sha256_of
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.missing_files import folder_error, missing_file_error
from elmo_cli.errors.wording import SAYS_ITS_KIND, counted, listed
from elmo_cli.files.shared_folder import Folder, check_name_is_utf8
from elmo_cli.options.text import TextSettings
from elmo_cli.outputs.part_files import OTHER_FOLDER
from elmo_cli.records.columns_in_text import check_file_is_text
from elmo_cli.records.formats import INPUT_FORMATS_BY_NAME, find_format
from elmo_cli.records.input_format import InputFormat
from elmo_cli.text.sources import STANDARD_INPUT, Source

logger = logging.getLogger(__name__)

_N_THREADS: Final = 16
"""Number of inputs that are hashed at the same time."""


class Input(NamedTuple):
    """An input with the SHA-256 of its bytes."""

    path: str
    sha256: str


def find_inputs(patterns: tuple[str, ...], folder: Folder) -> list[Input]:
    """Find and hash the files of paths, URIs and patterns.

    Files in the output `folder` are skipped.
    """
    paths = find_paths(patterns, folder)
    with ThreadPoolExecutor(_N_THREADS) as pool:
        hashes = list(pool.map(sha256_of, paths))
    return [Input(path, sha256) for path, sha256 in zip(paths, hashes, strict=True)]


def find_paths(patterns: tuple[str, ...], folder: Folder) -> list[str]:
    """Find the files of paths, URIs and patterns outside the output `folder`."""
    paths: list[str] = []
    for pattern in patterns:
        found = _matching_files(pattern)
        outside = [path for path in found if not folder.holds(path)]
        if not outside:
            raise InputError(
                f"{pattern}: the input is in the output folder", remedy=OTHER_FOLDER
            )
        n_inside = len(found) - len(outside)
        if n_inside:
            left_out = counted(n_inside, "file")
            logger.warning(
                "%s: skipped %s in the output folder",
                pattern,
                left_out,
                extra=SAYS_ITS_KIND,
            )
        paths += outside
    return paths


def _matching_files(pattern: str) -> list[str]:
    """Return the files of a pattern, or the pattern itself if it matches no file."""
    check_name_is_utf8(pattern)
    if pattern == STANDARD_INPUT:
        raise InputError(
            "-: standard input cannot be divided into parts",
            remedy="Write it to a file.",
            shell_remedy="Write it to a file, or use `elmo embed`.",
        )
    if os.path.isdir(pattern):
        raise folder_error(pattern)
    if "://" not in pattern:
        paths = [pattern]
        if not os.path.exists(pattern):
            paths = sorted(glob.glob(pattern, recursive=True))
        if not paths:
            raise missing_file_error(pattern, InputError)
        return [os.path.abspath(path) for path in paths]
    folder, _, name_pattern = pattern.rpartition("/")
    names: list[str] = []
    if glob.has_magic(name_pattern):
        names = fnmatch.filter(Folder(folder).names(), name_pattern)
    return [f"{folder}/{name}" for name in names] or [pattern]


def find_input_format(text_settings: TextSettings, path: str) -> InputFormat:
    """Return the format of a file; raise an `InputError` if runs do not support it."""
    source = Source(path)
    input_format = find_format(source, text_settings.input_format)
    if input_format.is_plain and text_settings.input_format is None:
        check_file_is_text(source)
    if not input_format.has_parts:
        problem = f"{path}: {input_format.name} cannot be distributed"
        others = listed(
            (each.name for each in INPUT_FORMATS_BY_NAME.values() if each.has_parts),
            "or",
        )
        raise InputError(
            "{problem}",
            remedy="Convert it to {others}.",
            shell_remedy="Convert it to {others}, or use `elmo embed`.",
            problem=problem,
            others=others,
        )
    return input_format
