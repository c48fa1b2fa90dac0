"""Layer of torch with the outputs of TF-Hub's `google/elmo`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_cli.errors.checks import check_flag
from elmo_cli.inference.bilm_runner import BiLmRunner
from elmo_cli.inference.uncompiled import uncompiled
from elmo_cli.integrations.hub_inputs import read_hub_inputs
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.scalar_mix import ScalarMix
from elmo_cli.options.model import ModelSettings
from elmo_cli.pretrained.find_model import find_files_by_settings
from elmo_cli.pretrained.load_bilm import check_module, load_bilm


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
        """Load a model by its name.

        Args:
            model: Name, folder or zip file of a model. None means `module`, or else the
                default model.
            trainable: Train the mix, as in versions 2 and 3: the weights of the layers
                (before the softmax, initially 0) and the scale (initially 1).
            requires_grad: Train the biLM too; otherwise a `module` keeps its own
                setting.
            module: biLM in place of `model`.

        Raises:
            ElmoError: The model is missing or invalid, or is given twice.
        """
        super().__init__()
        check_flag("trainable", trainable)
        check_flag("requires_grad", requires_grad)
        settings = ModelSettings(model=model)
        check_module(module, settings)
        if module is None:
            module = load_bilm(find_files_by_settings(settings))
        self.bilm = module
        if requires_grad:
            self.bilm.requires_grad_(True)
        self._runner = BiLmRunner()
        with torch.device(next(self.bilm.parameters()).device):
            self.mix = ScalarMix(self.bilm.architecture.n_layers, trainable=trainable)

    def reload_weights(self) -> None:
        """Make the next call use the current weights of `bilm`.

        This is required after a change that torch does not count: see `Elmo`.
        """
        self._runner.reload_weights()

    @property
    def signatures(self) -> dict[str, Callable[..., Any]]:
        """Calls of TensorFlow 2: `elmo.signatures["default"](texts)["elmo"]`.

        `default` takes `text`, and `tokens` takes `tokens` and `sequence_len`. They
        return all outputs.
        """

        def default(text: Sequence[str]) -> Any:
            return self(text, signature="default")

        def tokens(
            tokens: Sequence[Sequence[str]], sequence_len: Sequence[int] | Tensor
        ) -> Any:
            return self({"tokens": tokens, "sequence_len": sequence_len})

        return {"default": default, "tokens": tokens}

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
            inputs: B sentences, split on spaces (the signature `default`), or the
                tokens of B sentences, each padded to T with "" (the signature
                `tokens`); or TF-Hub's mapping of these `tokens` and their
                `sequence_len`.
            lengths: Number of tokens of each sentence without padding (`sequence_len`),
                for tokens only. None: each "" at the end of a sentence is padding.
            signature: `default` or `tokens`. None chooses it by the inputs.
            as_dict: Return all outputs. False returns `default` alone, as TF-Hub does
                by default.

        Returns:
            Tensors on the device of the biLM, with W the width of its layers:
            `word_emb`, float, shape (B, T, W / 2): the token layer.
            `lstm_outputs1`, `lstm_outputs2`, ...: the LSTM layers, float, shape (B, T,
            W). `elmo`, float, shape (B, T, W): the weighted sum of all layers, with the
            token layer twice side by side. `default`, float, shape (B, W): the mean of
            `elmo` over the tokens of a sentence; zero if it has none. `sequence_len`,
            int64, shape (B,): the number of tokens of each sentence.

        Raises:
            InputError: The lengths or the signature do not fit, or a token is empty.
        """
        sentences, n_steps = read_hub_inputs(inputs, lengths, signature)
        n_tokens = [len(tokens) for tokens in sentences]
        ids, mask = self.bilm.add_boundaries(self.bilm.sentence_ids(sentences))
        layers = self._runner.run(self.bilm, ids=ids, mask=mask, lengths=n_tokens)
        without_boundaries = layers[:, :, 1:-1]  # (L, B, longest, W)
        is_token = mask[:, 2:, None]
        inner = without_boundaries.masked_fill(~is_token, 0.0)
        padding = n_steps - inner.shape[2]
        inner = functional.pad(inner, (0, 0, 0, padding))  # (L, B, T, W)
        mixed = self.mix(inner.unbind())  # (B, T, W)
        mean = _mean_of_tokens(mixed, n_tokens)
        if not as_dict:
            return mean
        width = inner.shape[-1]
        outputs = {"word_emb": inner[0, :, :, : width // 2]}
        for number in range(1, len(inner)):
            outputs[f"lstm_outputs{number}"] = inner[number]
        outputs["elmo"] = mixed
        outputs["default"] = mean
        outputs["sequence_len"] = torch.tensor(
            n_tokens, dtype=torch.int64, device=mixed.device
        )
        return outputs


def _mean_of_tokens(values: Tensor, n_tokens: Sequence[int]) -> Tensor:
    """Return the means over tokens, (B, T, W) to (B, W). Padding must be 0."""
    divisors = [max(1, n) for n in n_tokens]
    divisor = torch.tensor(divisors, device=values.device)[:, None]
    mean: Tensor = values.sum(dim=1) / divisor
    return mean
