"""The site: hooks that make linked files its pages, and the picture of the model."""

import runpy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def hooks() -> dict[str, Any]:
    pytest.importorskip("mkdocs")
    return runpy.run_path(str(DOCS / "hooks.py"))


def test_links_to_files_outside_docs_lead_to_pages(hooks: dict[str, Any]) -> None:
    moved = hooks["moved"]
    text = "[a](../CONTRIBUTING.md#b) [c](text.md) [d](../examples/sentiment.py) [e](../none.md)"
    assert moved(text, "docs/index.md") == (
        "[a](CONTRIBUTING.md#b) [c](text.md) [d](examples/sentiment.py.md) [e](../none.md)"
    )
    assert moved("```sh\n[a](../LICENSE)\n```\n", "docs/index.md").count("../LICENSE") == 1
    assert moved("[a](docs/text.md) [b](README.md)", "CONTRIBUTING.md") == (
        "[a](text.md) [b](index.md)"
    )
    assert moved("[a](../../../docs/models.md)", "elmo_cli/data/mini/card.md") == (
        "[a](../../../models.md)"
    )


def test_tables_with_tabs_are_aligned(hooks: dict[str, Any]) -> None:
    assert hooks["aligned"]("```text\na\tbc\nabc\td\n```") == "```text\na    bc\nabc  d\n```"


def test_linked_files_become_pages(hooks: dict[str, Any]) -> None:
    linked = hooks["linked_files"]("[a](../examples/tutorial.ipynb) [b](text.md)", "docs/index.md")
    assert list(linked) == ["examples/tutorial.ipynb"]
    assert hooks["page_of"]("examples/tutorial.ipynb") == "examples/tutorial.md"
    notebook = hooks["page_text"]("examples/tutorial.ipynb")
    assert notebook.startswith("# ELMo in ten minutes\n")
    assert "```python\nfrom elmo_cli import ElmoEmbedder\n" in notebook
    example = hooks["page_text"]("examples/sentiment.py")
    assert example.startswith("# sentiment.py\n")
    assert "~~~~python\n" in example


@pytest.mark.parametrize("picture", sorted(DOCS.glob("*.svg")), ids=lambda path: path.name)
def test_pictures_have_the_colours_of_the_page(hooks: dict[str, Any], picture: Path) -> None:
    image = f'<p><img alt="a &quot;b&quot;" src="../{picture.name}" /></p>'
    content = hooks["on_page_content"](image, page=None, config=None, files=None)
    svg = ElementTree.fromstring(content.replace("data-search-exclude", "")).find(f".//{SVG}svg")
    assert svg is not None
    assert (svg.get("aria-label"), svg.get("fill")) == ('a "b"', "currentColor")
    assert svg.find(f".//{SVG}title") is not None  # the tooltips
    assert not any(text in content for text in ("#ffffff", "#000000", '"white"', "<style"))


def test_addresses_come_from_the_project(hooks: dict[str, Any], tmp_path: Path) -> None:
    from mkdocs.config.defaults import MkDocsConfig

    urls = 'repository = "https://example.org/a/b"\ndocumentation = "https://example.org/docs/"\n'
    (tmp_path / "pyproject.toml").write_text(urls)
    hooks["on_config"].__globals__["ROOT"] = tmp_path
    config = hooks["on_config"](MkDocsConfig())
    assert (config.repo_url, config.repo_name) == ("https://example.org/a/b", "a/b")
    assert config.site_url == "https://example.org/docs/"


def test_directions_never_mix_in_the_picture_of_the_model() -> None:
    root = ElementTree.parse(DOCS / "elmo.svg").getroot()
    boxes, texts = root.findall(f"{SVG}rect")[1:], root.findall(f"{SVG}text")
    labels = [text for text in texts if text.get("text-anchor") == "middle"]

    def box_at(x: float, y: float) -> str | None:
        for box, label in zip(boxes, labels, strict=True):
            keys = ("x", "y", "width", "height")
            left, top, width, height = (float(box.get(key) or "") for key in keys)
            if left - 3 <= x <= left + width + 3 and top - 3 <= y <= top + height + 3:
                return label.text
        return None

    for line in root.findall(f"{SVG}line"):
        x1, y1, x2, y2 = (float(line.get(key) or "") for key in ("x1", "y1", "x2", "y2"))
        ends = {box_at(x1, y1), box_at(x2, y2)}
        assert None not in ends
        assert not {"forward", "backward"} <= ends
        assert line.get("class") != "f" or "backward" not in ends
        assert line.get("class") != "b" or "forward" not in ends
