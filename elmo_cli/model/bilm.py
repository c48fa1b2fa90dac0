"""Token vectors to biLM layers: two stacks of LSTMs, one in each direction.

The forward stack reads a sentence from `<S>` to `</S>`, the backward stack from
`</S>` to `<S>`; they never mix (Peters et al., 2018, section 3.1).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_cli.model.lstm import Lstm, LstmState, pack
from elmo_cli.model.options import ModelOptions
from elmo_cli.model.token_encoder import CharacterEncoder, TokenEncoder, WordEncoder, pad_ids
from elmo_cli.model.vocabulary import Vocabulary


class LayerState(NamedTuple):
    """The state of one layer, in both directions."""

    forward: LstmState
    backward: LstmState


BiLmState = list[LayerState]
"""The state of each LSTM layer, from the lowest; a row a sentence."""


class BiLmOutput(NamedTuple):
    """The layers of a padded batch, its boundaries included."""

    layers: Tensor
    """Float, shape (L, B, T + 2, 2 P), zero where the mask is."""
    mask: Tensor
    """Bool, shape (B, T + 2)."""
    state: BiLmState
    """Where each sentence ended."""


class Dropout(nn.Dropout):
    """Torch's, with a random number for four values; on the CPU it draws them on one thread."""

    def forward(self, values: Tensor) -> Tensor:
        """Float, any shape, to the same."""
        if not self.training or self.p in (0, 1) or values.device.type != "cpu":
            return super().forward(values)
        drawn = torch.empty(values.numel() // 4 + 1, dtype=torch.int64).random_(-(2**63), None)
        numbers = drawn.view(torch.int16)[: values.numel()].view(values.shape)
        kept = numbers >= round(self.p * 2**16) - 2**15
        return values * kept.to(values.dtype).mul_(1 / (1 - self.p))


class BiLm(nn.Module):
    """ELMo's bidirectional language model, without its softmax."""

    def __init__(
        self,
        options: ModelOptions,
        vocabulary: Vocabulary | None = None,
        *,
        token_encoder: TokenEncoder | None = None,
        projects: bool = True,
        dropout: float = 0.0,
    ) -> None:
        """Build the modules; `weights.read_weights` fills them.

        Args:
            options: the architecture.
            vocabulary: the words of a word-level model.
            token_encoder: one of another kind, in place of the one that `options` describe.
            projects: False where dim equals projection_dim and the weights have
                no projection after the cell.
            dropout: the share of the inputs of every LSTM that training drops.
        """
        super().__init__()
        self.options = options
        size = options.lstm.projection_dim
        self.token_encoder: TokenEncoder
        if token_encoder is not None:
            self.token_encoder = token_encoder
        elif options.char_cnn is not None:
            self.token_encoder = CharacterEncoder(options.char_cnn, size)
        elif vocabulary is not None:
            self.token_encoder = WordEncoder(vocabulary, size)
        else:
            raise ValueError("a word-level model needs its vocabulary")

        def stack() -> nn.ModuleList:
            return nn.ModuleList(
                Lstm(options.lstm, projects=projects) for _ in range(options.lstm.n_layers)
            )

        self.dropout = Dropout(dropout)
        self.forward_layers = stack()
        self.backward_layers = stack()

    def forward(self, ids: Tensor, state: BiLmState | None = None) -> BiLmOutput:
        """Run over a padded batch, boundaries added.

        Args:
            ids: int64, shape (B, T, 50): `batch_to_ids`; 0 pads.
            state: where each sentence starts; zero if not given. Sentences without
                tokens get no boundaries, and end where they started.
        """
        bounded, mask = self.add_boundaries(ids)
        lengths = (mask.sum(dim=1) - 2).clamp(min=0).tolist()
        return self.run_bounded(
            mask, lengths, lambda rows, columns: self.token_encoder(bounded[rows, columns]), state
        )

    def run_bounded(
        self,
        mask: Tensor,
        lengths: Sequence[int],
        encode: Callable[[Tensor, Tensor], Tensor],
        state: BiLmState | None = None,
    ) -> BiLmOutput:
        """Run over a padded batch that has its boundaries, with a mask of `add_boundaries`.

        `lengths` are without the boundaries. `encode` takes the rows and columns of tokens,
        int64, shape (N,) each, to their token vectors, float, shape (N, P).
        """
        packing = pack([length + 2 if length > 0 else 0 for length in lengths])
        rows, columns, order, reversal = (
            torch.from_numpy(indices).to(mask.device, non_blocking=True)
            for indices in (packing.sentences, packing.positions, packing.order, packing.reversal)
        )
        vectors = encode(rows, columns)  # (N, P)
        start = select_state(state or self.initial_state(len(lengths)), order)
        outputs, ended = self.run_stacks(vectors, vectors[reversal], packing.sizes, start)
        pairs = [(vectors, vectors), *((ahead, behind[reversal]) for ahead, behind in outputs)]
        layers = torch.stack([torch.cat(pair, dim=1) for pair in pairs])  # (L, N, 2 P)
        padded = layers.new_zeros(len(layers), *mask.shape, layers.shape[-1])
        padded[:, rows, columns] = layers  # (L, B, T + 2, 2 P)
        return BiLmOutput(padded, mask, select_state(ended, order.argsort()))

    def run_stacks(
        self, ahead: Tensor, behind: Tensor, sizes: Sequence[int], state: BiLmState
    ) -> tuple[list[tuple[Tensor, Tensor]], BiLmState]:
        """Run each stack over packed token vectors in the order in which it reads them.

        `ahead` is for the forward stack, `behind` for the backward stack, float, shape (N, P);
        the layers are like them. The states are where each sequence starts, and where it ended.
        """
        outputs: list[tuple[Tensor, Tensor]] = []
        ended = []
        for lstms, starts in zip(self.layer_pairs(), state, strict=True):
            found, ends = [], []
            for lstm, values, start in zip(lstms, (ahead, behind), starts, strict=True):
                inputs = self.dropout(values)
                hidden, end = lstm(inputs, sizes, start)
                # Residual connections skip every LSTM but the lowest; the state is without them.
                is_skipped = self.options.lstm.use_skip_connections and len(outputs) > 0
                found.append(hidden + inputs if is_skipped else hidden)
                ends.append(end)
            ahead, behind = found
            outputs.append((ahead, behind))
            ended.append(LayerState(*ends))
        return outputs, ended

    def initial_state(self, n_sentences: int) -> BiLmState:
        """The zero state for `n_sentences` sentences."""
        zero = self.layer_pairs()[0][0].initial_state(n_sentences)
        return [LayerState(zero, zero)] * self.options.lstm.n_layers

    def layer_pairs(self) -> list[tuple[Lstm, Lstm]]:
        """The forward and the backward LSTM of each layer, from the lowest."""
        return [
            (cast(Lstm, ahead), cast(Lstm, behind))
            for ahead, behind in zip(self.forward_layers, self.backward_layers, strict=True)
        ]

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.layer_pairs()[0][0].gates.weight.device

    def sentence_ids(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """The ids of tokenized sentences, as `forward` and `Elmo` take them.

        Returns:
            int64, shape (B, T, C), T the longest sentence; 0 where a sentence has no token.
        """
        return pad_ids(sentences, self.token_encoder.token_ids).to(self.device)

    def add_boundaries(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Put a boundary before and one after each sentence that has tokens.

        Ids, int64, shape (B, T, C), to (B, T + 2, C), and their mask, bool, shape (B, T + 2).
        """
        boundaries = self.token_encoder.token_ids(self.token_encoder.boundaries)
        start, end = boundaries.to(ids.device, non_blocking=True)
        lengths = (ids > 0).any(dim=2).sum(dim=1, keepdim=True)  # (B, 1)
        # Nothing here waits for a GPU: positions are compared, not looked for.
        positions = torch.arange(ids.shape[1] + 2, device=ids.device)
        at_start = (positions == 0) & (lengths > 0)  # (B, T + 2)
        at_end = (positions == lengths + 1) & (lengths > 0)
        bounded = functional.pad(ids, (0, 0, 1, 1))
        bounded = torch.where(at_start[..., None], start, bounded)
        bounded = torch.where(at_end[..., None], end, bounded)
        return bounded, (bounded > 0).any(dim=2)


def select_state(state: BiLmState, rows: Tensor) -> BiLmState:
    """The state of some sentences, in the order of `rows`, int64, shape (B,)."""
    return map_state(state, lambda values: values[rows])


def map_state(state: BiLmState, function: Callable[[Tensor], Tensor]) -> BiLmState:
    """Apply a function to every tensor of a state."""
    return [
        LayerState(*(LstmState(*map(function, direction)) for direction in layer))
        for layer in state
    ]


def state_tensors(state: BiLmState) -> list[Tensor]:
    """The tensors of a state, in the order of `map_state`."""
    return [values for layer in state for direction in layer for values in direction]
