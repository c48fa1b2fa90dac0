"""`Elmo`: AllenNLP's module of ELMo vectors, to train with a task."""

from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict

import torch
from torch import Tensor, nn

from elmo_cli.errors.checks import (
    check_at_least,
    check_batch,
    check_flag,
    check_sentence,
    check_type,
)
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.inference.bilm_runner import BiLmRunner
from elmo_cli.inference.uncompiled import uncompiled
from elmo_cli.model.allennlp_state import rename_allennlp_state
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.characters import character_ids
from elmo_cli.model.scalar_mix import ScalarMix, check_parameters
from elmo_cli.model.token_encoder import PADDING_INDEX, TokenTable, pad_ids
from elmo_cli.options.model import ModelSettings, Precision
from elmo_cli.pretrained.find_model import find_files_by_settings
from elmo_cli.pretrained.load_bilm import check_module, load_bilm

_Path: TypeAlias = str | Path | None

_WORD_ID_OFFSET: Final = 1 << 40
"""Added to rows of words without characters, which gives them ids of their own."""


def batch_to_ids(batch: Sequence[Sequence[str]]) -> Tensor:
    """Return the ids of the characters of tokenized sentences, as `Elmo` takes them.

        batch_to_ids([["The", "cat"]]).shape  # (1, 2, 50)

    Returns:
        int64, shape (B, T, 50), T the longest sentence; 0 where a sentence has no
        token.

    Raises:
        InputError: `batch` is not a list of lists of tokens.
    """
    return pad_ids(batch, lambda tokens: torch.from_numpy(character_ids(tokens)))


class ElmoOutput(TypedDict):
    """Representations, float, (B, T, W) each, and their mask, int64, (B, T)."""

    elmo_representations: list[Tensor]
    mask: Tensor


class Elmo(nn.Module):
    """A biLM with mixes of its layers, which are learned with a task.

    Every sentence starts from the zero state; nothing is kept between calls. A biLM
    that does not train runs on the CPU as fast as in `ElmoEmbedder`, with a copy of its
    LSTMs' weights. The next call notices changes of the weights, except those that
    `reload_weights` names.
    """

    def __init__(
        self,
        options_file: _Path = None,
        weight_file: _Path = None,
        num_output_representations: int = 1,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        module: BiLm | None = None,
        *,
        model: _Path = None,
        precision: Precision = "float32",
    ) -> None:
        """Load a model: the default one unless files, `module` or `model` are given.

        Args:
            options_file: Path or URL of options.json, with `weight_file`. The name of a
                model may stand in its place, alone.
            weight_file: Path or URL of weights.hdf5.
            num_output_representations: Number of mixes, at least 1, each with its own
                weights.
            requires_grad: Train the biLM too. A `module` that trains already continues
                to.
            do_layer_norm: Normalize each layer before the mix, by the mean and the
                variance of all its values under the mask.
            dropout: Share of the values of a representation that training drops.
            vocab_to_cache: Words whose token vectors are computed now, for
                `word_inputs`.
            keep_sentence_boundaries: Keep `<S>` and `</S>` in the representations.
            scalar_mix_parameters: Fixed weights of all mixes before the softmax.
            module: biLM in place of the files.
            model: Name, folder or zip file in place of the files.
            precision: Precision of a frozen biLM, as in `ElmoEmbedder`: "float32",
                "bfloat16" or "float16", "int8" on a processor with VNNI, or
                "tf32" on an NVIDIA GPU. Representations, mixes and their gradients are
                float32 in each.

        Raises:
            ElmoError: The model is missing or invalid, arguments contradict each other,
                or the processor lacks the precision.
        """
        super().__init__()
        check_at_least("num_output_representations", num_output_representations, 1)
        check_flag("requires_grad", requires_grad)
        check_flag("do_layer_norm", do_layer_norm)
        check_flag("keep_sentence_boundaries", keep_sentence_boundaries)
        check_type("dropout", dropout, Real, "a number from 0 to 1")
        if not 0 <= dropout <= 1:
            raise SettingsError(
                f"dropout: expected a number from 0 to 1, found {dropout}"
            )
        if weight_file is None and model is None and not _is_json(options_file):
            # Elmo("original") is a model by its name.
            model = options_file
            options_file = None
        settings = ModelSettings(
            model=model,
            options_file=options_file,
            weight_file=weight_file,
            precision=precision,
        )
        check_module(module, settings)
        if module is None:
            module = load_bilm(find_files_by_settings(settings))
        if scalar_mix_parameters is not None:
            scalar_mix_parameters = check_parameters(
                "scalar_mix_parameters",
                scalar_mix_parameters,
                module.architecture.n_layers,
            )
        self.bilm = module
        if requires_grad:
            self.bilm.requires_grad_(True)
        self.keep_sentence_boundaries = keep_sentence_boundaries
        self.num_output_representations = num_output_representations
        self.dropout = nn.Dropout(dropout)
        for k in range(num_output_representations):
            with torch.device(next(module.parameters()).device):
                mix = ScalarMix(
                    self.bilm.architecture.n_layers,
                    do_layer_norm,
                    scalar_mix_parameters,
                    trainable=scalar_mix_parameters is None,
                )
            self.add_module(f"scalar_mix_{k}", mix)
        self._runner = BiLmRunner(precision)
        self._runner.check(self.bilm)
        self.token_table = self._make_token_table(vocab_to_cache)
        self.register_load_state_dict_post_hook(_refill)  # type: ignore[no-untyped-call]

    def _make_token_table(
        self, vocab_to_cache: Sequence[str] | None
    ) -> TokenTable | None:
        """Compute the token vectors of `vocab_to_cache`; None without words."""
        if vocab_to_cache is None:
            return None
        words = list(check_batch(vocab_to_cache, "vocab_to_cache"))
        check_sentence(words, "vocab_to_cache")
        if not words:
            return None
        if any(parameter.requires_grad for parameter in self.bilm.parameters()):
            raise InputError(
                "vocab_to_cache: cannot be used with requires_grad, because training "
                "would not change the cached vectors",
                remedy="Remove one of them.",
            )
        return TokenTable(words, self._runner.token_encoder(self.bilm))

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load the state of this module, which may come from AllenNLP's `Elmo`.

        torch calls this method in each module, with its own lists for errors.
        """
        error_msgs += rename_allennlp_state(
            state_dict, prefix, self.bilm.state_dict().keys()
        )
        super()._load_from_state_dict(
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )

    @property
    def precision(self) -> Precision:
        """Precision of the biLM."""
        return self._runner.precision

    def extra_repr(self) -> str:
        """Return what torch shows of this module beside its parts."""
        return f"precision={self.precision!r}"

    def get_output_dim(self) -> int:
        """Return the size of a representation, W."""
        return self.bilm.architecture.width

    def reload_weights(self) -> None:
        """Make the next call use the current weights of `bilm`.

        Call it after changes that torch does not notice: see `ElmoEmbedder.elmo_bilm`.
        With `vocab_to_cache`, call it after all changes except `load_state_dict`.
        """
        self._runner.reload_weights()
        if self.token_table is not None:
            self.token_table.fill(self._runner.token_encoder(self.bilm))

    @uncompiled
    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> ElmoOutput:
        """Embed a batch.

        A GPU is synchronized twice: for the lengths of the sentences, with all checks,
        and for the length of the longest token; once more with `word_inputs`.

        Args:
            inputs: int64, shape (B, ..., T, 50): `batch_to_ids`; for models of other
                kinds `bilm.sentence_ids`. Word-level: (B, ..., T, 1), the word's index
                plus 1.
            word_inputs: int64, shape (B, ..., T): indices of these tokens in
                `vocab_to_cache`, which save time and change no value. Tokens with index
                0, the index of "@@UNKNOWN@@", or an index outside the list are read
                from `inputs`. Where `inputs` is 0, the index alone is read, and 0 pads.
                Not used without a cache.

        Returns:
            Representations, float, shape (B, ..., T, W), and their mask, int64, shape
            (B, ..., T), 1 where there is a token; T + 2 in place of T with boundaries.

        Raises:
            InputError: The inputs have a wrong shape or contradict each other; or, on
                the CPU, ids are outside the model's range.
        """
        check_type("inputs", inputs, Tensor, "a tensor of ids, as batch_to_ids returns")
        if word_inputs is not None:
            check_type("word_inputs", word_inputs, Tensor, "a tensor of indices")
        if self.token_table is not None and word_inputs is not None:
            inputs = _reshaped_if_blank(word_inputs, inputs)
        self._check_shapes(inputs, word_inputs)
        words = self._find_words(inputs.flatten(0, -3).long(), word_inputs)
        lengths = _checked_lengths(words)
        try:
            # (L, B, T + 2, W) and (B, T + 2)
            layers, mask = self._run(words, lengths)
        except IndexError as error:
            raise InputError(
                "inputs: expected ids from batch_to_ids or bilm.sentence_ids, found "
                f"{int(inputs.min())} to {int(inputs.max())}"
            ) from error
        token_mask = mask
        if not self.keep_sentence_boundaries:
            # Two of its ones fewer: those of <S> and </S>.
            token_mask = mask[:, 2:]
        batch_shape = inputs.shape[:-2]
        n_tokens = token_mask.shape[1]
        width = self.get_output_dim()
        representations = []
        for k in range(self.num_output_representations):
            mixed = self.get_submodule(f"scalar_mix_{k}")(layers.unbind(), mask)
            if not self.keep_sentence_boundaries:
                mixed = mixed[:, 1:-1].masked_fill(~token_mask[..., None], 0.0)
            dropped = self.dropout(mixed)
            representations.append(dropped.reshape(*batch_shape, n_tokens, width))
        return {
            "elmo_representations": representations,
            "mask": token_mask.long().reshape(*batch_shape, n_tokens),
        }

    def _find_words(self, ids: Tensor, word_inputs: Tensor | None) -> "_Words":
        """Find the words of `word_inputs` in the table of cached vectors."""
        has_characters = (ids > 0).any(dim=2)  # (B, T)
        if word_inputs is None or self.token_table is None:
            return _Words(ids, rows=None, is_lost=torch.zeros_like(has_characters))
        indices = word_inputs.flatten(0, -2)
        rows = self.token_table.find_rows(indices, has_characters)
        is_cached = rows >= 0
        # A word without characters counts as a token, and differs from other words.
        needs_ids = is_cached & ~has_characters
        own_ids = _WORD_ID_OFFSET + rows[..., None]
        ids = torch.where(needs_ids[..., None], own_ids, ids)
        is_lost = (indices > PADDING_INDEX) & ~has_characters & ~is_cached
        return _Words(ids, rows, is_lost)

    def _run(self, words: "_Words", lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return layers, float, (L, B, T + 2, W), and their mask, bool, (B, T + 2)."""
        bounded, mask = self.bilm.add_boundaries(words.ids)
        table = self.token_table
        if table is None or words.rows is None:
            return self._runner.run(self.bilm, bounded, mask, lengths), mask
        encoder = self._runner.token_encoder(self.bilm)
        all_rows = table.with_boundaries(words.rows, mask)

        def encode(rows: Tensor, columns: Tensor) -> Tensor:
            return table.forward(
                all_rows[rows, columns], bounded[rows, columns], encoder
            )

        return self._runner.run(self.bilm, bounded, mask, lengths, encode), mask

    def _check_shapes(self, inputs: Tensor, word_inputs: Tensor | None) -> None:
        """Raise an `InputError` unless inputs have the shape of the model's ids."""
        encoder = self.bilm.token_encoder
        n_ids = encoder.token_ids(encoder.boundaries).shape[1]
        if inputs.dim() < 3 or inputs.shape[-1] != n_ids:
            raise InputError(
                f"inputs: expected shape (B, T, {n_ids}), found {tuple(inputs.shape)}"
            )
        if inputs.is_floating_point() or inputs.dtype == torch.bool:
            raise InputError(f"inputs: expected int64, found {inputs.dtype}")
        if word_inputs is not None and word_inputs.is_floating_point():
            raise InputError(f"word_inputs: expected int64, found {word_inputs.dtype}")
        shape = tuple(inputs.shape[:-1])
        if word_inputs is not None and word_inputs.shape != shape:
            raise InputError(
                f"word_inputs: expected shape {shape}, found {tuple(word_inputs.shape)}"
            )


def _is_json(file: _Path) -> bool:
    """Return whether a value is the path or the URL of options.json."""
    return str(file).endswith(".json")


def _reshaped_if_blank(word_inputs: Tensor, inputs: Tensor) -> Tensor:
    """Return inputs, in the shape of `word_inputs` if they are all zero."""
    fits = word_inputs.shape == inputs.shape[:-1] and not inputs.is_floating_point()
    if fits or inputs.any():
        return inputs
    return inputs.new_zeros(*word_inputs.shape, inputs.shape[-1], dtype=torch.int64)


class _Words(NamedTuple):
    """Tokens of a batch, with their rows in the table of cached vectors."""

    ids: Tensor
    """Ids of their characters, int64, shape (B, T, C); 0 where there is no token."""
    rows: Tensor | None
    """Rows in the table, int64, shape (B, T), -1 for other tokens. None: no table."""
    is_lost: Tensor
    """True for a word without characters and without a row, bool, shape (B, T)."""


def _checked_lengths(words: _Words) -> list[int]:
    """Return the lengths of sentences by one transfer from a GPU, with all checks."""
    present = (words.ids > 0).any(dim=2)  # (B, T)
    gaps = present[:, 1:] & ~present[:, :-1]
    errors = torch.stack([gaps.any(), words.is_lost.any()])
    # One tensor, because each transfer waits for the GPU.
    transferred = torch.cat([present.sum(dim=1), errors])
    *lengths, has_gap, is_lost = transferred.tolist()
    if has_gap:
        raise InputError(
            "inputs: padding before a token", remedy="It must come after the tokens."
        )
    if is_lost:
        expected = "indices in vocab_to_cache where inputs has no characters"
        raise InputError(f"word_inputs: expected {expected}, found one outside it")
    return lengths


def _refill(elmo: Elmo, _: object) -> None:
    """Compute the token vectors again, after `load_state_dict`."""
    if elmo.token_table is not None:
        elmo.token_table.fill(elmo._runner.token_encoder(elmo.bilm))
