"""The pages say what the program does, and their site has what they link to."""

import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest

from elmo_cli.cli import COMMANDS, find_command, main
from elmo_cli.pretrained.registry import MODELS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SVG = "{http://www.w3.org/2000/svg}"
TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (*sorted(DOCS.glob("*.md")), *sorted(ROOT.glob("*.md")))
}
"""The text of each page."""
pages = pytest.mark.parametrize("page", TEXTS)
OPERATORS = {"|", "||", "&&", ";", "<", ">", ">>", "&", "2>"}
FENCED = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.usefixtures("folder")


def elmo_commands(shell: str) -> Iterator[list[str]]:
    """Yield the arguments of every `elmo` in lines of shell, up to a pipe or redirection."""
    shell = re.sub(r"<<'END'\n.*?^END$", "", shell, flags=re.M | re.S)
    for line in shell.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(
            line.strip().removeprefix("$ "), posix=True, punctuation_chars=True
        )
        lexer.whitespace_split = True
        command: list[str] = []
        for word in [*lexer, ";"]:
            if word not in OPERATORS:
                command.append(word)
                continue
            while command and re.fullmatch(r"[A-Z_]+=.*", command[0]):
                del command[0]
            if command and command[0] == "elmo":
                yield command[1:]
            # The word after < or > is a file, and starts no command.
            command = ["a file"] if word in ("<", ">", ">>", "2>") else []


def parse(arguments: list[str]) -> None:
    """Parse a command line as click does, with its text files at hand, and run nothing."""
    name, *rest = arguments
    assert name in COMMANDS, f"no command elmo {name}"
    for word in rest:
        if Path(word).suffix in (".txt", ".json"):
            Path(word).parent.mkdir(parents=True, exist_ok=True)
            Path(word).touch()
    with click.Context(main, info_name="elmo") as parent:
        find_command(name).make_context(name, rest, parent=parent)


def test_commands_are_found_in_shell() -> None:
    shell = (
        "$ elmo cosine bank 'a b' \"c; d\"\n"
        "A=1 elmo info mini && cat x | elmo embed - y \\\n  --top > z\n"
        "python elmo.py\nwc < elmo models\n"
    )
    cosine, info, embed = elmo_commands(shell)
    assert cosine == ["cosine", "bank", "a b", "c; d"]
    assert (info, embed) == (["info", "mini"], ["embed", "-", "y", "--top"])


def test_the_command_page_is_up_to_date() -> None:
    script = [sys.executable, str(DOCS / "make_commands.py"), "--check"]
    subprocess.run(script, check=True, timeout=60)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_a_valid_example(command: str) -> None:
    lines = re.findall(
        r"^ *(?:\$ |elmo ).*", find_command(command).help or "", re.MULTILINE
    )
    examples = [arguments for line in lines for arguments in elmo_commands(line)]
    assert any(arguments[0] == command for arguments in examples)
    for arguments in examples:
        parse(arguments)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_help_text_or_a_name_that_says_it(command: str) -> None:
    options = [p for p in find_command(command).params if isinstance(p, click.Option)]
    silent = {p.name for p in options if not p.help and not p.hidden}
    assert silent <= {"batch_tokens", "learning_rate", "seed"}


# The pages


@pages
def test_every_relative_link_leads_somewhere(page: str) -> None:
    for target in re.findall(
        r"\]\((?![a-z]+:)([^)\s]+)\)", FENCED.sub("", TEXTS[page])
    ):
        path, _, heading = target.partition("#")
        linked = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert linked.exists(), f"{target} is not there"
        if heading:
            texts = re.findall(
                r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE
            )
            links = [
                re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-")
                for each in texts
            ]
            assert heading in links, f"{target} has no such heading"


@pages
def test_every_command_printed_parses(page: str) -> None:
    for language, code in FENCED.findall(TEXTS[page]):
        for arguments in elmo_commands(code if language == "sh" else ""):
            parse(arguments)


def test_the_page_of_models_names_them_all() -> None:
    text = TEXTS["docs/models.md"]
    assert [model.name for model in MODELS if f"`{model.name}`" not in text] == []


def test_the_page_for_allennlps_users_names_every_option_it_had() -> None:
    text = TEXTS["docs/allennlp.md"]
    names = "all top average vocab-path options-file weight-file batch-size cuda-device"
    names += " file-friendly-logging forget-sentences use-sentence-keys include-package"
    old = [f"--{name}" for name in names.split()]
    options = {
        name for parameter in find_command("embed").params for name in parameter.opts
    }
    assert [name for name in old if name not in text or name not in options] == []


def test_the_page_of_promises_names_tests_that_exist() -> None:
    text = TEXTS["docs/reliability.md"]
    names = re.findall(r"`(tests/\S+\.py)::(\w+)`", text)
    promises = re.findall(r"^- \*\*(.+?)\.?\*\*", text, flags=re.M)
    assert sorted(promises) == sorted(
        re.findall(r"^\| ([^|]+) \| `tests/", text, flags=re.M)
    )
    for path, name in names:
        assert f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8"), (
            f"{path}::{name}"
        )


@pytest.mark.parametrize("page", [page for page in TEXTS if page != "docs/commands.md"])
def test_pages_and_their_sentences_are_short(page: str) -> None:
    assert len(TEXTS[page].split()) <= 2000 or page == "CHANGELOG.md"
    text = FENCED.sub("", TEXTS[page])
    lines = [
        line
        for line in text.splitlines()
        if not re.match(r"\s*(\||#|<|!\[|    )", line)
    ]
    prose = re.sub(r"`[^`]*`", "x", " ".join(lines))
    texts = [
        each for each in re.split(r"(?<=[.!?:])\s+", prose) if len(each.split()) > 3
    ]
    assert [each for each in texts if len(each.split()) > 35] == []
    assert sum(len(each.split()) for each in texts) <= 20 * len(texts)
    assert sum(each.count(";") for each in texts) <= 2


def test_every_page_is_in_the_navigation() -> None:
    navigation = (
        (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    )
    pages = re.findall(r": ([\w/.-]+\.md)$", navigation, re.MULTILINE)
    own = sorted(page for page in pages if not (ROOT / page).exists())
    assert own == sorted(page.name for page in DOCS.glob("*.md"))


def test_command_page_has_examples_and_unique_anchors() -> None:
    text = TEXTS["docs/commands.md"]
    sections = re.split(r"^## elmo ", text, flags=re.MULTILINE)[1:]
    without = [
        part.partition("\n")[0] for part in sections if "\nExample with its" not in part
    ]
    assert (len(sections) >= 17, without) == (True, [])
    anchors = re.findall(r'<a id="([^"]+)"', text)
    assert "elmo-embed-layers" in anchors
    assert len(anchors) == len(set(anchors)) > 200


def test_api_page_names_everything_that_is_public() -> None:
    stub = (ROOT / "elmo_cli" / "__init__.pyi").read_text(encoding="utf-8")
    names = set(re.findall(r"^from \S+ import (\w+)", stub, re.MULTILINE)) - {
        "__version__"
    }
    shown = re.findall(r"^::: elmo_cli\.(\w+)$", TEXTS["docs/api.md"], re.MULTILINE)
    assert names - set(shown) == set()


def test_tables_contain_no_pipes_of_commands() -> None:
    """Check that no cell has an escaped pipe in code, whose backslash the site shows."""
    for page, text in TEXTS.items():
        for row in re.findall(r"^\|.*\|$", text, re.MULTILINE):
            assert not re.search(r"`[^`]*\\\|[^`]*`", row), page


# The site


@pytest.fixture
def hooks() -> dict[str, Any]:
    pytest.importorskip("mkdocs")
    return runpy.run_path(str(DOCS / "hooks.py"))


def test_links_to_files_outside_docs_lead_to_pages(hooks: dict[str, Any]) -> None:
    moved = hooks["moved"]
    text = "[a](../CONTRIBUTING.md#b) [c](text.md) [d](../examples/sentiment.py) [e](../none.md)"
    page = "[a](CONTRIBUTING.md#b) [c](text.md) [d](examples/sentiment.py.md) [e](../none.md)"
    assert moved(text, "docs/index.md") == page
    assert "../LICENSE" in moved("```sh\n[a](../LICENSE)\n```\n", "docs/index.md")
    for link, path, target in (
        ("docs/text.md", "CONTRIBUTING.md", "text.md"),
        ("README.md", "CONTRIBUTING.md", "index.md"),
        ("../../../docs/models.md", "elmo_cli/data/mini/card.md", "../../../models.md"),
    ):
        assert moved(f"[a]({link})", path) == f"[a]({target})"


def test_tables_with_tabs_are_aligned(hooks: dict[str, Any]) -> None:
    assert (
        hooks["aligned"]("```text\na\tbc\nabc\td\n```")
        == "```text\na    bc\nabc  d\n```"
    )


def test_linked_files_become_pages(hooks: dict[str, Any]) -> None:
    linked = hooks["linked_files"](
        "[a](../examples/tutorial.ipynb) [b](text.md)", "docs/index.md"
    )
    assert list(linked) == ["examples/tutorial.ipynb"]
    assert hooks["page_of"]("examples/tutorial.ipynb") == "examples/tutorial.md"
    notebook = hooks["page_text"]("examples/tutorial.ipynb")
    assert notebook.startswith("# ELMo in ten minutes\n")
    assert "```python\nfrom elmo_cli import ElmoEmbedder\n" in notebook
    example = hooks["page_text"]("examples/sentiment.py")
    assert example.startswith("# sentiment.py\n")
    assert "~~~~python\n" in example


@pytest.mark.parametrize(
    "picture", sorted(DOCS.glob("*.svg")), ids=lambda path: path.name
)
def test_pictures_have_the_colours_of_the_page(
    hooks: dict[str, Any], picture: Path
) -> None:
    image = f'<p><img alt="a &quot;b&quot;" src="../{picture.name}" /></p>'
    content = hooks["on_page_content"](image, page=None, config=None, files=None)
    svg = ElementTree.fromstring(content.replace("data-search-exclude", "")).find(
        f".//{SVG}svg"
    )
    assert svg is not None
    assert (svg.get("aria-label"), svg.get("fill")) == ('a "b"', "currentColor")
    assert svg.find(f".//{SVG}title") is not None  # the tooltips
    assert not any(
        text in content for text in ("#ffffff", "#000000", '"white"', "<style")
    )


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
    boxes = root.findall(f"{SVG}rect")[1:]
    texts = root.findall(f"{SVG}text")
    labels = [text for text in texts if text.get("text-anchor") == "middle"]

    def box_at(x: float, y: float) -> str | None:
        for box, label in zip(boxes, labels, strict=True):
            sides = ("x", "y", "width", "height")
            left, top, width, height = (float(box.attrib[side]) for side in sides)
            if left - 3 <= x <= left + width + 3 and top - 3 <= y <= top + height + 3:
                return label.text
        return None

    for line in root.findall(f"{SVG}line"):
        x1, y1, x2, y2 = (float(line.attrib[key]) for key in ("x1", "y1", "x2", "y2"))
        ends = {box_at(x1, y1), box_at(x2, y2)}
        assert None not in ends
        assert not {"forward", "backward"} <= ends
        assert line.get("class") != "f" or "backward" not in ends
        assert line.get("class") != "b" or "forward" not in ends
