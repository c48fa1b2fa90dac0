"""A long sentence in pieces, several of them side by side: fewer steps, with more rows each.

A step with one row reads all weights for that row. An LSTM forgets: two states that read
the same tokens come nearer to each other. So some pieces are run at once from the zero
state, and then those that follow, each from where the one before it ended. Where this comes
to a piece that started from zero, it is run again from the state that was found, and so on
until that makes no difference.

    round 0    piece 0          piece 8          ...    from zero (piece 0 from the true state)
    round 1    piece 1          piece 9          ...    from where these ended
    ...
    round 8    piece 8 again    piece 16 again   ...    from where pieces 7 and 15 ended
    round 9    piece 9 again    ...                     only those that start elsewhere now

The true state comes one piece further in each round, so a model that forgets nothing takes
as many steps as without pieces. (Fixed-point iteration for all states at once: Song et al.,
2021, "Accelerating feedforward computation via parallel nonlinear equation solving".)
"""

import torch
from torch import Tensor

from elmo_cli.inference.batching import pack
from elmo_cli.inference.fast_lstm import FastLstm, Steps
from elmo_cli.inference.input_gates import node_gates
from elmo_cli.model.lstm import LstmState

LONG_SENTENCE = 4096
"""Sentences of more tokens are run in pieces, if no other shares their steps."""
N_PIECES = 64
SIDE_BY_SIDE = 8
"""Pieces in a round: with so few rows, reading the weights takes most of a step's time."""


def run_in_pieces(
    lstm: FastLstm, inputs: Tensor, start: LstmState, tolerance: float
) -> tuple[Tensor, LstmState]:
    """Run over one sentence.

    Args:
        inputs: float, shape (N, P), in the order in which they are read.
        start: where the sentence starts, one row.
        tolerance: how far hidden states and cells may be apart and count as the same.

    Returns:
        The hidden states, float, shape (N, P), and where the sentence ended, one row.
    """
    outputs = torch.empty_like(inputs)  # (N, P)
    length = -(-len(inputs) // N_PIECES)
    n_pieces = -(-len(inputs) // length)
    # Where each piece started and ended. NaN, not known yet, is near nothing.
    starts = LstmState(
        *(values.new_full((n_pieces, values.shape[1]), torch.nan) for values in start)
    )
    ends = LstmState(*map(torch.empty_like, starts))
    pieces = torch.arange(0, n_pieces, -(-n_pieces // SIDE_BY_SIDE))
    for values, first in zip(starts, start, strict=True):
        values[pieces] = 0
        values[0] = first[0]
    while len(pieces):
        _run_round(lstm, inputs, length, pieces, starts, outputs, ends)
        before = pieces[pieces < n_pieces - 1]
        before = before[~_near(starts, before + 1, ends, before, tolerance)]
        pieces = before + 1
        for values, ended in zip(starts, ends, strict=True):
            values[pieces] = ended[before]
    return outputs, LstmState(*(values[-1:] for values in ends))


def _near(
    states: LstmState, rows: Tensor, others: LstmState, other_rows: Tensor, tolerance: float
) -> Tensor:
    """Which rows of two states, int64, shape (n,), differ by no more: bool, shape (n,)."""
    pairs = zip(states, others, strict=True)
    differences = [(a[rows].float() - b[other_rows]).abs().amax(1) for a, b in pairs]
    return (torch.maximum(*differences) <= tolerance).cpu()


def _run_round(
    lstm: FastLstm,
    inputs: Tensor,
    length: int,
    pieces: Tensor,
    starts: LstmState,
    outputs: Tensor,
    ends: LstmState,
) -> None:
    """Run some pieces, int64, shape (n,), from their starts; write their outputs and ends."""
    # Only the last piece may be shorter, and it comes last: the packed order is this one.
    packing = pack((len(inputs) - length * pieces).clamp(max=length).numpy())
    rows = length * pieces[packing.sentences] + torch.from_numpy(packing.positions)
    steps = Steps.of_packed(packing.sizes, inputs.device)
    room = inputs.new_empty(0, 4 * starts.cell.shape[1])
    gates = node_gates(lstm.from_inputs, inputs[rows], packing.sizes, room)
    outputs[rows], ended = lstm.run(gates, steps, LstmState(*(v[pieces] for v in starts)))
    for values, last in zip(ends, ended, strict=True):
        values[pieces[torch.cat(steps.ends).cpu()]] = last
