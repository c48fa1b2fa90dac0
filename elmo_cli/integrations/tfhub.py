"""`HubElmo`: a module with the outputs of TF-Hub's `google/elmo`."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_cli.errors import InputError, ModelError
from elmo_cli.inference.compilation import uncompiled
from elmo_cli.inference.fast_bilm import BiLmRunner
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.scalar_mix import ScalarMix
from elmo_cli.pretrained.loading import find_model, load_bilm
from elmo_cli.text.records import Sentence, check_sentence


class HubElmo(nn.Module):
    """A biLM and the weighted sum of its layers.

    Every sentence starts from the zero state. Padding is zero in the outputs and has no
    influence on other values.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        trainable: bool = False,
        *,
        requires_grad: bool = False,
        module: BiLm | None = None,
    ) -> None:
        """Load a model by its name; the default one if neither `model` nor `module` is given.

        Args:
            trainable: Train the mix, as in versions 2 and 3: the weights of the layers (before
                the softmax, initially 0) and the scale (initially 1).
            requires_grad: Train the biLM too; otherwise a `module` keeps its own setting.
            module: biLM in place of `model`.

        Raises:
            ElmoError: The model is missing or invalid, or is given twice.
        """
        super().__init__()
        if model is not None and module is not None:
            raise ModelError("expected model or module, found both")
        self.bilm = load_bilm(find_model(model)) if module is None else module
        if requires_grad:
            self.bilm.requires_grad_(True)
        self._runner = BiLmRunner()
        with torch.device(next(self.bilm.parameters()).device):
            self.mix = ScalarMix(self.bilm.options.n_layers, trainable=trainable)

    @uncompiled
    def forward(
        self,
        sentences: Sequence[str] | Sequence[Sequence[str]],
        lengths: Sequence[int] | Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Embed sentences.

        Args:
            sentences: B sentences, split on spaces (the signature `default`), or the tokens
                of B sentences, each padded to T with "" (the signature `tokens`).
            lengths: Number of tokens of each sentence without padding (`sequence_len`), for
                tokens only. None: each "" at the end of a sentence is padding.

        Returns:
            Tensors on the device of the biLM, with W the width of its layers:
            `word_emb`, float, shape (B, T, W / 2): the token layer.
            `lstm_outputs1`, `lstm_outputs2`, ...: the LSTM layers, float, shape (B, T, W).
            `elmo`, float, shape (B, T, W): the weighted sum of all layers, with the token layer
            twice side by side.
            `default`, float, shape (B, W): the mean of `elmo` over the tokens of a sentence;
            zero if it has none.

        Raises:
            InputError: The lengths do not fit, or a token is empty.
        """
        tokens, n_steps = _read(sentences, lengths)
        ids, mask = self.bilm.add_boundaries(self.bilm.sentence_ids(tokens))
        layers = self._runner.run(self.bilm, ids, mask, list(map(len, tokens)))
        # The second boundary is at the end of the mask; a sentence without tokens has none.
        inner = layers[:, :, 1:-1].masked_fill(~mask[:, 2:, None], 0.0)  # (L, B, longest, W)
        inner = functional.pad(inner, (0, 0, 0, n_steps - inner.shape[2]))  # (L, B, T, W)
        mixed = self.mix(inner.unbind())  # (B, T, W)
        counts = torch.tensor([max(len(row), 1) for row in tokens], device=mixed.device)
        return {
            "word_emb": inner[0, :, :, : inner.shape[-1] // 2],
            **{f"lstm_outputs{k}": inner[k] for k in range(1, len(inner))},
            "elmo": mixed,
            "default": mixed.sum(dim=1) / counts[:, None],
        }


def _read(
    sentences: Sequence[str] | Sequence[Sequence[str]], lengths: Sequence[int] | Tensor | None
) -> tuple[list[Sentence], int]:
    """Return the tokens of each sentence without padding, and T."""
    if isinstance(sentences, str):
        raise InputError("expected a list of sentences, found one string")
    strings = [sentence for sentence in sentences if isinstance(sentence, str)]
    if not strings:
        rows = [list(check_sentence(row)) for row in sentences]
        return _without_padding(rows, lengths), max(map(len, rows), default=0)
    if len(strings) < len(sentences):
        raise InputError("expected sentences or lists of tokens, found both")
    if lengths is not None:
        raise InputError("lengths: expected none with sentences, which are split on spaces")
    tokens = [[token for token in string.split(" ") if token] for string in strings]
    return tokens, max(map(len, tokens))


def _without_padding(
    rows: list[Sentence], lengths: Sequence[int] | Tensor | None
) -> list[Sentence]:
    if lengths is None:
        lengths = [max((i + 1 for i, token in enumerate(row) if token), default=0) for row in rows]
    counts = list(map(int, lengths))
    if len(counts) != len(rows):
        raise InputError(f"lengths: expected {len(rows)}, one a sentence, found {len(counts)}")
    for number, (row, count) in enumerate(zip(rows, counts, strict=True)):
        if not 0 <= count <= len(row):
            raise InputError(f"lengths[{number}]: expected 0 to {len(row)}, found {count}")
        if "" in row[:count]:
            raise InputError(
                f"sentence {number}: expected {count} tokens, found an empty one at {row.index('')}"
            )
    return [row[:count] for row, count in zip(rows, counts, strict=True)]
