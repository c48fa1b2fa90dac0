"""Extension of Griffe for the API page: lists of fields, and public signatures.

The fields of a named tuple or dataclass become a section `Attributes` of its docstring,
so that they are one list in place of a heading per field. Signatures lose names that
are internal.
"""

import ast
import re
from typing import Any, Final, get_args

import griffe

from elmo_cli import types
from elmo_cli.language_model import units
from elmo_cli.options import analysis, model, output, selection, text

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
NAME: Final = re.compile(r"\b[A-Za-z_]\w*")
CREATED_BY_FUNCTIONS: Final = ("Activations",)
"""Classes whose constructors are not shown, unlike their methods."""
HIDDEN: Final = {
    *{"VectorFiles.on_progress", "VectorFiles.sources"},
    *{f"Record.{name}" for name in ("sentences", "words", "word_columns", "fields")},
    *{f"Record.{name}" for name in ("places", "lemmas", "start", "line")},
    *{f"Record.{name}" for name in ("id_is_integer", "lacks_blank_line")},
}
"""Fields for the modules inside."""
ALIASES: Final = {
    **{
        name: f"Literal{[*get_args(choices)]}"
        for name, choices in {
            "Compression": output.Compression,
            "Correction": analysis.Correction,
            "Direction": model.Direction,
            "Dtype": output.Dtype,
            "InitialState": model.InitialState,
            "Layout": output.Layout,
            "Match": analysis.Match,
            "Measure": analysis.Measure,
            "Pooling": selection.Pooling,
            "Projection": analysis.Projection,
            "Quotes": text.Quotes,
            "ReadingDirection": types.ReadingDirection,
            "RowKind": output.RowKind,
            "UnitKind": units.UnitKind,
        }.items()
    },
    "BiLmState": "list",
    "FileFormat": "str",
    "InputFormatName": "str",
    "Query": "Occurrence | tuple[Text, str]",
    "OnProgress": "Callable",
    "OccurrencePair": "tuple[Occurrence, Occurrence]",
    "SupportsIndex": "int",
    "TextFile": "IO[str] | str | Path",
    "VectorSource": "object",
    "_Nearest": "list[Neighbour] | list[list[Neighbour]]",
    "_Path": "str | Path | None",
}
"""Names of types in signatures that a reader cannot look up."""
RESULT_OF_SEARCH: Final = "Neighbours[Any]"
"""Type of a result whose form depends on the shape of an array."""
DEFAULTS: Final = {
    "AUTO": "'auto'",
    "DEFAULT_BATCH_SIZE": "64",
    "DEFAULT_LAYERS": "'top'",
    "DEFAULT_MIN_COUNT": "5",
}
"""Values of constants in signatures."""


class Fields(griffe.Extension):
    """Extension that adds the fields of a result to its docstring."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Append a section with the fields to the docstring of a tuple or dataclass."""
        show_defaults_of_options(cls)
        drop_first_line_of_init(cls)
        if cls.name in CREATED_BY_FUNCTIONS:
            cls.members.pop("__init__", None)
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
            field.annotation = without_aliases(field.annotation, cls)
            if field.docstring is None:
                text = TEXTS.get(name, "")
            else:
                text = " ".join(field.docstring.value.split())
            rows.append(f"    {name}: {text}")
        if rows:
            cls.docstring.value += "\n\nAttributes:\n" + "\n".join(rows)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Replace names in a signature that are not public."""
        for parameter in func.parameters:
            parameter.annotation = without_aliases(parameter.annotation, func)
            parameter.default = DEFAULTS.get(str(parameter.default), parameter.default)
        func.returns = without_aliases(func.returns, func)

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Replace names in the type of a property that are not public."""
        if "property" in attr.labels:
            attr.annotation = without_aliases(attr.annotation, attr)


def show_defaults_of_options(cls: griffe.Class) -> None:
    """Replace `option(None, "Help.", ...)` by the default of the field."""
    for field in cls.attributes.values():
        value = field.value
        if isinstance(value, griffe.ExprCall) and str(value.function) == "option":
            default = value.arguments[0]
            field.value = DEFAULTS.get(str(default), default)


def drop_first_line_of_init(cls: griffe.Class) -> None:
    """Drop the summary of a constructor, which the page joins to that of its class."""
    init = cls.members.get("__init__")
    if cls.docstring is None or init is None or init.docstring is None:
        return
    _, _, rest = init.docstring.value.partition("\n\n")
    init.docstring.value = rest


def without_aliases(annotation: Any, parent: Any) -> Any:
    """Return an annotation with the values of its aliases."""
    if annotation is None:
        return None
    old = str(annotation)
    new = NAME.sub(lambda name: ALIASES.get(name[0], name[0]), old)
    new = new.replace(RESULT_OF_SEARCH, "Neighbours")
    if new == old:
        return annotation
    tree = ast.parse(new, mode="eval")
    return griffe.get_expression(tree.body, parent=parent, parse_strings=False)
