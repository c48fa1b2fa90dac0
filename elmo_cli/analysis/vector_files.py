"""Words and a vector each to a file, whose suffix chooses the format.

.hdf5, .h5           a dataset `embedding`, float32, shape (V, W), a row a word: the format of
                     bilm-tf, and of the weights of a word-level model
.txt, .vec, .w2v     word2vec's text format: V and W, then a word and its W values a line;
                     compressed if `.gz` follows
.bin                 word2vec's binary format
.npz                 arrays of NumPy: `words`, `vectors`, and `counts` if they are known
.tsv                 for the Embedding Projector: the values of a word a line; the words, and
                     counts if they are known, are in NAME.metadata.tsv
"""

import gzip
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from elmo_cli.atomic import check_output, replaced
from elmo_cli.errors import OutputError
from elmo_cli.model.tensor_files import HDF5_SUFFIXES, write_rows

DATASET: Final = "embedding"
TEXT_SUFFIXES: Final = (".txt", ".vec", ".w2v")
CHUNK_WORDS: Final = 2048
"""Words that are written at once."""

Array = NDArray[np.float32]


class WordVectors(NamedTuple):
    """Words, and their vectors in chunks of `CHUNK_WORDS`."""

    words: Sequence[str]
    width: int
    chunks: Iterable[Array]
    counts: Sequence[int] | None = None
    """How often each word was used, where that is known."""


def check_vector_file(path: Path, *sources: str | Path | None, overwrite: bool) -> None:
    """Check that a file of vectors can be written, and is none of the inputs.

    Raises:
        OutputError: it has another suffix, or see `check_output`.
    """
    if _suffix(path) not in _WRITERS:
        raise OutputError(
            f"{path}: expected a name that ends in {', '.join(HDF5_SUFFIXES)} for HDF5, in "
            f"{', '.join(TEXT_SUFFIXES)} for word2vec's text (.gz may follow), in .bin for its "
            "binary format, in .npz, or in .tsv for the Embedding Projector"
        )
    for file in (path, _metadata(path)) if _suffix(path) == ".tsv" else (path,):
        for source in sources:
            check_output(file, overwrite=overwrite, source=source)


def takes_white_space(path: Path) -> bool:
    """Whether a word may have white space in a file."""
    return _suffix(path) in (*HDF5_SUFFIXES, ".npz")


def write_vectors(path: Path, vectors: WordVectors) -> None:
    """Write a file, which appears when it is complete.

    Raises:
        OutputError: it cannot be written.
    """
    _WRITERS[_suffix(path)](path, vectors)


def _suffix(path: Path) -> str:
    """The suffix that chooses the format; `.gz` may follow that of text."""
    text = Path(path.name.removesuffix(".gz")).suffix
    return text if text in TEXT_SUFFIXES else path.suffix


def _metadata(path: Path) -> Path:
    return path.with_suffix(".metadata.tsv")


def _write_hdf5(path: Path, vectors: WordVectors) -> None:
    write_rows(path, DATASET, (len(vectors.words), vectors.width), vectors.chunks)


def _pairs(vectors: WordVectors) -> Iterator[tuple[str, Array]]:
    """The words, each with its vector."""
    rows = (row for chunk in vectors.chunks for row in chunk)
    return zip(vectors.words, rows, strict=True)


def _joined(row: Array, separator: str) -> str:
    return separator.join(f"{value:.6g}" for value in row.tolist())


def _write_text(path: Path, vectors: WordVectors) -> None:
    with replaced(path) as partial, _open_text(partial, compressed=path.suffix == ".gz") as file:
        file.write(f"{len(vectors.words)} {vectors.width}\n")
        for word, row in _pairs(vectors):
            file.write(f"{word} {_joined(row, ' ')}\n")


def _open_text(path: Path, *, compressed: bool = False) -> TextIO:
    if compressed:
        # No time in the header, so that equal vectors make equal files.
        raw = gzip.GzipFile(path, "wb", compresslevel=6, mtime=0)
        return io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
    return open(path, "w", encoding="utf-8", newline="\n")


def _write_binary(path: Path, vectors: WordVectors) -> None:
    with replaced(path) as partial, open(partial, "wb") as file:
        file.write(f"{len(vectors.words)} {vectors.width}\n".encode())
        for word, row in _pairs(vectors):
            file.write(word.encode() + b" " + row.astype("<f4").tobytes() + b"\n")


def _write_npz(path: Path, vectors: WordVectors) -> None:
    with replaced(path) as partial, zipfile.ZipFile(partial, "w", allowZip64=True) as archive:

        def member(name: str) -> IO[bytes]:
            return archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True)

        columns: dict[str, Sequence[Any] | None]
        columns = {"words": vectors.words, "counts": vectors.counts}
        for name, column in columns.items():
            if column is not None:
                with member(name) as file:
                    np.lib.format.write_array(file, np.array(column), allow_pickle=False)
        shape = (len(vectors.words), vectors.width)
        with member("vectors") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            for chunk in vectors.chunks:
                file.write(chunk.astype("<f4").tobytes())


def _write_tsv(path: Path, vectors: WordVectors) -> None:
    with ExitStack() as stack:
        partials = [stack.enter_context(replaced(name)) for name in (path, _metadata(path))]
        tensors, metadata = (stack.enter_context(_open_text(partial)) for partial in partials)
        # The Projector takes a line of names for more than one column only.
        metadata.writelines([] if vectors.counts is None else ["word\tcount\n"])
        for number, (word, row) in enumerate(_pairs(vectors)):
            tensors.write(_joined(row, "\t") + "\n")
            count = "" if vectors.counts is None else f"\t{vectors.counts[number]}"
            metadata.write(f"{word}{count}\n")


_WRITERS: Final[dict[str, Callable[[Path, WordVectors], None]]] = {
    **dict.fromkeys(HDF5_SUFFIXES, _write_hdf5),
    **dict.fromkeys(TEXT_SUFFIXES, _write_text),
    ".bin": _write_binary,
    ".npz": _write_npz,
    ".tsv": _write_tsv,
}
