"""Texts to vectors, with the names that sentence-transformers made usual: `ElmoEmbedder.encode`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.inference.batching import DEFAULT_BATCH_SIZE
from elmo_cli.inference.device import Device
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.text.records import Sentence, check_sentence
from elmo_cli.text.tokenizers import make_tokenizer

Vectors = NDArray[np.float32] | Tensor
Text = str | Sentence


class _Embedder(Protocol):
    """What is needed of `ElmoEmbedder`, which has the function as a method and so imports this."""

    files: ModelFiles
    device: torch.device

    @property
    def embed_sentences(self) -> Callable[..., Iterator[NDArray[np.float32]]]: ...
    def on_device(self, device: Device | None) -> "_Embedder": ...


def encode(
    embedder: _Embedder,
    texts: Text | Sequence[Text],
    batch_size: int = DEFAULT_BATCH_SIZE,
    *,
    layers: str | None = None,
    mix: Sequence[float] | None = None,
    gamma: float | None = None,
    pooling: str | None = "mean",
    tokenizer: str = "moses",
    language: str | None = None,
    normalize_embeddings: bool = False,
    convert_to_tensor: bool = False,
    show_progress_bar: bool | None = None,
    device: Device | None = None,
) -> Vectors | list[Vectors]:
    """Embed texts: one vector each, unless told otherwise.

    Args:
        texts: raw texts, which are tokenized, or lists of tokens; or one raw text.
        batch_size: as in `embed_sentences`.
        layers, mix, gamma: likewise; `average` if neither layers nor a mix is given.
        pooling: likewise; None gives a vector a token.
        tokenizer: `moses`, `spacy` or `whitespace`.
        language: the code of the language of the texts; that of the model if not given.
        normalize_embeddings: `normalize` of `embed_sentences`.
        convert_to_tensor: give tensors on the device, not arrays.
        show_progress_bar: show one on standard error.
        device: in place of that of the embedder; the model is loaded there for this call.

    Returns:
        float32, shape (n, W) for n texts, (n, L, W) for several layers, without the n for one
        text. Where tokens are not pooled, a list of (T, W) or (L, T, W).

    Raises:
        InputError: a text is neither, or there is no such layer, pooling or tokenizer.
    """
    cut = make_tokenizer(tokenizer, language or embedder.files.language).tokenize
    listed = [texts] if isinstance(texts, str) else texts
    sentences = [cut(text) if isinstance(text, str) else check_sentence(text) for text in listed]
    embedder = embedder.on_device(device)
    embedded = embedder.embed_sentences(
        sentences or [[]],  # which gives the shape
        batch_size,
        layers=layers or ("average" if mix is None else "all"),
        mix=mix,
        gamma=gamma,
        pooling=pooling,
        normalize=normalize_embeddings,
    )
    if show_progress_bar:
        from tqdm import tqdm

        embedded = tqdm(embedded, total=len(sentences), unit=" texts")
    vectors: Any = list(embedded)
    if convert_to_tensor:
        vectors = [torch.from_numpy(values).to(embedder.device) for values in vectors]
    if pooling is not None:
        vectors = torch.stack(vectors) if convert_to_tensor else np.stack(vectors)
    found: Vectors | list[Vectors] = vectors[: len(sentences)]
    return found[0] if isinstance(texts, str) else found
