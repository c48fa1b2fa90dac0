"""Reading data: words in their texts, what readers did, and published surprisals."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo_cli.text.sentences import split_into_sentences
from evaluation.bootstrap import Floats, Numbers

UCL_MEASURES = {
    "self-paced reading time": "self_paced_reading_time",
    "N400": "N400",
    "first fixation": "RTfirstfix",
    "first pass": "RTfirstpass",
    "right-bounded": "RTrightbound",
    "go-past": "RTgopast",
}
"""Columns of the UCL file. The last four are eye-tracking."""
UCL_SURPRISALS = {
    "GPT-2": "s_GPT2",
    "GPT-2 XL": "s_GPT2_xl",
    "RNN of Frank et al.": "rnn",
    "4-gram": "tetragram",
}
"""Columns of the UCL file."""
UCL_FOLDS = 10
FIRST_TIME_BEFORE_2025 = 369.0119
"""First time of story 1 in Natural Stories before May 2025, in milliseconds.

There, each time is in the row of the word before.
"""


@dataclass(frozen=True)
class Measure:
    """Measure of reading, such as a time."""

    values: Floats
    """Mean over readers for each word, NaN if there is none, shape (N,)."""
    n_previous: int = 0
    """Number of previous words that matter as well (spill-over)."""


@dataclass(frozen=True)
class ReadingData:
    """N words that people read, in the order of their texts."""

    name: str
    sentences: list[list[str]]
    """Words of each sentence, N in total."""
    texts: NDArray[np.str_]
    """Text of each word. Spill-over ends with a text. Shape (N,)."""
    folds: Numbers
    """Fold of each word, for fitting to the others, shape (N,)."""
    positions: Floats
    """Position of each word in its text, shape (N,)."""
    log_frequencies: Floats
    """Logarithm of each word's frequency, NaN if it is unknown, shape (N,)."""
    lengths: Floats
    """Number of characters of each word, shape (N,)."""
    measures: dict[str, Measure]
    published: dict[str, Floats]
    """Published surprisals, NaN if missing, shape (N,)."""
    remark: str = ""
    """Sentence about the data, for the note of the tables."""


def read_ucl(path: Path) -> ReadingData:
    """Read the 205 sentences of the UCL corpus, `all_measures.csv`.

    The file has no row for the first word of a sentence.
    """
    rows: dict[str, dict[int, dict[str, str]]] = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault(row["sent_id"], {})[int(row["context_length"])] = row
    sentences = []
    words = []
    texts = []
    folds = []
    positions = []
    for number, sentence_id in enumerate(sorted(rows, key=int)):
        by_position = rows[sentence_id]
        sentence = next(iter(by_position.values()))["sentence"].split(" ")
        sentences.append(sentence)
        for position in range(len(sentence)):
            words.append(by_position.get(position, {}))
            texts.append(sentence_id)
            folds.append(number % UCL_FOLDS)
            positions.append(position)

    def column(name: str) -> Floats:
        return np.array([_to_number(row.get(name, "")) for row in words])

    measures = {}
    for name, title in UCL_MEASURES.items():
        is_self_paced = title == "self_paced_reading_time"
        measures[name] = Measure(column(title), n_previous=1 if is_self_paced else 0)
    return ReadingData(
        name="Reading of single sentences",
        sentences=sentences,
        texts=np.array(texts),
        folds=np.array(folds),
        positions=np.array(positions, float),
        log_frequencies=column("Subtlex_log10"),
        lengths=column("length"),
        measures=measures,
        published={name: column(title) for name, title in UCL_SURPRISALS.items()},
    )


def read_natural_stories(
    times: Path, frequencies: Path, gpt3: Path | None = None
) -> ReadingData:
    """Read the Natural Stories corpus, whose stories are split into sentences.

    Args:
        times: `processed_wordinfo.tsv`. The times of a file from before May 2025 are
            moved to the next word, where they belong.
        frequencies: `freqs-1.tsv`.
        gpt3: `all_stories_gpt3.csv`.
    """
    with open(times, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows.sort(key=lambda row: (int(row["item"]), int(row["zone"])))
    stories = np.array([int(row["item"]) for row in rows])
    zones = np.array([int(row["zone"]) for row in rows])
    words = np.array([row["word"] for row in rows])
    mean_times = np.array([_to_number(row["meanItemRT"]) for row in rows])
    remark = ""
    if np.isclose(mean_times[0], FIRST_TIME_BEFORE_2025, atol=1e-4):
        remark = "The times are from before May 2025, and moved to the next word."
        is_first = np.append(True, stories[1:] != stories[:-1])
        mean_times = np.where(is_first, np.nan, np.roll(mean_times, 1))
    counts = _read_counts(frequencies)
    word_counts = []
    for story, zone in zip(stories.tolist(), zones.tolist(), strict=True):
        word_counts.append(counts.get((story, zone), np.nan))
    sentences = []
    for story in np.unique(stories):
        text = " ".join(words[stories == story])
        for sentence in split_into_sentences(text, "en"):
            sentences.append(sentence.split(" "))
    published = {}
    if gpt3 is not None:
        published["GPT-3"] = _read_gpt3(gpt3, words.tolist())
    return ReadingData(
        name="Reading of stories",
        sentences=sentences,
        texts=stories.astype(str),
        folds=stories,
        positions=zones.astype(float),
        log_frequencies=np.log2(word_counts),
        lengths=np.char.str_len(words).astype(float),
        measures={"self-paced reading time": Measure(mean_times, n_previous=2)},
        published=published,
        remark=remark,
    )


def _read_counts(path: Path) -> dict[tuple[int, int], float]:
    """Return the count of each word, by its story and number.

    Rows such as `1.57.word` count a word without its punctuation. A count of 0 is
    missing.
    """
    counts = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        code, _, _, count, *_ = line.split("\t")
        story, number, kind = code.split(".")
        if kind == "word" and count not in ("0", "NA"):
            counts[int(story), int(number)] = float(count)
    return counts


def _read_gpt3(path: Path, words: list[str]) -> Floats:
    """Return the surprisal of each word, in nats.

    A token belongs to the word that has its first character. Tokens and words have
    equally many characters in the same order.
    """
    word_of_character = np.repeat(np.arange(len(words)), [len(word) for word in words])
    surprisals = np.zeros(len(words))
    start = 0
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            token = row["token"].strip()
            if token and start < len(word_of_character):
                surprisals[word_of_character[start]] -= _to_number(row["logprob"])
            start += len(token)
    if start != len(word_of_character):
        raise ValueError(f"{path}: expected the words of the reading times")
    return surprisals


def _to_number(cell: str) -> float:
    return float(cell) if cell not in ("", "NA") else np.nan
