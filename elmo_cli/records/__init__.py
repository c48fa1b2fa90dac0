"""Records: a source of text in any format, turned into sentences with ids and columns."""
