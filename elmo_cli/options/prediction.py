"""Options of predictions: how many words, of which kind, and random samples."""

from dataclasses import dataclass

from elmo_cli.options.fields import check_choices, option
from elmo_cli.types import READING_DIRECTIONS, ReadingDirection


@dataclass(frozen=True)
class PredictionSettings:
    """Settings of predictions: words after a text, before it, or in its gaps."""

    top: int = option(
        10,
        "Number of words to print for each text, or for each token with {--each True}.",
        value="N",
    )
    direction: ReadingDirection = option(
        "forward",
        "Predict the words after the text (forward) or before it (backward). Gaps "
        "always use both directions.",
        choices=READING_DIRECTIONS,
    )
    with_unknown: bool = option(
        False,
        "Rank <UNK> like a word. It never fills a gap.",
    )
    each: bool = option(
        False, "Predict each token of the text from both sides, as if it were a gap."
    )
    samples: int | None = option(
        None,
        "Print N random continuations of each text, without <UNK>, instead of the "
        "--top words. Backward, words are added in front.",
        value="N",
    )
    temperature: float = option(
        1,
        "Temperature of {--samples}; below 1, probable words become more probable.",
        value="T",
    )
    max_words: int = option(
        50, "Maximum number of words that {--samples} adds.", value="N"
    )
    seed: int = option(
        0, "Seed of {--samples}: the same seed gives the same words.", value="N"
    )

    def __post_init__(self) -> None:
        check_choices(self)
