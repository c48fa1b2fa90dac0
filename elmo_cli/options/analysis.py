"""Options of the analyses: target words, change, neighbours, pictures and averages."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from elmo_cli.errors.checks import check_at_least
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.options.fields import option
from elmo_cli.options.layers import Layers, parse_mean_layers, without_token_layer

DEFAULT_MIN_COUNT: Final = 5
"""Minimum number of occurrences of a word that gets a mean vector, as in word2vec."""
Measure = Literal["apd", "prt", "jsd"]
"""Measures of change: mean pairwise distance, inverse similarity of prototypes, and
Jensen-Shannon divergence."""
MEASURES: Final = get_args(Measure)
Correction = Literal["bh", "bonferroni"]
"""Corrections of p for many words: Benjamini-Hochberg and Bonferroni."""
CORRECTIONS: Final = get_args(Correction)
Match = Literal["form", "lemma"]
"""What a target word is compared with: the tokens, or the lemmas of CoNLL-U."""
MATCHES: Final = get_args(Match)
Projection = Literal["pca", "tsne"]
"""Projections of vectors onto a plane."""
PROJECTIONS: Final = get_args(Projection)
FIGURE_SUFFIXES: Final = (".svg", ".png", ".pdf", ".html")
"""Suffixes of the files of pictures."""


@dataclass(frozen=True)
class TargetSettings:
    """Settings of the search for target words."""

    match: Match = option(
        "form", "Find word forms, or lemmas in CoNLL-U.", choices=MATCHES
    )
    ignore_case: bool = option(False, "Match words regardless of case.")


@dataclass(frozen=True)
class ChangeSettings:
    """Settings of the change of words between two corpora."""

    measure: Measure = option(
        "apd",
        "Measure of change: apd (mean cosine distance of all pairs, 0 to 2), prt "
        "(1 / cosine of the two means, 1 without change) or jsd (Jensen-Shannon "
        "divergence over clusters, in nats, 0 to 0.69).",
        choices=MEASURES,
    )
    permutations: int = option(
        0,
        "Add p, from N random divisions of the occurrences, such as 10000.",
        default_text="none",
        value="N",
    )
    correction: Correction | None = option(
        None,
        "Adjust the p of {--permutations} for the number of words: bh (false discovery "
        "rate) or bonferroni.",
        default_text="none",
        choices=CORRECTIONS,
    )
    match: Match | None = option(
        None,
        "Only accept files written with this {--match}.",
        default_text="any",
        choices=MATCHES,
    )


@dataclass(frozen=True)
class PlotSettings:
    """Settings of a picture of occurrences."""

    method: Projection = option(
        "pca",
        "Projection to two dimensions: pca, of 3 occurrences or more, or tsne, of 30 "
        "or more.",
        choices=PROJECTIONS,
    )
    clusters: int | None = option(
        None,
        "Find N clusters by k-means and colour them; requires N occurrences.",
        default_text="one colour per FILE",
        value="N",
    )


@dataclass(frozen=True)
class NeighbourSettings:
    """Settings of a search for neighbours."""

    top: int = option(10, "Maximum number of neighbours per query.", value="N")
    other_words: bool = option(
        False,
        "Exclude occurrences of WORD in any case, and in files of `elmo occurrences` "
        "all forms of the target word.",
    )


@dataclass(frozen=True)
class AveragingSettings:
    """Occurrences and layers whose vectors are averaged."""

    layers: Layers | None = None
    """Layers as in `ElmoEmbedder.embed_sentences`. Several layers are averaged. None is
    all layers but the token layer."""
    min_count: int = option(
        DEFAULT_MIN_COUNT, "Skip words that occur fewer than N times.", value="N"
    )
    at_most: int | None = option(
        None,
        "Average only the first N occurrences of a word; N is {--min-count} or more.",
        default_text="all",
        value="N",
    )

    def layer_numbers(self, n_layers: int) -> list[int]:
        """Return the numbers of the layers of a model that are averaged.

        Raises:
            SettingsError: The model has no such layers.
        """
        if self.layers is None:
            return without_token_layer(range(n_layers))
        return parse_mean_layers(self.layers, n_layers)

    def __post_init__(self) -> None:
        check_at_least("min_count", self.min_count, 1)
        if self.at_most is None:
            return
        check_at_least("at_most", self.at_most, 1)
        if self.at_most < self.min_count:
            raise SettingsError(
                "{--at-most}: expected {--min-count} ({min_count}) or more, found "
                "{at_most}",
                min_count=f"{self.min_count:,}",
                at_most=f"{self.at_most:,}",
            )
