"""Parts of speech by a linear classifier on each layer.

The task is that of Peters et al. (2018), Table 6.

A classifier is one linear layer and a softmax over the tags, trained on the vectors of
about 100,000 tokens and tested on 50,000 tokens of other documents. The figure is the
share of correct tags.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional

from evaluation.bootstrap import Estimate, Floats, mean_of_groups
from evaluation.tables import Cell, Figure, Table, figures
from evaluation.tagged_data import Split, Tagged
from evaluation.token_style import Embedder

EPOCHS = 12
BATCH_SIZE = 256
USUAL = "most frequent tag of each word"
PUBLISHED = {"layer 1": 97.3, "layer 2": 96.8}
"""Accuracy of the biLM on the Penn Treebank (Peters et al., 2018)."""


def evaluate(embedder: Embedder, corpora: dict[str, Split]) -> Table:
    """Return the table of accuracies: a row per layer, a column per corpus."""
    columns = []
    sizes = []
    for name, split in corpora.items():
        columns.append(figures(classify_layers(embedder, split)))
        n_train = count_tags(split.train)
        n_test = count_tags(split.test)
        sizes.append(f"{name}: {n_train:,} tokens to train on, {n_test:,} to test on")
    n_layers = len(columns[0]) - 2
    names = [USUAL, *(f"layer {layer}" for layer in range(n_layers)), _DIFFERENCE]
    rows: dict[str, Sequence[Cell]] = {}
    for row, name in enumerate(names):
        published = Figure(PUBLISHED[name]) if name in PUBLISHED else None
        rows[name] = [*(column[row] for column in columns), published]
    shown_sizes = "; ".join(sizes)
    note = f"Accuracy of a linear classifier. {shown_sizes}. Intervals draw sentences."
    titles = [*corpora, "published: biLM, Penn Treebank"]
    return Table("Parts of speech", note, titles, rows)


_DIFFERENCE = "top layer minus layer 1"


def classify_layers(embedder: Embedder, split: Split) -> Estimate:
    """Estimate accuracies.

    They are those of each word's most frequent tag, of each layer, and the difference
    of the top layer and layer 1.
    """
    tags = sorted({tag for sentence in split.train for tag in sentence.tags})
    number = {tag: index for index, tag in enumerate(tags)}
    train_tags = torch.tensor(
        [number[tag] for sentence in split.train for tag in sentence.tags]
    )
    test_tags = torch.tensor(
        [number.get(tag, -1) for sentence in split.test for tag in sentence.tags]
    )
    train_layers = embed(embedder, split.train)
    test_layers = embed(embedder, split.test)
    correct = [torch.from_numpy(most_frequent_tag(split))]
    for vectors, others in zip(train_layers, test_layers, strict=True):  # (N, W)
        classifier = fit(vectors.float(), train_tags, len(tags))
        correct.append((classifier.predict(others.float()) == test_tags).double())
    correct.append(correct[-1] - correct[min(2, len(correct) - 1)])
    sentences = np.repeat(np.arange(len(split.test)), [len(s.tags) for s in split.test])
    return mean_of_groups(torch.stack(correct, dim=1).numpy(), sentences)


def count_tags(sentences: list[Tagged]) -> int:
    """Count the tokens that have a tag."""
    return sum(len(sentence.tags) for sentence in sentences)


def embed(embedder: Embedder, sentences: list[Tagged]) -> torch.Tensor:
    """Return the vectors of all tokens that have a tag: float16, shape (L, N, W)."""
    embedded = embedder.embed_sentences(sentence.tokens for sentence in sentences)
    chosen = [
        torch.from_numpy(layers[:, sentence.positions]).half()
        for layers, sentence in zip(embedded, sentences, strict=True)
    ]
    return torch.cat(chosen, dim=1)


class Classifier(NamedTuple):
    """A linear layer over standardized vectors."""

    mean: torch.Tensor
    scale: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor

    def predict(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the most probable class of each vector: int64, shape (N,)."""
        standard = (vectors - self.mean) * self.scale
        return functional.linear(standard, self.weight, self.bias).argmax(dim=1)


def fit(
    vectors: torch.Tensor, classes: torch.Tensor, n_classes: int, seed: int = 0
) -> Classifier:
    """Train a classifier by AdamW, with a learning rate that falls from 2e-3 to 0."""
    generator = torch.Generator().manual_seed(seed)
    mean = vectors.mean(dim=0)
    scale = 1 / (vectors.std(dim=0) + 1e-6)
    standard = (vectors - mean) * scale
    weight = torch.zeros(n_classes, vectors.shape[1], requires_grad=True)
    bias = torch.zeros(n_classes, requires_grad=True)
    optimizer = torch.optim.AdamW([weight, bias], lr=2e-3, weight_decay=0.1)
    n_steps = EPOCHS * -(-len(vectors) // BATCH_SIZE)
    step = 0
    for _ in range(EPOCHS):
        order = torch.randperm(len(vectors), generator=generator)
        for batch in torch.split(order, BATCH_SIZE):
            optimizer.param_groups[0]["lr"] = 2e-3 * (1 - step / n_steps)
            logits = functional.linear(standard[batch], weight, bias)
            optimizer.zero_grad()
            functional.cross_entropy(logits, classes[batch]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            step += 1
    return Classifier(mean, scale, weight.detach(), bias.detach())


def most_frequent_tag(split: Split) -> Floats:
    """Score each tag of the test part: 1 if it is the most frequent one of its token.

    Tokens that the training part lacks get the most frequent tag of all.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in split.train:
        for position, tag in zip(sentence.positions, sentence.tags, strict=True):
            counts[sentence.tokens[position]][tag] += 1
    usual = {token: tags.most_common(1)[0][0] for token, tags in counts.items()}
    common = sum(counts.values(), Counter()).most_common(1)[0][0]
    return np.array(
        [
            float(usual.get(sentence.tokens[position], common) == tag)
            for sentence in split.test
            for position, tag in zip(sentence.positions, sentence.tags, strict=True)
        ]
    )
