"""A packed file to a file of another format, a few MB in memory at a time.

    npz           an array a record, named as the datasets of AllenNLP's layout
    npy           one array, a row a record: pooled activations only
    safetensors   a tensor a record, named likewise; the attributes as metadata
    parquet       a row a record: number or key, sentence, activations as nested lists

None of these can be added to safely, so a run writes a packed file, which can, and this
is its last step. The names of npz and safetensors are kept in memory, about 1 KB a record.
"""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import ElmoError
from elmo_cli.model.safetensors_tensors import write_safetensors
from elmo_cli.outputs.packed_file import PackedFile
from elmo_cli.outputs.packed_layout import LAYOUT

Array = NDArray[Any]

_ROW_GROUP_BYTES = 1 << 25


def export(form: str, file: PackedFile, path: Path) -> None:
    """Write the records of a packed file in another format.

    Args:
        form: `npz`, `npy`, `safetensors` or `parquet`.
        file: packed, open.
        path: of the new file.

    Raises:
        ElmoError: a package for the format is not installed.
        OSError: the file cannot be written.
    """
    writers = {
        "npz": _write_npz,
        "npy": _write_npy,
        "safetensors": _write_safetensors,
        "parquet": _write_parquet,
    }
    writers[form](file, path)


def check_export(form: str) -> None:
    """Make sure that what a format takes is installed, before anything is computed.

    Raises:
        ElmoError: it is not.
    """
    if form == "parquet":
        _pyarrow()


def _named(file: PackedFile) -> Iterator[tuple[str, Array]]:
    number = 0
    for block in file.blocks():
        for values in block:
            yield _name(file, number), values
            number += 1


def _name(file: PackedFile, number: int) -> str:
    return file.key(number) or str(file.shard.place(number))


def _write_npz(file: PackedFile, path: Path) -> None:
    # As numpy.savez does, which takes all arrays at once.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, values in _named(file):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, values, allow_pickle=False)


def _write_npy(file: PackedFile, path: Path) -> None:
    row_shape = file.shapes(0, 1)[0] if file.n_records else ()
    header = {
        "descr": np.lib.format.dtype_to_descr(file.dtype),
        "fortran_order": False,
        "shape": (file.n_records, *row_shape),
    }
    with open(path, "wb") as target:
        np.lib.format.write_array_header_1_0(target, header)
        for block in file.blocks():
            target.write(np.stack(block).tobytes())


def _write_safetensors(file: PackedFile, path: Path) -> None:
    found = file.shapes(0, file.n_records)
    shapes = {_name(file, number): shape for number, shape in enumerate(found)}
    write_safetensors(path, shapes, _named(file), file.dtype, _metadata(file))


def _write_parquet(file: PackedFile, path: Path) -> None:
    pyarrow = _pyarrow()
    from pyarrow import parquet

    schema: Any = None
    pending: list[Any] = []
    number = 0
    writer: Any = None
    try:
        for block in file.blocks():
            batch = _record_batch(pyarrow, file, number, block)
            number += len(block)
            if writer is None:
                schema = batch.schema.with_metadata({"elmo": json.dumps(_metadata(file))})
                writer = parquet.ParquetWriter(path, schema)
            pending.append(batch)
            if sum(each.nbytes for each in pending) >= _ROW_GROUP_BYTES:
                writer.write_table(pyarrow.Table.from_batches(pending, batch.schema))
                pending = []
        if writer is None:
            empty = pyarrow.table({"number": pyarrow.array([], pyarrow.int64())})
            writer = parquet.ParquetWriter(path, empty.schema)
        elif pending:
            writer.write_table(pyarrow.Table.from_batches(pending, pending[0].schema))
    finally:
        if writer is not None:
            writer.close()


def _record_batch(pyarrow: Any, file: PackedFile, start: int, block: list[Array]) -> Any:
    """Some records as columns."""
    stop = start + len(block)
    places = [file.shard.place(number) for number in range(start, stop)]
    known = file.known(start, stop)
    columns = {"number": pyarrow.array(places, pyarrow.int64())}
    if file.has_keys:
        columns["key"] = pyarrow.array([record.key for record in known], pyarrow.string())
    if file.has_sentences:
        columns["sentence"] = pyarrow.array([record.text for record in known], pyarrow.string())
    columns["activations"] = _nested(pyarrow, file, block)
    return pyarrow.RecordBatch.from_pydict(columns)


def _nested(pyarrow: Any, file: PackedFile, block: list[Array]) -> Any:
    """Arrays as nested lists: of fixed length, but for the axis of tokens."""
    nested = pyarrow.array(np.concatenate([values.reshape(-1) for values in block]))
    sizes = list(block[0].shape)
    token_axis = None if file.pooled else len(sizes) - 2
    for axis in reversed(range(len(sizes))):
        if axis != token_axis:
            nested = pyarrow.FixedSizeListArray.from_arrays(nested, sizes[axis])
            continue
        n_lists = sizes[0] if axis else 1  # a list of tokens for each layer
        lengths = np.repeat([values.shape[axis] for values in block], n_lists)
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        nested = pyarrow.ListArray.from_arrays(ends, nested)
    return nested


def _metadata(file: PackedFile) -> dict[str, str]:
    return {name: text for name, text in file.file_attributes.items() if name != LAYOUT}


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ElmoError(
            'format parquet needs a package that is not installed; pip install "elmo-cli[parquet]"'
        ) from None
    return pyarrow
