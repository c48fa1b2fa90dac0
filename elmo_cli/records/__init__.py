"""Records: what a source of text in any format has, with ids and columns."""
