"""`elmo occurrences`: target words in a text, and the vectors of their occurrences."""
