"""Layer of torch with the outputs of TF-Hub's `google/elmo`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_cli.errors.checks import Sentence, check_batch, check_choice, check_sentences
from elmo_cli.errors.exceptions import InputError, ModelError
from elmo_cli.errors.wording import kind_of
from elmo_cli.inference.bilm_runner import BiLmRunner
from elmo_cli.inference.uncompiled import uncompiled
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.scalar_mix import ScalarMix
from elmo_cli.pretrained.find import find_model
from elmo_cli.pretrained.load import load_bilm

_Inputs = Sequence[str] | Sequence[Sequence[str]] | Mapping[str, Any]


_Lengths = Sequence[int] | Tensor | None


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
            raise ModelError("Give either model or module, not both.")
        self.bilm = load_bilm(find_model(model)) if module is None else module
        if requires_grad:
            self.bilm.requires_grad_(True)
        self._runner = BiLmRunner()
        with torch.device(next(self.bilm.parameters()).device):
            self.mix = ScalarMix(self.bilm.options.n_layers, trainable=trainable)

    def reload_weights(self) -> None:
        """Let the next call compute with the present weights of `bilm`; see `Elmo`."""
        self._runner.reload_weights()

    @uncompiled
    def forward(
        self,
        inputs: Sequence[str] | Sequence[Sequence[str]] | Mapping[str, Any],
        lengths: Sequence[int] | Tensor | None = None,
        *,
        signature: str | None = None,
        as_dict: bool = True,
    ) -> dict[str, Tensor] | Tensor:
        """Embed sentences.

        Args:
            inputs: B sentences, split on spaces (the signature `default`), or the tokens
                of B sentences, each padded to T with "" (the signature `tokens`); or TF-Hub's
                mapping of these `tokens` and their `sequence_len`.
            lengths: Number of tokens of each sentence without padding (`sequence_len`), for
                tokens only. None: each "" at the end of a sentence is padding.
            signature: `default` or `tokens`. None: chosen by the inputs.
            as_dict: Return all outputs. False returns `default` alone, as TF-Hub does by default.

        Returns:
            Tensors on the device of the biLM, with W the width of its layers:
            `word_emb`, float, shape (B, T, W / 2): the token layer.
            `lstm_outputs1`, `lstm_outputs2`, ...: the LSTM layers, float, shape (B, T, W).
            `elmo`, float, shape (B, T, W): the weighted sum of all layers, with the token layer
            twice side by side.
            `default`, float, shape (B, W): the mean of `elmo` over the tokens of a sentence;
            zero if it has none.

        Raises:
            InputError: The lengths or the signature do not fit, or a token is empty.
        """
        tokens, n_steps = _read(inputs, lengths, signature)
        ids, mask = self.bilm.add_boundaries(self.bilm.sentence_ids(tokens))
        layers = self._runner.run(self.bilm, ids, mask, list(map(len, tokens)))
        inner = layers[:, :, 1:-1].masked_fill(
            ~mask[:, 2:, None], 0.0
        )  # (L, B, longest, W)
        inner = functional.pad(
            inner, (0, 0, 0, n_steps - inner.shape[2])
        )  # (L, B, T, W)
        mixed = self.mix(inner.unbind())  # (B, T, W)
        counts = torch.tensor([max(len(row), 1) for row in tokens], device=mixed.device)
        outputs = {
            "word_emb": inner[0, :, :, : inner.shape[-1] // 2],
            **{f"lstm_outputs{k}": inner[k] for k in range(1, len(inner))},
            "elmo": mixed,
            "default": mixed.sum(dim=1) / counts[:, None],
        }
        return outputs if as_dict else outputs["default"]


def _read(
    inputs: _Inputs, lengths: _Lengths, signature: str | None
) -> tuple[list[Sentence], int]:
    """Return the tokens of B sentences without padding, and T."""
    if signature is not None:
        check_choice("signature", signature, ("default", "tokens"))
    if isinstance(inputs, Mapping):
        if inputs.keys() != {"tokens", "sequence_len"}:
            keys = ", ".join(map(str, inputs)) or "none"
            raise InputError(
                f"inputs: expected the keys tokens and sequence_len, found {keys}."
            )
        if lengths is not None:
            raise InputError(
                "lengths: a mapping contains sequence_len instead. Remove lengths."
            )
        lengths, inputs = inputs["sequence_len"], inputs["tokens"]
        signature = signature or "tokens"
    batch = list(check_batch(inputs, "inputs"))
    strings = [sentence for sentence in batch if isinstance(sentence, str)]
    if batch and signature is not None and (signature == "default") != bool(strings):
        expected = "sentences" if signature == "default" else "lists of tokens"
        problem = f"expected {expected}, found {kind_of(batch[0])}"
        remedy = f"Give {expected}, or remove signature."
        raise InputError(f"signature {signature}: {problem}. {remedy}")
    if not strings:
        rows = list(check_sentences(batch, "inputs"))
        return _without_padding(rows, lengths), max(map(len, rows), default=0)
    if lengths is not None:
        raise InputError("lengths: sentences are split on spaces. Remove lengths.")
    for index, sentence in enumerate(batch):
        if not isinstance(sentence, str):
            raise InputError(
                f"inputs[{index}]: expected a string, found {kind_of(sentence)}."
            )
    tokens = [[token for token in string.split(" ") if token] for string in strings]
    return tokens, max(map(len, tokens))


def _without_padding(rows: list[Sentence], lengths: _Lengths) -> list[Sentence]:
    if lengths is None:
        lengths = [
            max((i + 1 for i, token in enumerate(row) if token), default=0)
            for row in rows
        ]
    counts = list(map(int, lengths))
    if len(counts) != len(rows):
        raise InputError(
            f"lengths: {len(rows)} sentences need one each, not {len(counts)}."
        )
    for number, (row, count) in enumerate(zip(rows, counts, strict=True)):
        if not 0 <= count <= len(row):
            raise InputError(
                f"lengths[{number}]: expected 0 to {len(row)}, found {count}"
            )
        if "" in row[:count]:
            problem = f"the token {row.index('')} of {count} is empty"
            raise InputError(f"inputs[{number}]: {problem}.")
    return [row[:count] for row, count in zip(rows, counts, strict=True)]
