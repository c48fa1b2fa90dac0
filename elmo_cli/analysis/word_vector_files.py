"""Files of word vectors, whose suffix chooses their format."""

import gzip
import io
import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors.exceptions import InputError, OutputNameError
from elmo_cli.errors.wording import counted
from elmo_cli.files.atomic import replaced
from elmo_cli.files.output_checks import check_output
from elmo_cli.model.tensor_files import HDF5_SUFFIXES, write_tensors
from elmo_cli.model.vocabulary_files import read_words

logger = logging.getLogger(__name__)


TEXT_SUFFIXES: Final = (".txt", ".vec", ".w2v")


_METADATA: Final = ".metadata.tsv"


# White space, and empty words, that a format cannot store.
_WHITE_SPACE: Final = dict.fromkeys((*TEXT_SUFFIXES, ".bin"), r"\s|^$") | {
    ".tsv": r"[^\S ]"
}


Array = NDArray[np.float32]


Counts = Sequence[int] | None


OnProgress = Callable[[int], object]


def _read_words(path: str | Path, output: Path) -> list[str]:
    words = read_words(path)
    if words == [""]:
        raise InputError(f"{path}: no words. Write one word per line.")
    takes_white_space = _suffix(output) in (*HDF5_SUFFIXES, ".npz")
    for number, word in enumerate(words, start=1):
        if word.split() != [word] and not takes_white_space:
            problem = (
                f"{word[:60]!r} has white space, which {output.suffix} cannot store"
            )
            raise InputError(f"{path}, line {number}: {problem}. Choose HDF5 or npz.")
    return words


def _check_output(path: Path, *sources: str | Path | None, overwrite: bool) -> None:
    if _suffix(path) not in _WRITERS:
        known = ".vec, .txt or .w2v (.gz may follow), .bin, .npz, .tsv, .hdf5 or .h5"
        raise OutputNameError(
            f"{path}: unknown suffix {path.suffix!r}. Choose {known}."
        )
    metadata = [path.with_suffix(_METADATA)] if _suffix(path) == ".tsv" else []
    for file in (path, *metadata):
        check_output(file, *sources, overwrite=overwrite)


def _suffix(path: Path) -> str:
    """Return the suffix that chooses the format. `.gz` may follow a suffix of text."""
    text = Path(path.name.removesuffix(".gz")).suffix
    return text if text in TEXT_SUFFIXES else path.suffix


def write(path: Path, words: Sequence[str], vectors: Array, counts: Counts) -> None:
    """Write vectors in the format of a path. Log a warning if some are not finite."""
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        number, first = (
            counted(int((~finite).sum()), "word"),
            words[int(finite.argmin())],
        )
        problem = f"{number} are not finite (NaN or infinity), the first of {first!r}"
        remedy = "Check the weights of the model."
        logger.warning("Warning: %s: the vectors of %s. %s", path, problem, remedy)
    _WRITERS[_suffix(path)](path, _as_lines(path, words), vectors, counts)


def _as_lines(path: Path, words: Sequence[str]) -> Sequence[str]:
    """Replace white space in words, as in New_York, if the format cannot store it."""
    pattern = _WHITE_SPACE.get(_suffix(path), "(?!)")
    changed = [word[:60] for word in words if re.search(pattern, word)]
    if changed:
        shown = (
            f"{counted(len(changed), 'word')} becomes _, for example in {changed[0]!r}"
        )
        logger.warning(
            "Warning: %s: white space in %s. npz and HDF5 keep it.", path, shown
        )
    return [re.sub(pattern, "_", word) for word in words] if changed else words


def _write_hdf5(path: Path, _words: object, vectors: Array, _counts: object) -> None:
    write_tensors(path, [("embedding", vectors)], "float32")


def _write_text(
    path: Path, words: Sequence[str], vectors: Array, _counts: object
) -> None:
    with replaced(path) as partial, open(partial, "wb") as plain:
        raw: Any = plain
        if path.suffix == ".gz":
            # Without the time in the header, equal vectors give equal files.
            raw = gzip.GzipFile("", "wb", compresslevel=6, fileobj=plain, mtime=0)
        with io.TextIOWrapper(raw, encoding="utf-8", newline="\n") as file:
            file.write(f"{len(words)} {vectors.shape[1]}\n")
            for word, row in zip(words, vectors, strict=True):
                file.write(
                    f"{word} {' '.join(f'{value:.6g}' for value in row.tolist())}\n"
                )


def _write_binary(
    path: Path, words: Sequence[str], vectors: Array, _counts: object
) -> None:
    with replaced(path) as partial, open(partial, "wb") as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, row in zip(words, vectors, strict=True):
            file.write(word.encode() + b" " + row.astype("<f4").tobytes() + b"\n")


def _write_npz(
    path: Path, words: Sequence[str], vectors: Array, counts: Counts
) -> None:
    optional: dict[str, Any] = {} if counts is None else {"counts": counts}
    with replaced(path) as partial, open(partial, "wb") as file:
        np.savez(file, words=words, vectors=vectors, **optional)


def _write_tsv(
    path: Path, words: Sequence[str], vectors: Array, counts: Counts
) -> None:
    # The Projector expects a header only if there is more than one column.
    rows = (
        [*words]
        if counts is None
        else ["word\tcount", *map("{}\t{}".format, words, counts)]
    )
    names = path.with_suffix(_METADATA)
    with replaced(names) as metadata, replaced(path) as tensors:
        np.savetxt(tensors, vectors, "%.6g", "\t")
        metadata.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        names.unlink(
            missing_ok=True
        )  # Even a kill never leaves words next to other vectors.


_WRITERS: Final[dict[str, Callable[..., None]]] = {
    **dict.fromkeys(HDF5_SUFFIXES, _write_hdf5),
    **dict.fromkeys(TEXT_SUFFIXES, _write_text),
    ".bin": _write_binary,
    ".npz": _write_npz,
    ".tsv": _write_tsv,
}
