"""Choices of the analyses, which the library checks and the command line lists."""

from typing import Final, Literal, get_args

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
