"""Files of named tensors; the weights of a biLM in such a file.

A file is of safetensors where its name ends so, which take the package of that name, an extra of
this one; else HDF5. A tensor has the same name in both; "/" parts names into groups. Shapes are
known before a value is read, and values come one tensor at a time. Large ones of a biLM are not
read where they can be mapped: their memory is pages of the file, shared with other processes and
given back under pressure; those that are written to become private, and the file stays as it is.

The names of a biLM's weights are bilm-tf's: one table, read both ways. All matrices are stored
(in, out):

    char_embed                         (261, C)             character models
    CNN/W_cnn_i, b_cnn_i               (1, width, C, count), (count)
    CNN_high_k/W_carry, W_transform    (F, F), and b_carry, b_transform (F)
    CNN_proj/W_proj, b_proj            (F, P), (P)
    embedding                          (V, P)               word-level models
    RNN_d/RNN/MultiRNNCell/Cell_l/LSTMCell/W_0, B, W_P_0
                                       (2 P, 4 D), (4 D), (D, P)
"""

import io
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import EllipsisType
from typing import Any, Final, NamedTuple

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

from elmo_cli.atomic import replaced
from elmo_cli.errors import WeightsError, first_line, load_extra
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.options import ModelOptions
from elmo_cli.model.vocabulary import Vocabulary

Array = NDArray[Any]
Shape = tuple[int, ...]

HDF5_SUFFIXES: Final = (".hdf5", ".h5")
SAFETENSORS_SUFFIX: Final = ".safetensors"
SUFFIXES: Final = (*HDF5_SUFFIXES, SAFETENSORS_SUFFIX)

BILM: Final = "the weights of a biLM"
SOFTMAX: Final = "a softmax"

MIN_MAPPED_BYTES = 1 << 20
"""Smaller tensors are read: a mapping takes whole pages and a file descriptor."""

_DAMAGE: Final = (KeyError, OSError, RuntimeError, TypeError, ValueError)
"""What h5py raises where a file is damaged."""


class TensorFile:
    """An open file of tensors. Its methods raise a `WeightsError` where it is damaged."""

    def __init__(self, path: Path, tensors: Mapping[str, Any]) -> None:
        """Take h5py's data sets, or the slices of safetensors, by their names."""
        self.path = path
        self.names = list(tensors)
        self._tensors = tensors

    def is_half(self, name: str) -> bool:
        """Whether the values of a tensor are float16."""
        tensor = self._tensors[name]
        if isinstance(tensor, h5py.Dataset):
            return bool(tensor.dtype == np.float16)
        return bool(tensor.get_dtype() == "F16")

    def check_kind(self, *kinds: str) -> None:
        """Raise a `WeightsError` for a file that seems to hold none of these."""
        names = {name.partition("/")[0] for name in self.names}
        if names & {"char_embed", "embedding", "RNN_0"}:
            found = BILM
        elif "softmax" in names:
            found = SOFTMAX
        elif names & {"sentence_to_index", "0"}:
            found = "activations, as `elmo embed` writes them"
        else:
            found = ", ".join(sorted(names)[:5]) or "nothing"
        if found not in kinds:
            raise WeightsError(f"{self.path}: expected {kinds[0]}, found {found}")

    def check_shapes(self, expected: Mapping[str, Shape], source: str) -> None:
        """Raise a `WeightsError` that names all tensors without the shapes of `source`."""
        found = {name: self._shape(name) for name in expected}
        mismatches = [
            f"{name}: expected {shape}, found {found[name]}"
            for name, shape in expected.items()
            if found[name] != shape
        ]
        if mismatches:
            raise WeightsError(f"{self.path} does not fit {source}: {'; '.join(mismatches)}")

    def _shape(self, name: str) -> Shape | str:
        if name not in self._tensors:
            return "nothing"
        tensor = self._tensors[name]
        return tuple(tensor.shape if isinstance(tensor, h5py.Dataset) else tensor.get_shape())

    def read(self, name: str, rows: slice | EllipsisType = ...) -> Array:
        """The values of a tensor, or some of its rows: float32, a copy."""
        with _errors_named(self.path):
            values = self._tensors[name][rows]
            if not isinstance(values, np.ndarray):
                values = values.float().numpy().copy()  # of a view of the file, which may change
            return np.asarray(values, dtype=np.float32)

    def load(self, name: str, shape: Shape) -> Tensor:
        """The values of a tensor, float32: of a large one the pages of the file, if it can be."""
        values: Array | None = None
        with _errors_named(self.path), suppress(OSError):  # some file systems map nothing
            offset = self._offset(name)
            if 4 * math.prod(shape) >= MIN_MAPPED_BYTES and offset is not None and offset % 4 == 0:
                values = np.memmap(self.path, np.float32, "c", offset, shape)
        return torch.from_numpy(self.read(name) if values is None else values)

    def _offset(self, name: str) -> int | None:
        """Where a tensor begins in the file; None if it is not there as float32, in one piece."""
        tensor = self._tensors[name]
        if isinstance(tensor, h5py.Dataset):
            offset: int | None = tensor.id.get_offset()
            return offset if tensor.dtype == np.float32 else None
        if tensor.get_dtype() != "F32":
            return None
        with open(self.path, "rb") as file:
            n_bytes = int.from_bytes(file.read(8), "little")
            return 8 + n_bytes + int(json.loads(file.read(n_bytes))[name]["data_offsets"][0])


@contextmanager
def open_tensors(path: str | Path) -> Iterator[TensorFile]:
    """Open a file of tensors to read; a `WeightsError` if it is missing or damaged."""
    path = Path(path)
    if path.suffix == SAFETENSORS_SUFFIX:
        safetensors = load_extra(str(path), "safetensors", "safetensors")
        with _errors_named(path, (OSError, safetensors.SafetensorError)):
            file = safetensors.safe_open(path, framework="pt")  # numpy has no bfloat16
    else:
        with _errors_named(path):
            file = h5py.File(path, "r")
    with file:
        with _errors_named(path):
            tensors = _find_tensors(file)
        yield TensorFile(path, tensors)


def _find_tensors(file: Any) -> dict[str, Any]:
    """All tensors of a file; none that a link leads to or whose values another file has."""
    if not isinstance(file, h5py.File):
        return {name: file.get_slice(name) for name in sorted(file.keys())}
    found = {}

    def keep(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset) and not (item.is_virtual or item.external):
            found[name] = item

    file.visititems(keep)  # which follows no links
    return found


@contextmanager
def _errors_named(path: Path, errors: tuple[type[Exception], ...] = _DAMAGE) -> Iterator[None]:
    """Name damage: around calls of h5py and safetensors alone, whose errors can mean only that."""
    try:
        yield
    except errors as error:
        if isinstance(error, OSError) and error.errno:
            reason = os.strerror(error.errno)
            raise WeightsError(f"{path}: cannot read the weights: {reason}") from None
        reason = first_line(error)
        message = f"{path}: the weights file is damaged, or is none: {reason}; get it again"
        raise WeightsError(message) from None


def write_tensors(
    path: str | Path,
    tensors: Iterable[tuple[str, Array]],
    dtype: str,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a file of tensors, put together in memory; it appears when it is complete.

    Its values are `float32` or `float16`; `metadata` are the attributes of an HDF5 file.
    """
    path = Path(path)
    content: bytes | memoryview
    if path.suffix == SAFETENSORS_SUFFIX:
        safetensors = load_extra(str(path), "safetensors.numpy", "safetensors")
        values = {name: np.ascontiguousarray(array, dtype) for name, array in tensors}
        content = safetensors.save(values, dict(metadata or {}) or None)
    else:
        buffer = io.BytesIO()
        with h5py.File(buffer, "w") as file:
            file.attrs.update(metadata or {})
            for name, array in tensors:
                file.create_dataset(name, data=array, dtype=dtype)
        content = buffer.getbuffer()
    # Not by the libraries: HDF5 crashes on a full disk, and files of `save_file` are their owner's.
    with replaced(path) as partial:
        partial.write_bytes(content)


# The weights of a biLM.


Transform = Callable[[Tensor], Tensor]


class Entry(NamedTuple):
    """A dataset of the file, and the parameter it is."""

    dataset: str
    parameter: str
    to_parameter: Transform
    to_dataset: Transform


def _entry(dataset: str, parameter: str) -> Entry:
    return Entry(dataset, parameter, lambda values: values, lambda values: values)


def _matrix(dataset: str, parameter: str) -> Entry:
    """(in, out) in the file, (out, in) in torch."""
    return Entry(dataset, parameter, Tensor.t, Tensor.t)


def _filter(dataset: str, parameter: str) -> Entry:
    """(1, width, C, count) in the file, (count, C, width) in torch."""
    return Entry(
        dataset,
        parameter,
        lambda values: values[0].permute(2, 1, 0).contiguous(),  # as its gradient will be
        lambda values: values.permute(2, 1, 0)[None],
    )


def _lookup(dataset: str, parameter: str) -> Entry:
    """A table whose row for "no token here" is not in the file."""
    return Entry(dataset, parameter, below_padding, lambda values: values[1:])


def below_padding(table: Tensor) -> Tensor:
    """A table with a row more, the first, for "no token here"."""
    return torch.cat([table.new_zeros(1, table.shape[1]), table])


def table(options: ModelOptions, *, projects: bool = True) -> Iterator[Entry]:
    """All datasets of a weights file, and the parameters of a `BiLm` they are."""
    if options.char_cnn is None:
        yield _lookup("embedding", "token_encoder.embedding.weight")
    else:
        yield _lookup("char_embed", "token_encoder.char_embedding.weight")
        for i in range(len(options.char_cnn.filters)):
            yield _filter(f"CNN/W_cnn_{i}", f"token_encoder.convolutions.{i}.weight")
            yield _entry(f"CNN/b_cnn_{i}", f"token_encoder.convolutions.{i}.bias")
        for k in range(options.char_cnn.n_highway):
            for gate in ("carry", "transform"):
                highway = f"token_encoder.highways.{k}.{gate}"
                yield _matrix(f"CNN_high_{k}/W_{gate}", f"{highway}.weight")
                yield _entry(f"CNN_high_{k}/b_{gate}", f"{highway}.bias")
        yield _matrix("CNN_proj/W_proj", "token_encoder.projection.weight")
        yield _entry("CNN_proj/b_proj", "token_encoder.projection.bias")
    for d, direction in enumerate(("forward", "backward")):
        for layer in range(options.lstm.n_layers):
            cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            lstm = f"{direction}_layers.{layer}"
            yield _matrix(f"{cell}/W_0", f"{lstm}.gates.weight")
            yield _entry(f"{cell}/B", f"{lstm}.gates.bias")
            if projects:
                yield _matrix(f"{cell}/W_P_0", f"{lstm}.projection.weight")


def read_weights(
    path: str | Path, options: ModelOptions, vocabulary: Vocabulary | None = None
) -> BiLm:
    """Build the biLM of `options` with the weights of a file, in float32.

    All tensors that do not fit the options are named at once, and all that are not finite.
    """
    with open_tensors(path) as file:
        file.check_kind(BILM)
        has_projection = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0" in file.names
        projects = has_projection or options.lstm.dim != options.lstm.projection_dim
        with torch.device("meta"), Uninitialized():  # the shapes only
            bilm = BiLm(options, vocabulary, projects=projects)
        state = bilm.state_dict()
        entries = list(table(options, projects=projects))
        expected = {e.dataset: tuple(e.to_dataset(state[e.parameter]).shape) for e in entries}
        file.check_shapes(expected, "the options")
        for entry in entries:
            values = file.load(entry.dataset, expected[entry.dataset])
            state[entry.parameter] = entry.to_parameter(values)
    # A value that is not finite makes the sum so, which is one pass over the values.
    faulty = [e.dataset for e in entries if not state[e.parameter].sum().isfinite()]
    if faulty:
        raise not_finite(path, faulty)
    bilm.load_state_dict(state, assign=True)
    return bilm.requires_grad_(False).eval()


class Uninitialized(TorchFunctionMode):
    """Skips parameter initialization; the weights file supplies the values.

    Without it, torch imports its whole compiler to fill parameters on the meta device,
    which have no values.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__.rstrip("_") in ("kaiming_uniform", "uniform", "normal", "constant"):
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def write_weights(path: str | Path, bilm: BiLm) -> None:
    """Write the parameters of a biLM as a weights file: safetensors, or HDF5."""
    projects = all(layer.projection is not None for layer in bilm.forward_layers)
    parameters = bilm.state_dict()
    values = (
        (entry.dataset, entry.to_dataset(parameters[entry.parameter].detach()).cpu().numpy())
        for entry in table(bilm.options, projects=projects)
    )
    write_tensors(path, values, "float32")


def not_finite(path: str | Path, names: list[str]) -> WeightsError:
    """The error for tensors with values that are not finite."""
    return WeightsError(f"{path}: values that are not finite (NaN or infinity) in {names}")
