"""LSTM and highway layers as AllenNLP stores them, and ELMoForManyLangs after it.

LSTM        gates in the order i, f, j, o; f with its bias of 1
highway     one matrix: the transform above, and 1 - carry below
"""

import torch
from torch import Tensor

from elmo_cli.model.lstm import FORGET_BIAS


def gates_from_allennlp(values: Tensor) -> Tensor:
    """Return weights of gates, (4 D, ...), in the order i, j, f, o."""
    input_gate, forget_gate, memory, output_gate = values.chunk(4)
    return torch.cat([input_gate, memory, forget_gate, output_gate])


def gates_bias_from_allennlp(values: Tensor) -> Tensor:
    """Return the bias of gates, (4 D,), in the order i, j, f, o.

    It lacks the bias of 1 that an `Lstm` adds to f at run time.
    """
    bias = gates_from_allennlp(values)
    _, _, forget_bias, _ = bias.chunk(4)  # a view
    forget_bias -= FORGET_BIAS
    return bias


def highway_from_allennlp(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the carry and the transform of a highway layer from (2 F, ...)."""
    transform, one_minus_carry = values.chunk(2)
    # Their gate weights the input, ours the transformed input.
    return -one_minus_carry, transform
