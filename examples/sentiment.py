"""Classification of film reviews as good or bad, by an LSTM on words alone or on ELMo.

pip download --no-deps --no-binary :all: vaderSentiment==0.5
python examples/sentiment.py vaderSentiment-0.5.zip

The package contains 10,605 sentences of film reviews, each rated by people from -4 to
4.
"""

import argparse
import io
import random
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from elmo_cli import Elmo, ElmoEmbedder, tokenize

ARCHIVE = "vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz"
REVIEWS = "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt"
BATCH_SIZE = 32


class Review(NamedTuple):
    """Sentence with its label: good (1) or bad (0)."""

    tokens: list[str]
    label: int


class Split(NamedTuple):
    """Texts to train on, to choose the epoch with, and to measure on."""

    train: list[Review]
    dev: list[Review]
    test: list[Review]


def read_reviews(path: str | Path, n_train: int, n_held_out: int) -> Split:
    """Draw reviews with a clear rating. dev and test have equal sizes."""
    with zipfile.ZipFile(path) as package:
        resources = io.BytesIO(package.read(ARCHIVE))
    with tarfile.open(fileobj=resources) as archive:
        file = archive.extractfile(REVIEWS)
        assert file is not None
        rows = [line.split("\t") for line in file.read().decode("utf-8").splitlines()]
    clear = [
        (text, float(rating)) for _, rating, text in rows if abs(float(rating)) >= 0.5
    ]
    random.Random(0).shuffle(clear)
    drawn = clear[: n_train + 2 * n_held_out]
    reviews = [Review(tokenize(text), int(rating > 0)) for text, rating in drawn]
    return Split(
        train=reviews[2 * n_held_out :],
        dev=reviews[n_held_out : 2 * n_held_out],
        test=reviews[:n_held_out],
    )


# Four modules from sentences to vectors, float, shape (B, T, W).


class Words(nn.Module):
    """Vectors without ELMo: one per word of the training text, random at first."""

    width = 128

    def __init__(self, reviews: Split) -> None:
        super().__init__()
        words = sorted(
            {token.lower() for review in reviews.train for token in review.tokens}
        )
        self.ids = {word: number for number, word in enumerate(words, start=2)}
        self.embedding = nn.Embedding(len(words) + 2, self.width, padding_idx=0)

    def forward(self, sentences: list[list[str]]) -> Tensor:
        """Look up the words. 1 represents all words that the training text lacks."""
        ids = [torch.tensor([self.ids.get(t.lower(), 1) for t in s]) for s in sentences]
        vectors: Tensor = self.embedding(pad_sequence(ids, batch_first=True))
        return vectors


class Frozen(nn.Module):
    """Average of ELMo's layers, computed once, before training."""

    width: int
    vectors: dict[tuple[str, ...], Tensor]

    def __init__(self, reviews: Split) -> None:
        super().__init__()
        embedder = ElmoEmbedder()
        sentences = [review.tokens for part in reviews for review in part]
        vectors = embedder.embed_sentences(sentences, layers="average")
        self.width = embedder.architecture.width
        self.vectors = {
            tuple(sentence): torch.from_numpy(values)
            for sentence, values in zip(sentences, vectors, strict=True)
        }

    def forward(self, sentences: list[list[str]]) -> Tensor:
        """Look up the sentences."""
        return pad_sequence(
            [self.vectors[tuple(s)] for s in sentences], batch_first=True
        )


class Mixed(nn.Module):
    """Trained mix of ELMo's layers. With `fine_tune`, the biLM is trained, too."""

    def __init__(self, fine_tune: bool) -> None:
        super().__init__()
        # The classifier has the dropout, equally in all four cases.
        self.elmo = Elmo(requires_grad=fine_tune, dropout=0.0)
        self.width = self.elmo.get_output_dim()

    def forward(self, sentences: list[list[str]]) -> Tensor:
        """Run the biLM."""
        output = self.elmo(self.elmo.bilm.sentence_ids(sentences))
        vectors: Tensor = output["elmo_representations"][0]
        return vectors


MAKERS: dict[str, Callable[[Split], Words | Frozen | Mixed]] = {
    "words, no ELMo": Words,
    "ELMo, frozen average": Frozen,
    "ELMo, trained mix": lambda reviews: Mixed(fine_tune=False),
    "ELMo, fine-tuned": lambda reviews: Mixed(fine_tune=True),
}


# The classifier.


class Classifier(nn.Module):
    """Linear layer on the maxima of the outputs of a bidirectional LSTM."""

    def __init__(self, vectors: Words | Frozen | Mixed, size: int = 64) -> None:
        super().__init__()
        self.vectors = vectors
        self.dropout = nn.Dropout(0.5)
        self.lstm = nn.LSTM(vectors.width, size, batch_first=True, bidirectional=True)
        self.output = nn.Linear(2 * size, 2)

    def forward(self, sentences: list[list[str]]) -> Tensor:
        """Score sentences: float, shape (B, 2)."""
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        vectors = self.dropout(self.vectors(sentences))  # (B, T, W)
        packed = pack_padded_sequence(
            vectors, lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, padding_value=-torch.inf
        )  # (B, T, 2 * size)
        scores: Tensor = self.output(self.dropout(states.amax(dim=1)))
        return scores


def optimizer_of(classifier: Classifier) -> torch.optim.Optimizer:
    """Return Adam with small steps for the biLM and large ones for the rest."""
    rates = {"bilm": 1e-4, "scalar_mix": 1e-2}
    groups = [
        {
            "params": [parameter],
            "lr": next((r for n, r in rates.items() if n in name), 2e-3),
        }
        for name, parameter in classifier.named_parameters()
        if parameter.requires_grad
    ]
    return torch.optim.Adam(groups)


def batches(reviews: list[Review], size: int = BATCH_SIZE) -> Iterator[list[Review]]:
    """Split reviews into batches, in their order."""
    for start in range(0, len(reviews), size):
        yield reviews[start : start + size]


def accuracy(classifier: Classifier, reviews: list[Review]) -> float:
    """Return the share of reviews with the right label."""
    classifier.eval()
    right = 0
    with torch.inference_mode():
        for batch in batches(reviews, 4 * BATCH_SIZE):
            scores = classifier([review.tokens for review in batch])
            labels = torch.tensor([review.label for review in batch])
            right += int((scores.argmax(dim=1) == labels).sum())
    return right / len(reviews)


def train(classifier: Classifier, reviews: Split, n_epochs: int) -> float:
    """Return the test accuracy of the epoch that is best on dev."""
    optimizer = optimizer_of(classifier)
    shuffled = list(reviews.train)
    best = -1.0
    result = 0.0
    for _ in range(n_epochs):
        classifier.train()
        random.shuffle(shuffled)
        for batch in batches(shuffled):
            labels = torch.tensor([review.label for review in batch])
            loss = functional.cross_entropy(
                classifier([r.tokens for r in batch]), labels
            )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        score = accuracy(classifier, reviews.dev)
        if score > best:
            best = score
            result = accuracy(classifier, reviews.test)
    return result


def compare(reviews: Split, n_epochs: int, seeds: list[int]) -> None:
    """Print test accuracy by seed, and seconds, for each kind of vectors."""
    print("vectors", *(f"seed {seed}" for seed in seeds), "mean", "seconds", sep="\t")
    for name, make in MAKERS.items():
        scores = []
        start = time.perf_counter()
        for seed in seeds:
            random.seed(seed)
            torch.manual_seed(seed)
            scores.append(train(Classifier(make(reviews)), reviews, n_epochs))
        seconds = (time.perf_counter() - start) / len(seeds)
        figures = [
            f"{100 * value:.1f}" for value in (*scores, sum(scores) / len(scores))
        ]
        print(name, *figures, f"{seconds:.0f}", sep="\t", flush=True)


def pipeline(reviews: Split) -> None:
    """Classify the reviews with scikit-learn, in three lines."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    from elmo_cli import ElmoVectorizer

    start = time.perf_counter()
    model = make_pipeline(ElmoVectorizer(), LogisticRegression(max_iter=1000))
    model.fit(
        [review.tokens for review in reviews.train], [r.label for r in reviews.train]
    )
    score = model.score(
        [review.tokens for review in reviews.test], [r.label for r in reviews.test]
    )
    print(f"ElmoVectorizer, LogisticRegression\t{100 * score:.1f}", end="\t")
    print(f"{time.perf_counter() - start:.0f} seconds")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("package", help="vaderSentiment-0.5.zip")
    parser.add_argument("--train", type=int, default=1000, help="sentences to train on")
    parser.add_argument(
        "--held-out", type=int, default=500, help="sentences of dev, and of test"
    )
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument(
        "--sklearn", action="store_true", help="try scikit-learn's pipeline too"
    )
    arguments = parser.parse_args()
    if arguments.sklearn:
        # Raise an error for a missing package before minutes of training.
        from elmo_cli import ElmoVectorizer  # noqa: F401
    if not Path(arguments.package).is_file():
        parser.error(f"{arguments.package}: no such file. See the top of {__file__}.")
    reviews = read_reviews(arguments.package, arguments.train, arguments.held_out)
    compare(reviews, arguments.epochs, arguments.seeds)
    if arguments.sklearn:
        pipeline(reviews)


if __name__ == "__main__":
    main()
