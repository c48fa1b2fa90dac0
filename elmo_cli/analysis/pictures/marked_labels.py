"""Labels of points, in which a word is bold and its context is lighter.

In matplotlib a text has one style, so that a label is up to three texts in a row. In
SVG they become one text again, because the font of a browser may have other widths.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple
from xml.etree import ElementTree

from elmo_cli.text.join_tokens import spaces_before

Side = Literal["right", "left"]
SIDES: Final[tuple[Side, ...]] = ("right", "left")
_FONT_SIZE: Final = 9
_CONTEXT_OPACITY: Final = 0.7
"""An opacity, unlike a grey, also suits a dark page."""
_X_OFFSET: Final = 5
"""Distance of a label from its point, in points (1/72 inch)."""
_Y_OFFSET: Final = -0.35 * _FONT_SIZE
_LABEL: Final = "label-"
"""Beginning of the SVG id of each text of a label."""
_CUT: Final = "…"
_SVG: Final = "{http://www.w3.org/2000/svg}"


class MarkedText(NamedTuple):
    """Word with the text before and after it, and the spaces between them."""

    before: str
    word: str
    after: str


def mark_token(tokens: Sequence[str], index: int) -> MarkedText:
    """Return the text of a sentence, split at one of its tokens."""
    parts = []
    for token, has_space in zip(tokens, spaces_before(tokens), strict=True):
        parts.append(f" {token}" if has_space else token)
    word = tokens[index]
    space = parts[index].removesuffix(word)
    return MarkedText(
        before="".join(parts[:index]) + space,
        word=word,
        after="".join(parts[index + 1 :]),
    )


def shorten(text: MarkedText, n_characters: int) -> MarkedText:
    """Cut the context of a word to a number of characters on either side.

        shorten(MarkedText("He sat on the ", "bank", " of the river"), 8)
        # MarkedText("…on the ", "bank", " of the…")

    Words stay whole, unless one of them is longer.
    """
    before, word, after = text
    if len(before) > n_characters:
        kept = before[-n_characters:]
        if before[-n_characters - 1] != " ":
            _, space, whole_words = kept.partition(" ")
            kept = whole_words if space and whole_words else kept
        before = _CUT + kept.lstrip()
    if len(after) > n_characters:
        kept = after[:n_characters]
        if after[n_characters] != " ":
            whole_words, space, _ = kept.rpartition(" ")
            kept = whole_words if space and whole_words else kept
        after = kept.rstrip(" ,;:'\"") + _CUT
    return MarkedText(before, word, after)


def draw_label(
    axes: Any,
    point: Any,
    label: MarkedText,
    side: Side,
    shift: tuple[float, float] = (0, 0),
) -> list[Any]:
    """Draw a label on one side of a point, or of a place that is shifted from it.

    Args:
        axes: Axes of matplotlib.
        point: Point in the coordinates of the data, shape (2,).
        label: Word with its context.
        side: Side of the point on which the label stands.
        shift: Distance to the right and upwards, in points (1/72 inch).

    Returns:
        Its texts, beginning at the point. They need `name_label` for SVG.
    """
    x_shift, y_shift = shift
    texts = []
    is_right = side == "right"
    parts = [(label.before, False), (label.word, True), (label.after, False)]
    if not is_right:
        parts.reverse()
    distance = float(_X_OFFSET)  # from the point to the next text, in points
    for part, is_word in parts:
        if not part:
            continue
        x = x_shift + distance if is_right else x_shift - distance
        text = axes.annotate(
            part,
            point,
            xytext=(x, y_shift + _Y_OFFSET),
            textcoords="offset points",
            ha="left" if is_right else "right",
            va="baseline",
            fontsize=_FONT_SIZE,
            weight="bold" if is_word else "normal",
            alpha=None if is_word else _CONTEXT_OPACITY,
        )
        text.set_in_layout(False)
        distance += _width(text, part)
        texts.append(text)
    return texts


def _width(text: Any, part: str) -> float:
    """Return the width of the string of a text in points, with spaces at its ends."""
    renderer = text.figure.canvas.get_renderer()
    font = text.get_fontproperties()
    # matplotlib ignores spaces at the ends, unless something stands around them.
    framed, _, _ = renderer.get_text_width_height_descent(f"|{part}|", font, False)
    frame, _, _ = renderer.get_text_width_height_descent("||", font, False)
    return float((framed - frame) * 72 / text.figure.dpi)


def name_label(texts: Sequence[Any], index: int) -> None:
    """Give the texts of a label the ids by which `join_label_texts` finds them."""
    for text in texts:
        text.set_gid(f"{_LABEL}{index}")


def join_label_texts(root: ElementTree.Element) -> None:
    """Make one text of the texts of each label in SVG, in which they are in order."""
    for parent in root.iter(f"{_SVG}g"):
        labels: dict[str, list[ElementTree.Element]] = {}
        for group in parent:
            name = group.get("id", "")
            if name.startswith(_LABEL):
                labels.setdefault(name, []).append(group)
        for groups in labels.values():
            # The only child of a group is its text.
            joined = _joined_text([group[0] for group in groups])
            first, *others = groups
            first[:] = [joined]
            for group in others:
                parent.remove(group)


def _joined_text(texts: Sequence[ElementTree.Element]) -> ElementTree.Element:
    """Return one text for those of a label, the one at the point first."""
    at_point = texts[0]
    is_right = "text-anchor: end" not in at_point.get("style", "")
    joined = ElementTree.Element(
        f"{_SVG}text",
        {
            "x": at_point.get("x", ""),
            "y": at_point.get("y", ""),
            "style": f"font-size: {_FONT_SIZE}px; font-family: 'DejaVu Sans', "
            f"sans-serif; text-anchor: {'start' if is_right else 'end'}",
        },
    )
    for text in texts if is_right else reversed(texts):
        part = ElementTree.SubElement(joined, f"{_SVG}tspan")
        if "font-weight" in text.get("style", ""):
            part.set("style", "font-weight: bold")
        else:
            part.set("style", f"fill-opacity: {_CONTEXT_OPACITY}")
        part.text = text.text
    return joined
