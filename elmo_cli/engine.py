"""A loaded model, which turns windows of sentences into activations or other results.

`Engine.compute_windows` is the loop over windows. Equal sentences are computed once. A
batch that does not fit into memory is computed in halves, in the end on the CPU. An
engine can be pickled and copied.
"""

import hashlib
import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Final, TypeVar

import torch

from elmo_cli.arrays import AnyArray, FloatArray
from elmo_cli.callbacks import ignore, never
from elmo_cli.errors.checks import check_at_least
from elmo_cli.errors.exceptions import ComputationError
from elmo_cli.errors.wording import SAYS_ITS_KIND, utf8_name
from elmo_cli.inference.batching import (
    BATCH_TOKENS,
    BatchLimit,
    compute_in_batches,
    split_by_size,
)
from elmo_cli.inference.device import CPU, Device, choose_device
from elmo_cli.inference.encoder import SentenceEncoder, make_encoder
from elmo_cli.inference.precision import compute_types, find_arithmetic
from elmo_cli.inference.select_activations import choose_layers, selected_arrays
from elmo_cli.model.architecture import Architecture
from elmo_cli.model.bilm import BiLm
from elmo_cli.options.layers import Layers
from elmo_cli.options.model import DEFAULT_BATCH_SIZE, InitialState, ModelSettings
from elmo_cli.options.selection import Pooling, Selection, SelectionSettings
from elmo_cli.pretrained.checksums import content_sha256
from elmo_cli.pretrained.find_model import find_files_by_settings
from elmo_cli.pretrained.load_bilm import load_bilm
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.types import Sentence
from elmo_cli.version import __version__

logger = logging.getLogger(__name__)

WINDOW_BATCHES: Final = 2
"""Batches per window: enough sentences for batches of similar lengths."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
ComputeWindow = Callable[[list[Sentence]], Iterable[_Result]]
"""Function from the sentences of a window to one result each."""
ComputeSentences = Callable[
    [SentenceEncoder, list[Sentence], Sequence[int]], Sequence[_Result]
]
"""Function of an encoder, the sentences of a batch (none empty), and their slots, which
are the indices of the sentences in their window. It returns one result per sentence."""


@dataclass(frozen=True)
class Engine:
    """A loaded model, ready to compute on one device in one precision.

    This is the way from items, such as sentences of records, to their activations. Each
    function calls the one below it. The arrows show what it is given and what it
    returns:

        compute_windows            stream of items -> windows, each with its results
          embed_window             sentences of a window -> one array each
            compute_window         sentences -> distinct sentences -> one result each
              compute_in_batches   lengths -> batches of indices -> results by index
                embed_batch        encoder, sentences of a batch, slots -> arrays
                  encoder.run      sentences of a batch -> layers, (L, N, W)
                  selected_arrays  layers -> one array per sentence

    The names say what comes out: `embed` arrays of the selected layers, `compute` the
    results of whatever function is passed, and `run` the layers of the biLM.
    `compute_windows` takes any `ComputeWindow` in place of `embed_window`, and
    `compute_window` any `ComputeSentences` in place of `embed_batch`. `LanguageModel`
    passes its own.
    """

    files: ModelFiles
    architecture: Architecture
    state: InitialState
    device: torch.device
    batch_tokens: int
    """Maximum number of tokens per batch."""
    encoder: SentenceEncoder
    settings: ModelSettings
    """Settings as they were given."""
    changed: BiLm | None = None
    """The biLM, if its weights differ from the files."""
    batch_limit: BatchLimit = field(default_factory=BatchLimit, compare=False)
    """Limit that falls when a batch does not fit into memory: unlike all else here, it
    changes."""

    @cached_property
    def content_sha256(self) -> str:
        """SHA-256 of all that the model's numbers depend on, computed on first use."""
        from_files = content_sha256(self.files)
        if self.changed is None:
            return from_files
        digest = hashlib.sha256(from_files.encode())
        for name, values in self.changed.state_dict().items():
            digest.update(name.encode())
            digest.update(values.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    @property
    def arithmetic(self) -> str:
        """Arithmetic in which the device computes the precision, as outputs record it.

        It is the precision, unless this processor computes it in another way, such as
        "bfloat16 (rounded)".
        """
        return find_arithmetic(self.settings.precision, self.device)

    def with_weights(self, bilm: BiLm) -> "Engine":
        """Return an engine with the weights of a biLM, which continues the state."""
        copied = _copied(bilm)
        is_stored = _have_equal_weights(copied, other=load_bilm(self.files))
        if is_stored and self.changed is None:
            return self
        types = compute_types(self.settings.precision, self.device)
        encoder = make_encoder(copied, types, self.state)
        if bilm.architecture == self.architecture:
            encoder.restore(self.encoder.saved_state())
        return replace(
            self,
            architecture=bilm.architecture,
            encoder=encoder,
            # Not `copied`, which the encoder has used up.
            changed=None if is_stored else bilm,
            batch_limit=BatchLimit(),
        )

    @cached_property
    def _encoder_on_cpu(self) -> SentenceEncoder:
        """Second copy of the model, for sentences too long for the memory of a GPU."""
        logger.warning(
            "Out of memory on %s for one sentence. Sentences this long are computed on "
            "the CPU instead.",
            self.device,
            extra=SAYS_ITS_KIND,
        )
        precision = self.settings.precision
        if precision == "tf32":
            precision = "float32"
        bilm = load_bilm(self.files) if self.changed is None else _copied(self.changed)
        return make_encoder(bilm, compute_types(precision, CPU), self.state)

    def on_device(self, device: Device | None) -> "Engine":
        """Return this engine on `device`, loaded again if needed. None keeps it."""
        if device is None or choose_device(device) == self.device:
            return self
        engine = load_engine(replace(self.settings, device=str(device)), self.files)
        return engine if self.changed is None else engine.with_weights(self.changed)

    def selection(
        self,
        layers: Layers,
        *,
        mix: Sequence[float] | None = None,
        gamma: float | None = None,
        pooling: Pooling | None = None,
        normalize: bool = False,
    ) -> Selection:
        """Return a selection of layers that the model has.

        The arguments are those of `ElmoEmbedder.embed_sentences`.
        """
        settings = SelectionSettings.from_arguments(
            layers, mix=mix, gamma=gamma, pooling=pooling, normalize=normalize
        )
        return settings.for_model(self.architecture.n_layers)

    def compute_windows(
        self,
        items: Iterable[_Item],
        compute_window: ComputeWindow[_Result],
        *,
        sentence_of: Callable[[_Item], Sentence],
        batch_size: int = DEFAULT_BATCH_SIZE,
        ends_window: Callable[[_Item], bool] = never,
    ) -> Iterator[tuple[list[_Item], Iterable[_Result]]]:
        """Split a stream into windows of `WINDOW_BATCHES` batches, and compute each.

        Args:
            items: Items, each with a sentence.
            compute_window: Function from the sentences of a window to one result each,
                such as `embed_window`.
            sentence_of: Function from an item to its sentence.
            batch_size: Number of sentences in a window with carried state.
            ends_window: Function that returns True for an item that ends its window
                early. It has no effect with carried state.

        Returns:
            An iterator over the items of a window with their results, which must be
            used before the next window.
        """
        check_at_least("batch_size", batch_size, 1)
        max_tokens = WINDOW_BATCHES * self.batch_tokens
        max_sentences = max_tokens
        if self.state == "carry":
            max_tokens = sys.maxsize
            max_sentences = batch_size
            ends_window = never
        windows = split_by_size(
            items,
            max_tokens=max_tokens,
            max_sentences=max_sentences,
            length=lambda item: len(sentence_of(item)),
            ends_window=ends_window,
        )
        return (
            (window, compute_window([sentence_of(item) for item in window]))
            for window in windows
        )

    def compute_window(
        self,
        sentences: list[Sentence],
        compute_sentences: ComputeSentences[_Result],
        empty: _Result,
    ) -> list[_Result | ComputationError]:
        """Compute one result per sentence of a window, which is `empty` without tokens.

        Equal sentences share one result, unless the state is carried over. Then the
        boundaries of empty sentences change the state of their slots, as in AllenNLP,
        unless all are empty.
        """
        if self.state == "carry":
            results = self._compute_in_batches(sentences, compute_sentences)
            empty_slots = [slot for slot, tokens in enumerate(sentences) if not tokens]
            if 0 < len(empty_slots) < len(sentences):
                with torch.inference_mode():
                    self.encoder.run([[]] * len(empty_slots), empty_slots)
            return [results.get(slot, empty) for slot in range(len(sentences))]
        number_of: dict[tuple[str, ...], int] = {}  # of each distinct sentence
        numbers = []
        for sentence in sentences:
            # A sentence that is new gets the next number.
            number = number_of.setdefault(tuple(sentence), len(number_of))
            numbers.append(number)
        distinct = [list(tokens) for tokens in number_of]
        results = self._compute_in_batches(distinct, compute_sentences)
        return [results.get(number, empty) for number in numbers]

    def _compute_in_batches(
        self, sentences: list[Sentence], compute_sentences: ComputeSentences[_Result]
    ) -> dict[int, _Result | ComputationError]:
        """Compute one result per sentence with tokens, by its index, in batches."""

        @torch.inference_mode()
        def compute_indices(
            encoder: SentenceEncoder, indices: Sequence[int]
        ) -> Sequence[_Result]:
            return compute_sentences(
                encoder, [sentences[index] for index in indices], indices
            )

        def compute_batch(indices: Sequence[int]) -> Sequence[_Result]:
            return compute_indices(self.encoder, indices)

        def compute_on_cpu(indices: Sequence[int]) -> Sequence[_Result]:
            return compute_indices(self._encoder_on_cpu, indices)

        batch_tokens = min(self.batch_tokens, self.batch_limit.n_tokens)
        results, fitting_tokens = compute_in_batches(
            compute_batch,
            lengths=[len(sentence) for sentence in sentences],
            batch_tokens=batch_tokens,
            device_type=self.device.type,
            carried=self.state == "carry",
            compute_on_cpu=None if self.device.type == "cpu" else compute_on_cpu,
        )
        if fitting_tokens < batch_tokens:
            # One very long sentence, or a short lack of memory, must not slow down the
            # whole run.
            least = self.batch_tokens // 16
            self.batch_limit.n_tokens = max(fitting_tokens, least)
        return results

    def embed_window(
        self,
        sentences: list[Sentence],
        selection: Selection,
        *,
        dtype: str = "float32",
        on_batch: Callable[[bool], object] = ignore,
        copies: bool = True,
    ) -> Iterator[AnyArray | ComputationError]:
        """Embed the sentences of a window.

        The window is computed now, not when the first array is taken.

        Args:
            sentences: Sentences of the window.
            selection: Layers, their mix and pooling.
            dtype: Data type of the arrays. An empty sentence always gets float32.
            on_batch: Called with whether all values of a batch are finite.
            copies: Return a copy of each array. Otherwise the arrays of a batch share
                memory, and the iterator holds it until it ends.

        Returns:
            An iterator over the activations of each sentence.
        """

        def embed_batch(
            encoder: SentenceEncoder, batch: list[Sentence], slots: Sequence[int]
        ) -> Sequence[AnyArray]:
            layers = encoder.run(batch, slots=slots)  # (L, N, W)
            lengths = [len(tokens) for tokens in batch]
            arrays, are_finite = selected_arrays(
                selection, layers, lengths=lengths, dtype=dtype
            )
            on_batch(are_finite)
            return arrays

        empty = self.empty_activations(selection)
        results = iter(self.compute_window(sentences, embed_batch, empty))
        if not copies:
            return results
        return (
            values if isinstance(values, ComputationError) else values.copy()
            for values in results
        )

    def empty_activations(self, selection: Selection) -> FloatArray:
        """Return activations of a sentence without tokens: none, or zeros if pooled."""
        layers = torch.empty(
            self.architecture.n_layers, 0, self.architecture.width, device="cpu"
        )
        values = choose_layers(selection, layers)
        if selection.pooling is not None:
            values = values.sum(dim=-2)
        array: FloatArray = values.numpy()
        return array

    def attributes(self, selection: Selection, batch_size: int) -> dict[str, str]:
        """Return the attributes that record how an output file was made."""
        attributes = {
            "model": utf8_name(self.files.name),
            "model_sha256": self.content_sha256,
            "options": json.dumps(asdict(self.architecture)),
            **selection.to_attributes(),
            "state": self.state,
            "precision": self.arithmetic,
            "elmo_cli_version": __version__,
        }
        if self.state == "carry":
            attributes["batch_size"] = str(batch_size)
        return attributes


def _copied(bilm: BiLm) -> BiLm:
    """Return a copy of a biLM in float32, on the CPU, without gradients."""
    return deepcopy(bilm).to(CPU, torch.float32).requires_grad_(False).eval()


def _have_equal_weights(bilm: BiLm, other: BiLm) -> bool:
    """Return whether two biLMs have equal weights of the same names."""
    weights = bilm.state_dict()
    others = other.state_dict()
    return weights.keys() == others.keys() and all(
        torch.equal(values, others[name]) for name, values in weights.items()
    )


def load_engine(settings: ModelSettings, files: ModelFiles | None = None) -> Engine:
    """Load a model.

    `files` are the files of the model, if they have been found already.
    """
    types = compute_types(settings.precision, choose_device(settings.device))
    if files is None:
        files = find_files_by_settings(settings)
    state = settings.state or files.initial_state
    bilm = load_bilm(files)
    architecture = bilm.architecture
    return Engine(
        files=files,
        architecture=architecture,
        state=state,
        device=types.device,
        batch_tokens=settings.batch_tokens or BATCH_TOKENS[types.device.type],
        encoder=make_encoder(bilm, types, state),
        settings=settings,
    )
