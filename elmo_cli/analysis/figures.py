"""Files of figures of matplotlib: SVG, PNG, PDF, or an HTML page (extra `plot`).

In SVG and HTML, each point or bar has a tooltip. Equal figures give equal files.
"""

import html
import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from elmo_cli.atomic import check_output, replaced
from elmo_cli.errors import OutputError, load_extra

SUFFIXES: Final = (".svg", ".png", ".pdf", ".html")
POINTS: Final = "points-"
"""Prefix of the SVG ids of groups of points."""
BARS: Final = "bars-"
"""Prefix of the SVG ids of bars."""
_SVG: Final = "http://www.w3.org/2000/svg"
_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<style>svg {{ width: 100%; height: auto; }}</style>
{svg}
</html>
"""
_STYLE: Final[Any] = {
    "font.size": 9,
    "pdf.fonttype": 42,  # text that can be selected
    "svg.fonttype": "none",
    "svg.hashsalt": "elmo",  # equal ids in equal figures
    "text.parse_math": False,
}


def check_figure(path: str | Path, *, overwrite: bool) -> None:
    """Raise an error unless a figure can be written to a path.

    Raises:
        OutputError: The path has another suffix, exists already or cannot be written.
        ElmoError: matplotlib is not installed.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        raise OutputError(f"{path}: expected a name that ends in {', '.join(SUFFIXES)}")
    check_output(path, overwrite=overwrite)
    load_extra("plot", "matplotlib", "plot")


@contextmanager
def figure_style() -> Iterator[None]:
    """Open a context with the style of the figures, to draw and save one."""
    import matplotlib

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # The font may lack characters.
        yield


def new_figure(width: float, height: float) -> tuple[Any, Any]:
    """Return a figure of a size in inches, and its axes."""
    figure = empty_figure(width, height)
    return figure, figure.add_subplot()


def empty_figure(width: float, height: float) -> Any:
    """Return a figure of a size in inches, without axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(path: str | Path, figure: Any, title: str, tooltips: Sequence[str]) -> None:
    """Write a figure in the format of the suffix.

    Args:
        path: Path of the file.
        figure: Figure, drawn in `figure_style`. The id of each group of points begins with
            `POINTS`, and the id of each bar with `BARS`.
        title: Title of an HTML page.
        tooltips: Text of each point or bar, in the order in which they are drawn.
    """
    suffix = Path(path).suffix.lower()
    with replaced(path) as partial, open(partial, "xb") as file:
        if suffix == ".png":
            figure.savefig(file, format="png", dpi=150)
        elif suffix == ".pdf":
            figure.savefig(file, format="pdf", metadata={"CreationDate": None})
        else:
            drawn = io.BytesIO()
            figure.savefig(drawn, format="svg", metadata={"Date": None})
            svg = _add_tooltips(drawn.getvalue(), tooltips)
            if suffix == ".html":
                inline = svg[svg.index(b"<svg") :].decode()
                svg = _PAGE.format(title=html.escape(printable(title)), svg=inline).encode()
            file.write(svg)


def printable(text: str) -> str:
    """Return a text in which U+FFFD replaces characters that cannot be printed."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _add_tooltips(svg: bytes, tooltips: Sequence[str]) -> bytes:
    """Return an SVG in which each point and bar has a tooltip."""
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(svg)
    drawn: list[ElementTree.Element] = []
    for group in root.iter(f"{{{_SVG}}}g"):
        name = group.get("id", "")
        if name.startswith(POINTS):
            drawn += group.iter(f"{{{_SVG}}}use")
        elif name.startswith(BARS):
            drawn.append(group)
    for element, tooltip in zip(drawn, tooltips, strict=True):
        ElementTree.SubElement(element, f"{{{_SVG}}}title").text = printable(tooltip)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text
