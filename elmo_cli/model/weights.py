"""Files of named tensors, and the weights of a biLM in such a file.

A file whose name ends in .safetensors is read by the package of that name (an extra), any other by
h5py. A tensor has one name in both formats, in which "/" separates groups. Shapes are known before
a value is read, and values are read one tensor at a time. Large tensors are mapped where possible:
their memory is pages of the file, which processes share and which the system can drop. A page that
a process writes to becomes private, so that the file never changes.

The names of a biLM's weights are bilm-tf's. `stored_parameters` lists them for reading and writing.
All matrices are stored (in, out):

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import EllipsisType
from typing import Any, Final, NamedTuple

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

from elmo_cli.atomic import open_hdf5, replaced
from elmo_cli.errors import (
    WeightsError,
    first_line,
    load_extra,
    not_read,
    system_reason,
)
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.model_options import ModelOptions
from elmo_cli.model.vocabulary import Vocabulary

Array = NDArray[Any]
Shape = tuple[int, ...]

HDF5_SUFFIXES: Final = (".hdf5", ".h5")
SAFETENSORS_SUFFIX: Final = ".safetensors"
WEIGHTS_SUFFIXES: Final = (*HDF5_SUFFIXES, SAFETENSORS_SUFFIX)

BILM: Final = "the weights of a biLM"
SOFTMAX: Final = "a softmax"

MIN_MAPPED_BYTES = 1 << 20
"""Minimum size of a mapped tensor: a mapping takes whole pages and a file descriptor."""

MAX_ITEMS: Final = 20_000  # datasets and groups; HDF5 is slow with many
_MAX_DEPTH: Final = 10  # groups around a dataset

_DAMAGE: Final = (KeyError, OSError, RuntimeError, TypeError, ValueError)
"""Errors that h5py raises for a damaged file."""


class TensorFile:
    """An open file of tensors. Its methods raise a `WeightsError` for a damaged file."""

    def __init__(self, path: Path, tensors: Mapping[str, Any]) -> None:
        """Wrap the datasets of h5py, or the slices of safetensors, by their names."""
        self.path = path
        self.names = list(tensors)
        self._tensors = tensors

    def _dtype(self, name: str) -> str:
        """Return the data type of a tensor: `float32` in HDF5, `F32` in safetensors."""
        tensor = self._tensors[name]
        return str(
            tensor.dtype if isinstance(tensor, h5py.Dataset) else tensor.get_dtype()
        )

    def is_half(self, name: str) -> bool:
        """Return whether the values of a tensor are float16."""
        return self._dtype(name) in ("float16", "F16")

    def check_kind(self, *kinds: str) -> None:
        """Raise a `WeightsError` for a file that contains no tensor of these kinds."""
        names = {name.partition("/")[0] for name in self.names}
        contents = []
        if names & {"char_embed", "embedding", "RNN_0"}:
            contents.append(BILM)
        if "softmax" in names:  # One file may have both.
            contents.append(SOFTMAX)
        if names & {"sentence_to_index", "0"}:
            contents.append("activations, as `elmo embed` writes them")
        if not set(contents) & set(kinds):
            shown = (
                contents[0]
                if contents
                else ", ".join(sorted(names)[:5]) or "no tensors"
            )
            raise WeightsError(f"{self.path}: expected {kinds[0]}, found {shown}")

    def check_shapes(self, expected: Mapping[str, Shape], source: str) -> None:
        """Raise a `WeightsError` that names all tensors whose shapes differ from `source`."""
        mismatches = [
            f"{name}: expected {shape}, found {found}"
            for name, shape in expected.items()
            if (found := self._shape(name)) != shape
        ]
        if mismatches:
            raise WeightsError(
                f"{self.path} does not fit {source}: {'; '.join(mismatches)}"
            )

    def _shape(self, name: str) -> Shape | str:
        if name not in self._tensors:
            return "no tensor"
        tensor = self._tensors[name]
        return tuple(
            tensor.shape if isinstance(tensor, h5py.Dataset) else tensor.get_shape()
        )

    def read(self, name: str, rows: slice | EllipsisType = ...) -> Array:
        """Read a tensor of floats, or some of its rows, as a float32 copy."""
        dtype = self._dtype(name)
        if not dtype.lstrip("<>").startswith(("f", "F", "BF")):
            raise WeightsError(f"{self.path}: {name}: expected floats, found {dtype}")
        with _reporting_damage(self.path):
            values = self._tensors[name][rows]
            if not isinstance(values, np.ndarray):
                values = (
                    values.float().numpy().copy()
                )  # A view would change with the file.
            return np.asarray(values, dtype=np.float32)

    def load(self, name: str, shape: Shape) -> Tensor:
        """Read a tensor as float32, or map the pages of the file if it is large."""
        values: Array | None = None
        with (
            _reporting_damage(self.path),
            suppress(OSError),
        ):  # Some file systems cannot map files.
            offset = self._offset(name)
            if (
                4 * math.prod(shape) >= MIN_MAPPED_BYTES
                and offset is not None
                and offset % 4 == 0
            ):
                values = np.memmap(self.path, np.float32, "c", offset, shape)
        return torch.from_numpy(self.read(name) if values is None else values)

    def _offset(self, name: str) -> int | None:
        """Return the offset of a tensor in the file; None if it is not contiguous float32."""
        if self._dtype(name) not in ("float32", "F32"):
            return None
        tensor = self._tensors[name]
        if isinstance(tensor, h5py.Dataset):
            offset: int | None = tensor.id.get_offset()
            return offset
        with open(self.path, "rb") as file:
            n_bytes = int.from_bytes(file.read(8), "little")
            return (
                8
                + n_bytes
                + int(json.loads(file.read(n_bytes))[name]["data_offsets"][0])
            )


@contextmanager
def open_tensors(path: str | Path) -> Iterator[TensorFile]:
    """Open a file of tensors. Raise a `WeightsError` if it is missing or damaged."""
    path = Path(path)
    if path.suffix == SAFETENSORS_SUFFIX:
        safetensors = load_extra(str(path), "safetensors", "safetensors")
        with _reporting_damage(path, (OSError, safetensors.SafetensorError)):
            file = safetensors.safe_open(path, framework="pt")  # NumPy has no bfloat16.
    else:
        with _reporting_damage(path):
            file = open_hdf5(path)
    with file:
        with _reporting_damage(path):
            tensors = _find_tensors(file)
        yield TensorFile(path, tensors)


def _find_tensors(file: Any) -> dict[str, Any]:
    """Return all tensors of a file, without links and external data."""
    if not isinstance(file, h5py.File):
        return {name: file.get_slice(name) for name in sorted(file.keys())}
    datasets, numbers = {}, count(1)

    def add(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if next(numbers) > MAX_ITEMS or name.count("/") > _MAX_DEPTH:
            many = f"{MAX_ITEMS:,} datasets and groups, as activations may have"
            problem = (
                f"it has more than {many}, or more than {_MAX_DEPTH} nested groups"
            )
            raise WeightsError(f"{file.filename}: not a model's weights: {problem}")
        if isinstance(item, h5py.Dataset) and not (item.is_virtual or item.external):
            datasets[name] = item

    file.visititems(add)  # It follows no links.
    return datasets


@contextmanager
def _reporting_damage(
    path: Path, errors: tuple[type[Exception], ...] = _DAMAGE
) -> Iterator[None]:
    """Convert errors of h5py and safetensors, which can only mean damage, to a `WeightsError`."""
    try:
        yield
    except WeightsError:
        raise
    except errors as error:
        if isinstance(error, FileNotFoundError):
            raise not_read(path, "weights", error, WeightsError) from None
        if isinstance(error, OSError) and error.errno:
            remedy = ". Give the file in it." if Path(path).is_dir() else ""
            reason = f"cannot read the weights: {system_reason(error)}{remedy}"
            raise WeightsError(f"{path}: {reason}") from None
        if "signature not found" in str(error) and path.stat().st_size:
            remedy = (
                "Download it again."
                if path.suffix == ".hdf5"
                else "Give the HDF5 file."
            )
            raise WeightsError(
                f"{path}: not HDF5, nor named .safetensors. {remedy}"
            ) from None
        reason = f"not a valid weights file: {first_line(error)}"
        raise WeightsError(f"{path}: {reason}. Download it again.") from None


def write_tensors(
    path: str | Path,
    tensors: Iterable[tuple[str, Array]],
    dtype: str,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a file of tensors as `float32` or `float16`. `metadata` are attributes in HDF5."""
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
    # In memory: HDF5 crashes on a full disk, and only the owner can read `save_file`'s file.
    with replaced(path) as partial:
        partial.write_bytes(content)


def below_padding(table: Tensor) -> Tensor:
    """Return a table with an additional first row of zeros, for "no token here"."""
    return torch.cat([table.new_zeros(1, table.shape[1]), table])


class _Form(NamedTuple):
    """Conversions of a parameter from its form in the file to its form in torch, and back."""

    to_parameter: Callable[[Tensor], Tensor]
    to_dataset: Callable[[Tensor], Tensor]


_PLAIN: Final = _Form(lambda values: values, lambda values: values)
_MATRIX: Final = _Form(Tensor.t, Tensor.t)  # (in, out) in the file, (out, in) in torch
_FILTER: Final = _Form(
    lambda values: (
        values[0].permute(2, 1, 0).contiguous()
    ),  # contiguous like its gradient
    lambda values: values.permute(2, 1, 0)[None],
)
"""(1, width, C, count) in the file, (count, C, width) in torch."""
_TABLE: Final = _Form(below_padding, lambda values: values[1:])
"""The file lacks the row for "no token here"."""


class StoredParameter(NamedTuple):
    """Parameter of a `BiLm`, the dataset that stores it, and its form there."""

    dataset: str
    parameter: str
    form: _Form = _PLAIN


def stored_parameters(
    options: ModelOptions, *, projects: bool, projects_features: bool
) -> Iterator[StoredParameter]:
    """Yield all parameters of a `BiLm` that a weights file stores; see `BiLm` for the arguments."""
    if options.char_cnn is None:
        yield StoredParameter("embedding", "token_encoder.embedding.weight", _TABLE)
    else:
        yield StoredParameter(
            "char_embed", "token_encoder.char_embedding.weight", _TABLE
        )
        for i in range(len(options.char_cnn.filters)):
            convolution = f"token_encoder.convolutions.{i}"
            yield StoredParameter(f"CNN/W_cnn_{i}", f"{convolution}.weight", _FILTER)
            yield StoredParameter(f"CNN/b_cnn_{i}", f"{convolution}.bias")
        for k in range(options.char_cnn.n_highway):
            for gate in ("carry", "transform"):
                highway = f"token_encoder.highways.{k}.{gate}"
                yield StoredParameter(
                    f"CNN_high_{k}/W_{gate}", f"{highway}.weight", _MATRIX
                )
                yield StoredParameter(f"CNN_high_{k}/b_{gate}", f"{highway}.bias")
        if projects_features:
            yield StoredParameter(
                "CNN_proj/W_proj", "token_encoder.projection.weight", _MATRIX
            )
            yield StoredParameter("CNN_proj/b_proj", "token_encoder.projection.bias")
    for d, direction in enumerate(("forward", "backward")):
        for layer in range(options.lstm.n_layers):
            cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            lstm = f"{direction}_layers.{layer}"
            yield StoredParameter(f"{cell}/W_0", f"{lstm}.gates.weight", _MATRIX)
            yield StoredParameter(f"{cell}/B", f"{lstm}.gates.bias")
            if projects:
                yield StoredParameter(
                    f"{cell}/W_P_0", f"{lstm}.projection.weight", _MATRIX
                )


def read_weights(
    path: str | Path, options: ModelOptions, vocabulary: Vocabulary | None = None
) -> BiLm:
    """Build a biLM in float32. A `WeightsError` names all tensors that do not fit the options."""
    with open_tensors(path) as file:
        file.check_kind(BILM)
        # bilm-tf writes no projection that keeps the size. Other programs may write one.
        size, characters = options.lstm.projection_dim, options.char_cnn
        has_projection = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0" in file.names
        projects = options.lstm.dim != size or has_projection
        n_features = None if characters is None else characters.n_filters
        features = n_features != size or "CNN_proj/W_proj" in file.names
        with torch.device("meta"), Uninitialized():  # shapes without values
            bilm = BiLm(
                options, vocabulary, projects=projects, projects_features=features
            )
        parameters = bilm.state_dict()
        stored = list(
            stored_parameters(options, projects=projects, projects_features=features)
        )
        shapes = {
            s.dataset: (*s.form.to_dataset(parameters[s.parameter]).shape,)
            for s in stored
        }
        file.check_shapes(shapes, "the options")
        for each in stored:
            values = file.load(each.dataset, shapes[each.dataset])
            parameters[each.parameter] = each.form.to_parameter(values)
    # If any value is not finite, the sum is not. The sum needs only one pass over the values.
    if invalid := [
        s.dataset for s in stored if not parameters[s.parameter].sum().isfinite()
    ]:
        raise not_finite(path, invalid)
    bilm.load_state_dict(parameters, assign=True)
    return bilm.requires_grad_(False).eval()


class Uninitialized(TorchFunctionMode):
    """Context without initializations: torch imports its compiler to fill the meta device."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func.__name__.rstrip("_") in (
            "kaiming_uniform",
            "uniform",
            "normal",
            "constant",
        ):
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def write_weights(path: str | Path, bilm: BiLm) -> None:
    """Write the parameters of a biLM as a weights file: safetensors, or HDF5."""
    parameters = bilm.state_dict()
    stored = stored_parameters(
        bilm.options,
        projects="forward_layers.0.projection.weight" in parameters,
        projects_features="token_encoder.projection.weight" in parameters,
    )
    tensors = (
        (s.dataset, s.form.to_dataset(parameters[s.parameter].detach())) for s in stored
    )
    write_tensors(
        path, ((name, values.cpu().numpy()) for name, values in tensors), "float32"
    )


def not_finite(path: str | Path, names: list[str]) -> WeightsError:
    """Return the error for tensors with values that are not finite."""
    return WeightsError(
        f"{path}: values that are not finite (NaN or infinity) in {names}"
    )
