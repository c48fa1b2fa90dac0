"""Two stacks of LSTMs that turn token vectors into the layers of a biLM.

The forward stack reads a sentence from `<S>` to `</S>`, the backward stack from `</S>`
to `<S>`. They never mix (Peters et al., 2018, section 3.1). A task learns the weights
of the layers' sum (`ScalarMix`, section 3.2).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_cli.errors.checks import check_type
from elmo_cli.errors.exceptions import InputError
from elmo_cli.model.architecture import Architecture
from elmo_cli.model.lstm import Lstm, LstmState, RunLstm
from elmo_cli.model.packing import pack
from elmo_cli.model.placement import send
from elmo_cli.model.token_encoder import (
    CharacterEncoder,
    TokenEncoder,
    WordEncoder,
    pad_ids,
)
from elmo_cli.model.vocabulary import Vocabulary


class LayerState(NamedTuple):
    """State of one layer, in both directions."""

    forward: LstmState
    backward: LstmState


BiLmState = list[LayerState]
"""One state per LSTM layer, from the lowest. Their tensors have one row per
sentence."""


class BiLmOutput(NamedTuple):
    """Layers of a padded batch, including the boundaries."""

    layers: Tensor
    """Float, shape (L, B, T + 2, W), zero where the mask is zero."""
    mask: Tensor
    """Bool, shape (B, T + 2)."""
    state: BiLmState
    """State at the end of each sentence."""


class Dropout(nn.Dropout):
    """Dropout that draws one random number for four values.

    On the CPU torch draws random numbers on one thread, which would take longer than
    the rest.
    """

    def forward(self, values: Tensor) -> Tensor:
        """Drop values of a float tensor of any shape."""
        if not self.training or self.p in (0, 1) or values.device.type != "cpu":
            return super().forward(values)
        # A number of 64 bits gives four of 16 bits, from -2**15 to 2**15 - 1.
        drawn = values.new_empty(values.numel() // 4 + 1, dtype=torch.int64)
        drawn.random_(-(2**63), None)
        numbers = drawn.view(torch.int16)[: values.numel()].view(values.shape)
        # A share p of all numbers is below this one.
        first_kept = round(self.p * 2**16) - 2**15
        is_kept = numbers >= first_kept
        scale = 1 / (1 - self.p)
        return values * is_kept.to(values.dtype).mul_(scale)


class BiLm(nn.Module):
    """ELMo's bidirectional language model, without its softmax."""

    def __init__(
        self,
        architecture: Architecture,
        vocabulary: Vocabulary | None = None,
        *,
        token_encoder: TokenEncoder | None = None,
        projects: bool = True,
        projects_features: bool = True,
        dropout: float = 0.0,
    ) -> None:
        """Build the modules; `weights.read_weights` fills them.

        Args:
            architecture: Architecture.
            vocabulary: Words of a word-level model.
            token_encoder: Token encoder to use instead of one that is built.
            projects: False if dim equals projection_dim and the weights have no
                projection after the cell.
            projects_features: False if the features of characters have the size
                projection_dim and the weights have no projection of them.
            dropout: Share of the inputs of every LSTM that is dropped in training.

        Raises:
            ValueError: A word-level model has no vocabulary.
        """
        super().__init__()
        self.architecture = architecture
        size = architecture.lstm.projection_dim
        if token_encoder is not None:
            self.token_encoder = token_encoder
        elif architecture.char_cnn is not None:
            self.token_encoder = CharacterEncoder(
                architecture.char_cnn, size, projects=projects_features
            )
        elif vocabulary is not None:
            self.token_encoder = WordEncoder(vocabulary, size)
        else:
            raise ValueError("a word-level model needs its vocabulary")
        self.dropout = Dropout(dropout)
        self.forward_layers = _make_stack(architecture, projects=projects)
        self.backward_layers = _make_stack(architecture, projects=projects)

    def forward(self, ids: Tensor, state: BiLmState | None = None) -> BiLmOutput:
        """Run over a padded batch, after adding the boundaries.

        Args:
            ids: Output of `batch_to_ids`, int64, shape (B, T, 50), padded with 0.
            state: State in which each sentence starts. None means the zero state.

        Raises:
            InputError: `ids` are no such tensor.
        """
        self._check_ids(ids)
        bounded, mask = self.add_boundaries(ids)
        lengths = (mask.sum(dim=1) - 2).tolist()
        return self.run_bounded(
            mask,
            lengths,
            encode=lambda rows, columns: self.token_encoder(bounded[rows, columns]),
            state=state,
        )

    def _check_ids(self, ids: Tensor) -> None:
        """Raise an `InputError` unless ids are whole numbers of the model's shape."""
        check_type(
            "ids",
            ids,
            Tensor,
            "a tensor",
            remedy="Give elmo_cli.batch_to_ids(sentences).",
        )
        n_ids = self.token_encoder.token_ids(self.token_encoder.boundaries).shape[1]
        if ids.dim() != 3 or ids.shape[2] != n_ids:
            raise InputError(
                f"ids: expected shape (B, T, {n_ids}), found {tuple(ids.shape)}"
            )
        if ids.dtype not in (torch.int64, torch.int32):
            raise InputError(f"ids: expected int64, found {ids.dtype}")

    def run_bounded(
        self,
        mask: Tensor,
        lengths: Sequence[int],
        encode: Callable[[Tensor, Tensor], Tensor],
        state: BiLmState | None = None,
        run_lstm: RunLstm | None = None,
    ) -> BiLmOutput:
        """Run over a padded batch that includes its boundaries.

        Args:
            mask: Mask of `add_boundaries`.
            lengths: Number of tokens of each sentence, without the boundaries.
            encode: Function from the rows and columns of tokens in the batch, int64,
                shape (N,) each, to their token vectors, float, shape (N, P).
            state: State in which each sentence starts. None means the zero state.
            run_lstm: Function that runs an LSTM. None means `Lstm.by_steps`.
        """
        packing = pack([length + 2 for length in lengths])
        rows = send(torch.from_numpy(packing.sentences), mask.device)
        columns = send(torch.from_numpy(packing.positions), mask.device)
        order = send(torch.from_numpy(packing.order), mask.device)
        reversal = send(torch.from_numpy(packing.reversal), mask.device)
        vectors = encode(rows, columns)  # (N, P)
        if state is None:
            state = self.initial_state(len(lengths))
        outputs, ended = self.run_stacks(
            forward=vectors,
            backward=vectors[reversal],
            sizes=packing.sizes,
            state=select_state(state, order),
            run_lstm=run_lstm,
        )
        layers = [torch.cat([vectors, vectors], dim=1)]
        for forward, backward in outputs:
            layers.append(torch.cat([forward, backward[reversal]], dim=1))
        packed = torch.stack(layers)  # (L, N, 2 P)
        padded = packed.new_zeros(len(layers), *mask.shape, packed.shape[-1])
        padded[:, rows, columns] = packed  # (L, B, T + 2, 2 P)
        return BiLmOutput(
            layers=padded, mask=mask, state=select_state(ended, order.argsort())
        )

    def run_stacks(
        self,
        forward: Tensor,
        backward: Tensor,
        sizes: Sequence[int],
        state: BiLmState,
        run_lstm: RunLstm | None = None,
    ) -> tuple[list[tuple[Tensor, Tensor]], BiLmState]:
        """Run each stack over packed token vectors in the order in which it reads them.

        Args:
            forward, backward: Token vectors for each stack, float, shape (N, P).
            sizes: Number of sentences that run at each step; see `Lstm.forward`.
            state: State in which each sentence starts.
            run_lstm: Function that runs an LSTM. None means `Lstm.by_steps`.

        Returns:
            The layers of both stacks, shaped like the inputs, and the states at the
            ends.
        """
        outputs: list[tuple[Tensor, Tensor]] = []
        ended: BiLmState = []

        def run_layer(
            lstm: Lstm, values: Tensor, start: LstmState
        ) -> tuple[Tensor, LstmState]:
            inputs = self.dropout(values)
            hidden, end = lstm(inputs, sizes, start, run_lstm)
            # Residual connections skip every LSTM but the lowest. The state excludes
            # them.
            if self.architecture.lstm.use_skip_connections and outputs:
                hidden = hidden + inputs
            return hidden, end

        for lstms, starts in zip(self.layer_pairs(), state, strict=True):
            forward_lstm, backward_lstm = lstms
            forward, forward_end = run_layer(forward_lstm, forward, starts.forward)
            backward, backward_end = run_layer(backward_lstm, backward, starts.backward)
            outputs.append((forward, backward))
            ended.append(LayerState(forward=forward_end, backward=backward_end))
        return outputs, ended

    def initial_state(self, n_sentences: int) -> BiLmState:
        """Return the zero state for `n_sentences` sentences."""
        lowest, _ = self.layer_pairs()[0]
        zero = lowest.initial_state(n_sentences)
        return [
            LayerState(forward=zero, backward=zero)
        ] * self.architecture.lstm.n_layers

    def layer_pairs(self) -> list[tuple[Lstm, Lstm]]:
        """Return the forward and the backward LSTM of each layer, from the lowest."""
        pairs = zip(self.forward_layers, self.backward_layers, strict=True)
        return [
            (cast(Lstm, forward), cast(Lstm, backward)) for forward, backward in pairs
        ]

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        for parameter in self.parameters():
            return parameter.device
        # Replicas (nn.DataParallel) have weights, but no parameters.
        forward, _ = self.layer_pairs()[0]
        return forward.gates.weight.device

    def sentence_ids(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Return the ids of tokenized sentences, as `forward` and `Elmo` take them.

        Returns:
            int64, shape (B, T, C), where T is the length of the longest sentence and C
            is 50, the characters of a token with its markers. 0 pads.

        Raises:
            InputError: `sentences` is not a list of lists of tokens.
        """
        return pad_ids(sentences, self.token_encoder.token_ids).to(self.device)

    def add_boundaries(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Add a boundary before and after each sentence, even an empty one.

        Args:
            ids: int64, shape (B, T, C).

        Returns:
            Ids, int64, shape (B, T + 2, C), and their mask, bool, shape (B, T + 2).
        """
        boundaries = self.token_encoder.token_ids(self.token_encoder.boundaries)
        start, end = send(boundaries, ids.device)
        lengths = (ids > 0).any(dim=2).sum(dim=1, keepdim=True)  # (B, 1)
        # Comparing positions, unlike searching them, does not wait for a GPU.
        positions = torch.arange(ids.shape[1] + 2, device=ids.device)
        is_start = (positions == 0)[:, None]  # (T + 2, 1)
        is_end = (positions == lengths + 1)[:, :, None]  # (B, T + 2, 1)
        bounded = functional.pad(ids, (0, 0, 1, 1))  # (B, T + 2, C)
        bounded = torch.where(is_start, start, bounded)
        bounded = torch.where(is_end, end, bounded)
        mask = (bounded > 0).any(dim=2)
        return bounded, mask


def _make_stack(architecture: Architecture, *, projects: bool) -> nn.ModuleList:
    """Make the LSTMs of one direction, from the lowest."""
    return nn.ModuleList(
        Lstm(architecture.lstm, projects=projects)
        for _ in range(architecture.lstm.n_layers)
    )


def select_state(state: BiLmState, rows: Tensor) -> BiLmState:
    """Return the state of the sentences `rows`, int64, shape (B,), in their order."""
    return map_state(state, lambda values: values[rows])


def map_state(state: BiLmState, function: Callable[[Tensor], Tensor]) -> BiLmState:
    """Apply a function to every tensor of a state."""

    def map_direction(direction: LstmState) -> LstmState:
        return LstmState(
            hidden=function(direction.hidden), cell=function(direction.cell)
        )

    return [
        LayerState(
            forward=map_direction(layer.forward), backward=map_direction(layer.backward)
        )
        for layer in state
    ]


def state_tensors(state: BiLmState) -> list[Tensor]:
    """Return the tensors of a state, in the order in which `state_from` takes them."""
    tensors: list[Tensor] = []
    for layer in state:
        tensors += [layer.forward.hidden, layer.forward.cell]
        tensors += [layer.backward.hidden, layer.backward.cell]
    return tensors


def state_from(tensors: Iterable[Tensor]) -> BiLmState:
    """Return the state of the tensors that `state_tensors` returned."""
    ordered = list(tensors)
    state = []
    for start in range(0, len(ordered), 4):
        hidden, cell, backward_hidden, backward_cell = ordered[start : start + 4]
        state.append(
            LayerState(
                forward=LstmState(hidden, cell),
                backward=LstmState(backward_hidden, backward_cell),
            )
        )
    return state
