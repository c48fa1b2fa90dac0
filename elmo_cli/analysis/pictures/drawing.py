"""Drawings by matplotlib (extra `plot`), written as SVG, PNG, PDF or HTML.

In SVG, each point or bar has a tooltip, and in HTML it has a bubble that appears at
once. Equal data give equal files.
"""

import html
import io
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import Any, Final
from xml.etree import ElementTree

import numpy as np

from elmo_cli.analysis.pictures.marked_labels import join_label_texts
from elmo_cli.errors.checks import check_flag, check_path
from elmo_cli.errors.exceptions import OutputNameError
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import listed, unknown_suffix
from elmo_cli.files.atomic import new_file
from elmo_cli.files.output_checks import check_output
from elmo_cli.options.analysis import FIGURE_SUFFIXES

_POINTS: Final = "points-"
"""Beginning of the SVG id of a group of points."""
_BARS: Final = "bars-"
"""Beginning of the SVG id of a bar."""
WIDTH: Final = 4.2
"""Width of a figure in inches, at which texts of 9 points are legible on a phone."""
_DPI: Final = 150
"""Pixels per inch in PNG."""
_SVG: Final = "http://www.w3.org/2000/svg"
_STYLE: Final[Any] = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "font.size": 9,
    "pdf.fonttype": 42,  # text that can be selected
    "svg.fonttype": "none",
    "svg.hashsalt": "elmo",  # equal ids in equal figures
    "text.parse_math": False,
}


def check_figure(path: str | Path, *, overwrite: bool) -> None:
    """Raise an error unless a figure can be written to a path, by matplotlib."""
    check_path("output", path)
    check_flag("overwrite", overwrite)
    suffix = Path(path).suffix
    if suffix.lower() not in FIGURE_SUFFIXES:
        known = listed(FIGURE_SUFFIXES, "or")
        problem = unknown_suffix(path)
        raise OutputNameError(problem, remedy=f"Choose {known}.")
    check_output(path, may_exist=overwrite)
    load_extra("plot", "matplotlib", "plot")


class Drawing:
    """Figure, with the tooltip of each point or bar in the order of their drawing."""

    def __init__(self, width: float, height: float) -> None:
        """Make an empty figure of a size in inches."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        # Labels are measured at the resolution of PNG, at which they are drawn.
        self.figure: Any = Figure((width, height), _DPI, layout="constrained")
        FigureCanvasAgg(self.figure)
        self._tooltips: list[str] = []

    def add_points(
        self,
        axes: Any,
        name: str,
        points: Any,
        tooltips: Iterable[str],
        *,
        marker: str = "o",
        **style: Any,
    ) -> None:
        """Draw points, shape (n, 2), in one style. `name` is unique in the figure."""
        x, y = np.transpose(points)
        gid = f"{_POINTS}{name}"
        axes.plot(x, y, linestyle="none", marker=marker, gid=gid, **style)
        self._tooltips += tooltips

    def add_bars(
        self,
        axes: Any,
        positions: Any,
        heights: Any,
        tooltips: Iterable[str],
        **style: Any,
    ) -> Any:
        """Draw bars in one style, and return them."""
        bars = axes.bar(positions, heights, **style)
        for bar, tooltip in zip(bars, tooltips, strict=True):
            bar.set_gid(f"{_BARS}{len(self._tooltips)}")
            self._tooltips.append(tooltip)
        return bars

    def to_svg(self) -> bytes:
        """Return the figure as SVG, in which each point and bar has its tooltip."""
        without_tooltips = io.BytesIO()
        self.figure.savefig(without_tooltips, format="svg", metadata={"Date": None})
        ElementTree.register_namespace("", _SVG)
        ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
        root = ElementTree.fromstring(without_tooltips.getvalue())
        join_label_texts(root)
        drawn: list[ElementTree.Element] = []
        for group in root.iter(f"{{{_SVG}}}g"):
            name = group.get("id", "")
            if name.startswith(_POINTS):
                drawn += group.iter(f"{{{_SVG}}}use")
            elif name.startswith(_BARS):
                drawn.append(group)
        for element, tooltip in zip(drawn, self._tooltips, strict=True):
            title = ElementTree.SubElement(element, f"{{{_SVG}}}title")
            title.text = printable(tooltip)
        svg: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
        return svg


@contextmanager
def open_drawing(
    path: str | Path,
    title: str,
    caption: str,
    *,
    width: float,
    height: float,
    overwrite: bool,
) -> Iterator[Drawing]:
    """Open a drawing of a size in inches, and write it at the end.

    An HTML page has the title, and the caption below the picture.
    """
    import matplotlib

    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # The font may lack characters.
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        drawing = Drawing(width, height)
        yield drawing
        with new_file(path, overwrite=overwrite) as file:
            suffix = Path(path).suffix.lower()
            if suffix == ".png":
                drawing.figure.savefig(file, format="png", dpi=_DPI)
            elif suffix == ".pdf":
                no_date = {"CreationDate": None}
                drawing.figure.savefig(file, format="pdf", metadata=no_date)
            elif suffix == ".html":
                file.write(_html_page(drawing, title, caption))
            else:
                file.write(drawing.to_svg())


def _html_page(drawing: Drawing, title: str, caption: str) -> bytes:
    """Return a page that needs no other file."""
    svg = drawing.to_svg()
    width = drawing.figure.get_figwidth() * 72
    page = Path(__file__).with_name("figure.html").read_text(encoding="utf-8")
    filled = Template(page).substitute(
        title=html.escape(printable(title)),
        svg=svg[svg.index(b"<svg") :].decode(),
        caption=html.escape(printable(caption)),
        # The text is as large as that of a page on a desktop, and legible on a phone.
        most=round(2 * width),
        least=round(0.85 * width),
    )
    return filled.encode()


def printable(text: str) -> str:
    """Return a text in which U+FFFD replaces characters that cannot be printed."""
    return "".join(
        char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text
    )
