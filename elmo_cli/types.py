"""Types that the whole package uses."""

Sentence = list[str]
"""Tokens of a sentence."""
Text = str | Sentence
"""Raw text, or a list of tokens."""
