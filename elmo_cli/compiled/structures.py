"""Arguments of the functions in C: one class per structure that `kernels.c` declares.

The C files describe the fields. A test compares their names, order and types with these
classes.
"""

from ctypes import Structure, c_double, c_int64, c_void_p
from typing import Any, ClassVar, Final

import torch
from torch import Tensor


class Arguments(Structure):
    """Base of all structures. Every field is given by its name."""

    _names: ClassVar[frozenset[str]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._names = frozenset(field[0] for field in cls._fields_)

    def __init__(self, **values: Any) -> None:
        # ctypes would leave missing fields at zero, and C would read from there.
        if values.keys() != self._names:
            wrong = ", ".join(sorted(values.keys() ^ self._names))
            raise TypeError(
                f"{type(self).__name__}: these fields are missing or unknown: {wrong}"
            )
        super().__init__(**values)


def address(values: Tensor | None, dtype: torch.dtype) -> int | None:
    """Return the address of a contiguous tensor of a data type; None for no tensor.

    The caller keeps the tensor until the function in C returns.
    """
    if values is None:
        return None
    if values.dtype != dtype or not values.is_contiguous():
        raise ValueError(
            f"expected a contiguous tensor of {dtype}, found {values.dtype}, strides "
            f"{values.stride()}"
        )
    return values.data_ptr()


class Strides(Arguments):
    """Distances of rows and of blocks in memory."""

    _fields_ = (("row", c_int64), ("block", c_int64))


class Scales(Arguments):
    """What turns sums of whole numbers into values."""

    _fields_ = (("offsets", c_void_p), ("outputs", c_void_p), ("rows", c_void_p))


NO_SCALES: Final = Scales(offsets=None, outputs=None, rows=None)
"""Scales of products in floating point, which need none."""


class Product(Arguments):
    """Product with constant weights: product_float32, product_bfloat16[_tiles]."""

    _fields_ = (
        ("n", c_int64),
        ("n_units", c_int64),
        ("out_dim", c_int64),
        ("inputs", c_void_p),
        ("weights", c_void_p),
        ("bias", c_void_p),
        ("clip", c_double),
        ("out", c_void_p),
        ("strides", Strides),
        ("scales", Scales),
    )


class Rows(Arguments):
    """Rows of the inputs of a product."""

    _fields_ = (
        ("n", c_int64),
        ("dim", c_int64),
        ("n_units", c_int64),
        ("values", c_void_p),
        ("indices", c_void_p),
        ("units", c_void_p),
        ("scales", c_void_p),
    )


class RoundedProduct(Arguments):
    """Product of rows that are rounded first: product_int8, product_int16."""

    _fields_ = (("rows", Rows), ("product", Product))


class Cells(Arguments):
    """Elementwise part of a step of an LSTM: cells_float32, cells_bfloat16."""

    _fields_ = (
        ("n", c_int64),
        ("dim", c_int64),
        ("input_gates", c_void_p),
        ("input_rows", c_void_p),
        ("hidden_gates", c_void_p),
        ("cells", c_void_p),
        ("cell_rows", c_void_p),
        ("clip", c_double),
        ("new_cells", c_void_p),
        ("out", c_void_p),
    )


class Step(Arguments):
    """Step of an LSTM without its projection: step_float32, step_bfloat16_tiles."""

    _fields_ = (
        ("n", c_int64),
        ("dim", c_int64),
        ("n_units", c_int64),
        ("input_gates", c_void_p),
        ("input_rows", c_void_p),
        ("hidden", c_void_p),
        ("weights", c_void_p),
        ("cells", c_void_p),
        ("cell_rows", c_void_p),
        ("clip", c_double),
        ("new_cells", c_void_p),
        ("out", c_void_p),
        ("gate_strides", Strides),
        ("cell_strides", Strides),
        ("new_strides", Strides),
        ("scales", Scales),
    )


class Steps(Arguments):
    """Consecutive steps of an LSTM over a trie: steps_float32 and others."""

    _fields_ = (
        ("n_steps", c_int64),
        ("dim", c_int64),
        ("hidden_dim", c_int64),
        ("n_gates", c_int64),
        ("sizes", c_void_p),
        ("input_gates", c_void_p),
        ("input_rows", c_void_p),
        ("hidden", c_void_p),
        ("cells", c_void_p),
        ("strides", Strides),
        ("parents", c_void_p),
        ("weights", c_void_p),
        ("projection", c_void_p),
        ("cell_clip", c_double),
        ("hidden_clip", c_double),
        ("parent_hidden", c_void_p),
        ("out", c_void_p),
        ("even_cells", c_void_p),
        ("odd_cells", c_void_p),
        ("new_hidden", c_void_p),
        ("n_ended", c_void_p),
        ("ends", c_void_p),
        ("ended_hidden", c_void_p),
        ("ended_cells", c_void_p),
        ("gate_scales", Scales),
        ("projection_scales", Scales),
        ("rounded", c_void_p),
        ("row_scales", c_void_p),
    )


class Highway(Arguments):
    """Elementwise part of a highway layer: highway."""

    _fields_ = (
        ("n", c_int64),
        ("dim", c_int64),
        ("inputs", c_void_p),
        ("carry", c_void_p),
        ("transform", c_void_p),
        ("out", c_void_p),
    )


class Values(Arguments):
    """Values to overwrite by their hyperbolic tangent: tanh_float32."""

    _fields_ = (("n", c_int64), ("dim", c_int64), ("values", c_void_p))


class Words(Arguments):
    """Softmax over words: probabilities_float32 and ..._bfloat16_tiles, logits_..."""

    _fields_ = (
        ("n", c_int64),
        ("n_units", c_int64),
        ("first_word", c_int64),
        ("n_words", c_int64),
        ("contexts", c_void_p),
        ("weights", c_void_p),
        ("bias", c_void_p),
        ("first_targets", c_void_p),
        ("targets", c_void_p),
        ("with_mean", c_int64),
        ("totals", c_void_p),
        ("sums", c_void_p),
        ("target_logits", c_void_p),
        ("logits", c_void_p),
        ("scales", Scales),
    )


class RoundedWords(Arguments):
    """Softmax in contexts that are rounded first: probabilities_int16."""

    _fields_ = (("rows", Rows), ("words", Words))


class TrainingCells(Arguments):
    """Step of an LSTM forwards, in training: training_cells_float32, ..._bfloat16."""

    _fields_ = (
        ("n", c_int64),
        ("dim", c_int64),
        ("gates", c_void_p),
        ("hidden_gates", c_void_p),
        ("cells", c_void_p),
        ("clip", c_double),
        ("new_cells", c_void_p),
        ("out", c_void_p),
    )


class TrainingGradients(Arguments):
    """Step of an LSTM backwards: training_gradients_float32, ..._bfloat16."""

    _fields_ = (
        ("n", c_int64),
        ("dim", c_int64),
        ("gates", c_void_p),
        ("out_gradients", c_void_p),
        ("cells", c_void_p),
        ("clip", c_double),
        ("new_cells", c_void_p),
        ("cell_gradients", c_void_p),
        ("gate_gradients", c_void_p),
    )


class Softmax(Arguments):
    """Softmax over sampled words, in training: softmax_float32, softmax_bfloat16."""

    _fields_ = (
        ("n", c_int64),
        ("dim", c_int64),
        ("logits", c_void_p),
        ("bias", c_void_p),
        ("extra", c_void_p),
        ("ignored", c_void_p),
        ("maxima", c_void_p),
        ("sums", c_void_p),
    )
