"""Files of word vectors. The suffix chooses the format: see docs/word-vectors.md."""

import gzip
import io
import logging
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import h5py
import numpy as np

from elmo_cli.arrays import FloatArray
from elmo_cli.errors.checks import check_sentence
from elmo_cli.errors.exceptions import InputError, OutputNameError
from elmo_cli.errors.messages import Message
from elmo_cli.errors.wording import counted, unknown_suffix
from elmo_cli.files.atomic import new_file
from elmo_cli.files.output_checks import check_output
from elmo_cli.files.output_names import partial_path
from elmo_cli.files.pairs import changed_with_vectors, complete_change
from elmo_cli.model.tensor_files import HDF5_SUFFIXES
from elmo_cli.model.vocabulary_files import read_words

logger = logging.getLogger(__name__)

TEXT_SUFFIXES: Final = (".txt", ".vec", ".w2v")
_METADATA: Final = ".metadata.tsv"
_NOT_STORED: Final = {
    **dict.fromkeys((*TEXT_SUFFIXES, ".bin"), re.compile(r"\s|^$")),
    ".tsv": re.compile(r"[^\S ]"),
    **dict.fromkeys(HDF5_SUFFIXES, re.compile("\0")),
}
"""Characters, and empty words, that a format cannot store."""

Counts = Sequence[int] | None


class _Writer(Protocol):
    """Writer of one format; see `write_vectors_file`."""

    def __call__(
        self,
        path: Path,
        words: Sequence[str],
        vectors: FloatArray,
        counts: Counts,
        /,
        *,
        overwrite: bool,
    ) -> None: ...


def check_vectors_file(
    path: Path, *sources: str | Path | None, overwrite: bool
) -> None:
    """Raise an `OutputError` unless vectors can be written to a path.

    `sources` are the files that are read; None is no file.
    """
    suffix = _suffix(path)
    if suffix not in _WRITERS:
        raise OutputNameError(
            unknown_suffix(path),
            remedy=(
                "Choose .vec, .txt or .w2v (.gz may follow), .bin, .npz, .tsv, .hdf5 "
                "or .h5."
            ),
        )
    if suffix == ".tsv":
        names = path.with_suffix(_METADATA)
        complete_change(names, path, partial_path(path))
        check_output(names, *sources, may_exist=overwrite)
    check_output(path, *sources, may_exist=overwrite)


def words_for(output: Path, words: str | Path | Sequence[str]) -> list[str]:
    """Return the words of a list, or of a file with one per line.

    Raises:
        InputError: There are no words, or `output` cannot store one.
    """
    if isinstance(words, (str, Path)):
        return _read_words_for(output, words)
    listed = check_sentence(words, "words", "a list of words or the path of a file")
    if not listed:
        raise InputError("words: expected a list of words, found an empty one")
    index = _index_of_phrase(listed)
    if index is not None and not _stores_phrases(output):
        raise InputError(
            f"words[{index}]: {listed[index][:60]!r} has white space, which "
            f"{output.suffix} cannot store",
            remedy="Choose HDF5 or npz.",
        )
    return listed


def _read_words_for(output: Path, path: str | Path) -> list[str]:
    words = read_words(path)
    if words == [""]:
        raise InputError(f"{path}: no words", remedy="Write one word per line.")
    index = _index_of_phrase(words)
    if index is None:
        return words
    line_number = index + 1
    shown_phrase = repr(words[index][:60])
    remedy = "If the file is a text, use corpus={quoted}."
    shell_remedy = "If the file is a text, use `elmo word-vectors {typed} OUTPUT`."
    if not _stores_phrases(output):
        if not words[index]:
            raise InputError(
                f"{path}, line {line_number}: no word", remedy="Remove the blank line."
            )
        raise InputError(
            "{path}, line {line_number}: {phrase} has white space, which {suffix} "
            "cannot store",
            remedy=f"Choose HDF5 or npz. {remedy}",
            shell_remedy=f"Choose HDF5 or npz. {shell_remedy}",
            path=path,
            line_number=line_number,
            phrase=shown_phrase,
            suffix=output.suffix,
            quoted=repr(str(path)),
            typed=shlex.quote(str(path)),
        )
    n_phrases = sum(1 for word in words if _is_phrase(word))
    logger.warning(
        "%s",
        Message(
            "{path}: {n_lines} {fault}, such as line {number}: {phrase}. Each line "
            "becomes one word",
            remedy=remedy,
            shell_remedy=shell_remedy,
            quoted=repr(str(path)),
            typed=shlex.quote(str(path)),
            path=path,
            n_lines=counted(n_phrases, "line"),
            number=line_number,
            phrase=shown_phrase,
            fault="with white space" if all(words) else "with white space or no word",
        ),
    )
    return words


def _is_phrase(word: str) -> bool:
    """Return whether a word has white space, or nothing else."""
    return word.split() != [word]


def _index_of_phrase(words: Sequence[str]) -> int | None:
    for index, word in enumerate(words):
        if _is_phrase(word):
            return index
    return None


def _stores_phrases(output: Path) -> bool:
    """Return whether a format stores words with white space."""
    return _suffix(output) in (*HDF5_SUFFIXES, ".npz")


def write_vectors_file(
    path: Path,
    words: Sequence[str],
    vectors: FloatArray,
    counts: Counts = None,
    *,
    overwrite: bool = False,
) -> None:
    """Write the vectors of words, shape (V, W), in the format of a path.

    Args:
        path: Path.
        words: V words. Log a warning for characters that the format cannot store.
        vectors: Vectors. Log a warning if some are not finite.
        counts: Numbers of occurrences of the words, for npz, HDF5 and tsv. None writes
            no counts.
        overwrite: Replace an existing file, which is else kept.
    """
    is_finite = np.isfinite(vectors).all(axis=1)
    if not is_finite.all():
        n_others = int((~is_finite).sum())
        first = words[int(is_finite.argmin())]
        warning = Message(
            f"{path}: the vectors of {counted(n_others, 'word')} are not finite (NaN "
            f"or infinity), the first of {first!r}",
            remedy="Check the weights of the model.",
        )
        logger.warning("%s", warning)
    write = _WRITERS[_suffix(path)]
    shown = _storable_words(path, words)
    write(path, shown, vectors, counts, overwrite=overwrite)


def _suffix(path: Path) -> str:
    """Return the suffix that chooses the format. `.gz` may follow a suffix of text."""
    suffix = Path(path.name.removesuffix(".gz")).suffix
    return suffix if suffix in TEXT_SUFFIXES else path.suffix


def _storable_words(path: Path, words: Sequence[str]) -> Sequence[str]:
    """Replace what the format cannot store in words, as in New_York."""
    pattern = _NOT_STORED.get(_suffix(path))
    if pattern is None:
        return words
    changed = [word for word in words if pattern.search(word)]
    if not changed:
        return words
    words_changed = counted(len(changed), "word")
    effect = f"white space in {words_changed} becomes _"
    remedy = "npz and HDF5 keep it."
    if _suffix(path) in HDF5_SUFFIXES:
        effect = f"zero bytes in {words_changed} become _"
        remedy = "npz keeps them."
    example = changed[0][:60]
    logger.warning("%s: %s, for example in %r. %s", path, effect, example, remedy)
    return [pattern.sub("_", word) for word in words]


def _write_hdf5(
    path: Path,
    words: Sequence[str],
    vectors: FloatArray,
    counts: Counts,
    *,
    overwrite: bool,
) -> None:
    # The content is made in memory, because HDF5 crashes on a full disk.
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as hdf5:
        hdf5.create_dataset("embedding", data=vectors, dtype=np.float32)
        hdf5.create_dataset("words", data=list(words), dtype=h5py.string_dtype())
        if counts is not None:
            hdf5.create_dataset("counts", data=counts, dtype=np.int64)
    with new_file(path, overwrite=overwrite) as file:
        file.write(buffer.getbuffer())


def _write_text(
    path: Path,
    words: Sequence[str],
    vectors: FloatArray,
    _counts: object,
    *,
    overwrite: bool,
) -> None:
    with new_file(path, overwrite=overwrite) as plain:
        raw: Any = plain
        if path.suffix == ".gz":
            # Without the time in the header, equal vectors give equal files.
            raw = gzip.GzipFile("", "wb", compresslevel=6, fileobj=plain, mtime=0)
        with io.TextIOWrapper(raw, encoding="utf-8", newline="\n") as file:
            file.write(f"{len(words)} {vectors.shape[1]}\n")
            for word, row in zip(words, vectors, strict=True):
                numbers = " ".join(f"{value:.6g}" for value in row.tolist())
                file.write(f"{word} {numbers}\n")


def _write_binary(
    path: Path,
    words: Sequence[str],
    vectors: FloatArray,
    _counts: object,
    *,
    overwrite: bool,
) -> None:
    with new_file(path, overwrite=overwrite) as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, row in zip(words, vectors, strict=True):
            file.write(word.encode() + b" " + row.astype("<f4").tobytes() + b"\n")


def _write_npz(
    path: Path,
    words: Sequence[str],
    vectors: FloatArray,
    counts: Counts,
    *,
    overwrite: bool,
) -> None:
    arrays: dict[str, Any] = {"words": words, "vectors": vectors}
    if counts is not None:
        arrays["counts"] = counts
    with new_file(path, overwrite=overwrite) as file:
        np.savez(file, **arrays)


def _write_tsv(
    path: Path,
    words: Sequence[str],
    vectors: FloatArray,
    counts: Counts,
    *,
    overwrite: bool,
) -> None:
    # The Projector expects a header only if there is more than one column.
    if counts is None:
        rows = list(words)
    else:
        rows = ["word\tcount"]
        rows += [f"{word}\t{n}" for word, n in zip(words, counts, strict=True)]
    metadata = "".join(f"{row}\n" for row in rows).encode()
    names = path.with_suffix(_METADATA)
    with (
        changed_with_vectors(names, metadata, path, overwrite=overwrite),
        new_file(path, overwrite=overwrite) as tensors,
    ):
        np.savetxt(tensors, vectors, "%.6g", "\t")


_WRITERS: Final[dict[str, _Writer]] = {
    **dict.fromkeys(HDF5_SUFFIXES, _write_hdf5),
    **dict.fromkeys(TEXT_SUFFIXES, _write_text),
    ".bin": _write_binary,
    ".npz": _write_npz,
    ".tsv": _write_tsv,
}
