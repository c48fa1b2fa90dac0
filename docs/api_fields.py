"""Extension of Griffe for the API page: lists of fields, and public signatures.

The fields of a named tuple or dataclass become a section `Attributes` of its docstring,
so that they are one list in place of a heading per field. Signatures lose names that
are internal.
"""

from typing import Any, Final

import griffe

TEXTS: Final = {
    "adjusted_p": "p adjusted for the number of words.",
    "average": "Perplexity of both directions together.",
    "backward": "Perplexity of the backward direction.",
    "change": "Change of the word.",
    "cosine": "Cosine with the query.",
    "elmo_representations": "Representations, float, shape (B, T, W) each.",
    "first": "First occurrence of the pair.",
    "forward": "Perplexity of the forward direction.",
    "id": "Id of the record, if it has one.",
    "known_words": "Perplexity of the predictions of known words and boundaries.",
    "layers": "Layers, float, shape (L, B, T + 2, W), zero where the mask is zero.",
    "location": "Location of the sentence.",
    "mask": "Mask of the tokens, shape (B, T), or with boundaries, (B, T + 2).",
    "n_drawn": "Number of points.",
    "n_new": "Number of its new occurrences.",
    "n_occurrences": "Number of occurrences found.",
    "n_old": "Number of its old occurrences.",
    "n_tokens": "Number of its tokens.",
    "n_unknown": "Number of its tokens that are not in the vocabulary.",
    "number": "Number in its text, from 1.",
    "options": "Path of options.json.",
    "path": "Path of the file.",
    "probability": "Its probability.",
    "record": "Id, text and tokens of the record.",
    "region": "Region of a word, if the text has regions.",
    "second": "Second occurrence of the pair.",
    "sentence": "Tokens of the sentence.",
    "softmax": "Path of the weights of the softmax, if there is one.",
    "source": "File of the record.",
    "state": "State at the end of each sentence.",
    "summary": "Summary of the run.",
    "text": "Its text.",
    "tokens": "Its tokens.",
    "weights": "Path of the weights.",
    "word": "The word.",
}
"""Descriptions of fields without a docstring."""
HIDDEN: Final = {"VectorFiles.on_progress", "VectorFiles.sources"}
ALIASES: Final = {
    **dict.fromkeys(
        (
            "Compression",
            "Correction",
            "Direction",
            "Dtype",
            "FileFormat",
            "InputFormatName",
            "Layout",
            "Match",
            "Measure",
            "Pooling",
            "Projection",
            "Quotes",
            "ReadingDirection",
            "RowKind",
            "UnitKind",
        ),
        "str",
    ),
    "OnProgress": "Callable",
    "OccurrencePair": "tuple[Occurrence, Occurrence]",
    "SupportsIndex": "int",
    "TextFile": "IO[str] | str | Path",
    "_Path": "str | Path | None",
}
"""Names of types in signatures that a reader cannot look up."""
DEFAULTS: Final = {
    "DEFAULT_BATCH_SIZE": "64",
    "DEFAULT_LAYERS": "'top'",
    "DEFAULT_MIN_COUNT": "5",
}
"""Values of constants in signatures."""


class Fields(griffe.Extension):
    """Extension that adds the fields of a result to its docstring."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Append a section with the fields to the docstring of a tuple or dataclass."""
        bases = " ".join(str(base) for base in cls.bases)
        is_tuple_or_dict = "NamedTuple" in bases or "TypedDict" in bases
        has_fields = is_tuple_or_dict or "dataclass" in cls.labels
        if cls.docstring is None or not has_fields or "Args:" in cls.docstring.value:
            return
        rows = []
        for name, field in cls.attributes.items():
            is_hidden = name.startswith("_") or f"{cls.name}.{name}" in HIDDEN
            if is_hidden or "property" in field.labels:
                continue
            if field.docstring is None:
                text = TEXTS.get(name, "")
            else:
                text = " ".join(field.docstring.value.split())
            rows.append(f"    {name}: {text}")
        cls.docstring.value += "\n\nAttributes:\n" + "\n".join(rows)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Replace names in a signature that are not public."""
        for parameter in func.parameters:
            replace_aliases(parameter.annotation)
            parameter.default = DEFAULTS.get(str(parameter.default), parameter.default)
        replace_aliases(func.returns)


def replace_aliases(expression: Any) -> None:
    """Replace the aliases in an expression by their values."""
    if isinstance(expression, griffe.Expr):
        for name in expression.iterate(flat=True):
            if isinstance(name, griffe.ExprName):
                name.name = ALIASES.get(name.name, name.name)
