"""Choices of the analyses, which the library checks and the command line lists."""

from typing import Final

MEASURES: Final = ("apd", "prt", "jsd")
"""Measures of change: mean pairwise distance, inverse similarity of prototypes, and
Jensen-Shannon divergence."""
CORRECTIONS: Final = ("bh", "bonferroni")
"""Corrections of p for many words: Benjamini-Hochberg and Bonferroni."""
MATCHES: Final = ("form", "lemma")
"""What a target word is compared with: the tokens, or the lemmas of CoNLL-U."""
PROJECTIONS: Final = ("pca", "tsne")
"""Projections of vectors onto a plane."""
