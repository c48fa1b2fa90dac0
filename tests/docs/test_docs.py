"""The pages say what the program does, and their site has what they link to."""

import hashlib
import inspect
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest

import elmo_cli
from elmo_cli.analysis.change.measure_change import change_columns
from elmo_cli.analysis.search.neighbours import neighbour_columns
from elmo_cli.cli.command_list import COMMANDS, find_command
from elmo_cli.cli.main import main
from elmo_cli.pretrained.registry import MODELS
from elmo_cli.version import __version__
from tests.support.commands import elmo

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SVG = "{http://www.w3.org/2000/svg}"
TEXTS: dict[str, str] = {}
"""The text of each page."""
for path in (
    *sorted(DOCS.glob("*.md")),
    *sorted((DOCS / "commands").glob("*.md")),
    *sorted(ROOT.glob("*.md")),
):
    name = path.relative_to(ROOT).as_posix()
    TEXTS[name] = path.read_text(encoding="utf-8")
pages = pytest.mark.parametrize("page", TEXTS)
OPERATORS = {"|", "||", "&&", ";", "<", ">", ">>", "&", "2>"}
FENCED = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.usefixtures("folder")


def elmo_commands(shell: str) -> Iterator[list[str]]:
    """Yield the arguments of every `elmo` in shell, up to a pipe or redirection."""
    shell = re.sub(r"<<'END'\n.*?^END$", "", shell, flags=re.M | re.S)
    for line in shell.replace("\\\n", " ").splitlines():
        typed = line.strip().removeprefix("$ ")
        lexer = shlex.shlex(typed, posix=True, punctuation_chars=True)
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
    """Parse a command line as click does, with its text files; run nothing."""
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
    assert info == ["info", "mini"]
    assert embed == ["embed", "-", "y", "--top"]


def test_the_pages_of_commands_are_up_to_date() -> None:
    script = [sys.executable, str(DOCS / "make_commands.py"), "--check"]
    subprocess.run(script, check=True, timeout=60)


def test_options_on_pages_link_to_pages_instead_of_topics_of_help() -> None:
    for path in [DOCS / "commands.md", *(DOCS / "commands").glob("*.md")]:
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("|"):
                assert "`elmo help formats`" not in line, path.name
                assert "`elmo help layers`" not in line, path.name


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_a_valid_example(command: str) -> None:
    help_text = find_command(command).help or ""
    names = set()
    for line in re.findall(r"^ *(?:\$ |elmo ).*", help_text, re.MULTILINE):
        for arguments in elmo_commands(line):
            names.add(arguments[0])
            parse(arguments)
    assert command in names


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_help_text_or_a_name_that_says_it(command: str) -> None:
    for parameter in find_command(command).params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            is_clear = parameter.name in {"batch_tokens", "learning_rate", "seed"}
            assert parameter.help or is_clear, parameter.name


# The pages


@pages
def test_every_relative_link_leads_somewhere(page: str) -> None:
    text = FENCED.sub("", TEXTS[page])
    for target in re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        linked = ROOT / page
        if path:
            linked = (linked.parent / path).resolve()
        assert linked.exists(), f"{target} is not there"
        if anchor:
            content = linked.read_text(encoding="utf-8")
            headings = re.findall(r"^#+ (.+)$", content, re.MULTILINE)
            anchors = [anchor_of(heading) for heading in headings]
            anchors += re.findall(r'<a id="([^"]+)"', content)
            anchors += re.findall(r"^::: (elmo_cli\.[\w.]+)$", content, re.MULTILINE)
            assert anchor in anchors, f"{target} has no such heading"


def anchor_of(heading: str) -> str:
    """Return the part of a link after # that leads to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pages
def test_every_command_printed_parses(page: str) -> None:
    for language, code in FENCED.findall(TEXTS[page]):
        if language == "sh":
            for arguments in elmo_commands(code):
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
    text = TEXTS["docs/promises.md"]
    reliability = TEXTS["docs/reliability.md"]
    promises = re.findall(r"^- \*\*(.+?)\.?\*\*", reliability, flags=re.M)
    of_promises, _, _ = text.partition("\nThese tests check")
    tested = re.findall(r"^\| ([^|]+) \| `tests/", of_promises, flags=re.M)
    assert sorted(promises) == sorted(tested)
    for path, name in re.findall(r"`(tests/\S+\.py)::(\w+)`", text):
        code = (ROOT / path).read_text(encoding="utf-8")
        assert f"\ndef {name}(" in code, f"{path}::{name}"


def test_every_promise_has_a_test_that_always_runs() -> None:
    page = TEXTS["docs/promises.md"]
    for row in re.findall(r"^\| [^|]+ \| `tests/.*$", page, flags=re.M):
        names = re.findall(r"`(tests/\S+\.py)::(\w+)`", row)
        assert not all(_is_long(path, name) for path, name in names), row


def _is_long(path: str, name: str) -> bool:
    """Return whether a test only runs with `-m long`."""
    code = (ROOT / path).read_text(encoding="utf-8")
    before, _, _ = code.partition(f"\ndef {name}(")
    marks = before.rpartition("\n\n")[2]
    of_file = re.search(r"^pytestmark = .*$", code, flags=re.M)
    return "mark.long" in marks or (of_file is not None and "mark.long" in of_file[0])


@pages
def test_pages_are_short(page: str) -> None:
    no_row = [line for line in TEXTS[page].splitlines() if not line.startswith("|")]
    assert len(" ".join(no_row).split()) <= 2000


def test_the_citation_has_the_version_and_what_the_page_cites() -> None:
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    found = set()
    for reference in citation["references"]:
        found.add(reference.get("doi") or reference["url"])
    page = TEXTS["docs/cite.md"]
    cited = re.findall(r"\]\(https://doi\.org/([^)]+)\)|doi = \{(.+)\}", page)
    assert {"".join(groups) for groups in cited} <= found
    assert set(re.findall(r"\]\((https://aclanthology[^)]+)\)", page)) <= found


def test_every_line_that_clones_has_the_address_of_the_project() -> None:
    """Find the places of the address, a placeholder until the first release."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    [repository] = re.findall(r'^repository = "(.*)"', project, re.MULTILINE)
    places = {}
    for page, text in TEXTS.items():
        for address in re.findall(r"git clone (https:\S+)", text):
            places[page] = address
    assert set(places) == {"README.md", "docs/index.md", "docs/install.md"}
    expected = repository or "https://example.org/elmo-cli"
    assert set(places.values()) == {expected}


def test_a_citation_has_the_address_of_the_project_if_there_is_one() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    [repository] = re.findall(r'^repository = "(.*)"', project, re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = re.findall(r"^repository-code: (.+)$", citation, re.MULTILINE)
    cited += re.findall(r"url = \{(.+)\}", TEXTS["docs/cite.md"])
    assert cited == ([repository] * 2 if repository else [])


def test_the_tutorial_shows_its_text() -> None:
    text = (ROOT / "examples" / "leaves.txt").read_text(encoding="utf-8")
    assert f"```text\n{text}```" in TEXTS["docs/tutorial.md"]


def test_the_card_and_the_readme_are_short() -> None:
    card = (ROOT / "elmo_cli" / "data" / "mini" / "card.md").read_text("utf-8")
    assert len(card.split()) <= 600
    assert len(re.findall(r"^\|[-|:]+\|$", card, re.MULTILINE)) == 1
    assert len(TEXTS["README.md"].split()) <= 700


def test_the_card_names_the_weights_that_are_bundled() -> None:
    folder = ROOT / "elmo_cli" / "data" / "mini"
    card = (folder / "card.md").read_text("utf-8")
    [beginning] = re.findall(r"SHA-256, `(\w{12})`", card)
    digest = hashlib.sha256((folder / "weights.hdf5").read_bytes()).hexdigest()
    assert digest.startswith(beginning)


def test_every_page_of_the_site_is_in_the_navigation() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    before, _, navigation = settings.partition("\nnav:")
    pages = re.findall(r": ([\w/.-]+\.md)$", navigation, re.MULTILINE)
    own = [f"docs/{page}" for page in pages if not (ROOT / page).exists()]
    for_contributors = re.findall(r"^  (\w+\.md)$", before, re.MULTILINE)
    own += [f"docs/{page}" for page in for_contributors]
    assert sorted(own) == sorted(page for page in TEXTS if page.startswith("docs/"))


def test_every_page_of_a_command_has_examples_before_its_options() -> None:
    for command in COMMANDS:
        text = TEXTS[f"docs/commands/{command}.md"]
        assert text.index("\n## Examples\n") < text.index("\n## Options\n")


@pytest.mark.parametrize(
    ("command", "columns"),
    [
        ("neighbours", neighbour_columns(pooled=False)),
        ("change", change_columns(has_p=True, has_adjusted_p=True)),
    ],
)
def test_the_page_of_a_command_describes_its_columns_in_their_order(
    command: str, columns: list[str]
) -> None:
    described = columns_on_page(command)
    assert described[: len(columns)] == columns


def test_the_page_of_cosine_describes_its_columns_in_any_form() -> None:
    typed = ["cosine", "like", "I like it.", "We like it."]
    header, _ = elmo(*typed, "--format", "tsv").stdout.splitlines()
    short_header, _ = elmo(
        *typed, "--format", "tsv", "--layers", "2"
    ).stdout.splitlines()
    found = {*header.split("\t"), *short_header.split("\t")}
    assert set(columns_on_page("cosine")) == found


def columns_on_page(command: str) -> list[str]:
    """Return the columns that the section Columns of a page describes."""
    _, _, after = TEXTS[f"docs/commands/{command}.md"].partition("\n## Columns\n")
    section, _, _ = after.partition("\n## ")
    names = []
    for cell in re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE):
        names += re.findall(r"`(\w+)`", cell)
    return names


def test_every_option_that_a_help_shows_is_described_once() -> None:
    overview = TEXTS["docs/commands.md"]
    shared = re.findall(r'<a id="option-([^"]+)"', overview)
    assert len(shared) == len(set(shared)) > 20
    assert "tokenizer" in shared
    for command in COMMANDS:
        text = TEXTS[f"docs/commands/{command}.md"]
        own = re.findall(r'<a id="option-([^"]+)"', text)
        linked = re.findall(r"commands\.md#option-([\w-]+)\)", text)
        assert set(linked) <= set(shared)
        names = []
        for option in find_command(command).params:
            if isinstance(option, click.Option) and not option.hidden:
                long_names = [name for name in option.opts if name.startswith("--")]
                names.append(long_names[0].lstrip("-"))
        assert sorted([*own, *linked]) == sorted(names)


def test_api_page_names_everything_that_is_public() -> None:
    stub = (ROOT / "elmo_cli" / "__init__.pyi").read_text(encoding="utf-8")
    names = set(re.findall(r"^from \S+ import (\w+)", stub, re.MULTILINE))
    shown = re.findall(r"^::: elmo_cli\.(\w+)$", TEXTS["docs/api.md"], re.MULTILINE)
    assert names - {"__version__"} <= set(shown)


INTERNAL = {
    "BiLm": {
        "add_boundaries",
        "device",
        "initial_state",
        "layer_pairs",
        "run_bounded",
        "run_stacks",
    },
    "ElmoEmbedder": {"architecture", "engine"},
    "LanguageModel": {"compute_batches", "predict_batch", "read"},
    "ModelFiles": {"architecture"},
    "Prediction": {"rows"},
    "Record": {"id_value", "split"},
    "Substitutes": {"rows"},
    "VectorFiles": {
        "check_other_words",
        "check_pooling",
        "has_token_layer",
        "on_progress",
    },
}
"""Methods and properties that other modules use and the API page does not list."""


def members_of(kind: type) -> set[str]:
    """Return the public methods and properties that a class defines itself."""
    names = set()
    for name, member in vars(kind).items():
        is_method = inspect.isroutine(member) or isinstance(member, classmethod)
        is_property = isinstance(member, property | cached_property)
        if not name.startswith("_") and (is_method or is_property):
            names.add(name)
    return names


def test_api_page_names_the_methods_of_public_classes() -> None:
    text = TEXTS["docs/api.md"]
    for name in elmo_cli.__all__:
        kind = getattr(elmo_cli, name)
        if not inspect.isclass(kind) or name == "TextSettings":
            continue
        headings = set(re.findall(rf"^::: elmo_cli\.{name}\.(\w+)$", text, re.M))
        options = re.search(rf"^::: elmo_cli\.{name}$\n((?:    .*\n)*)", text, re.M)
        assert options is not None, name
        members = re.search(r"members: (\[[^]]*\]|\w+)", options[1])
        if members is None:
            continue  # The page lists all of them.
        shown = headings | set(re.findall(r"\w+", members[0]))
        hidden = members_of(kind) - shown
        assert hidden == INTERNAL.get(name, set()), name


def test_the_table_of_the_api_page_names_every_function() -> None:
    text = TEXTS["docs/api.md"]
    linked = set(re.findall(r"\(#elmo_cli\.(\w+)", text))
    functions = {name for name in elmo_cli.__all__ if name[0].islower()}
    assert functions <= linked


@pages
def test_every_column_of_a_table_has_a_name(page: str) -> None:
    text = FENCED.sub("", TEXTS[page])
    headers = re.findall(r"^(\|.*\|)\n\|[-|: ]+\|$", text, re.MULTILINE)
    for header in headers:
        assert re.fullmatch(r"(\| *\S[^|]*)+\|", header), header


def test_tables_contain_no_pipes_of_commands() -> None:
    """Check that no cell has an escaped pipe in code: the site shows backslashes."""
    for page, text in TEXTS.items():
        for row in re.findall(r"^\|.*\|$", text, re.MULTILINE):
            assert not re.search(r"`[^`]*\\\|[^`]*`", row), page


# The site


@pytest.fixture
def hooks() -> dict[str, Any]:
    pytest.importorskip("mkdocs")
    return runpy.run_path(str(DOCS / "hooks.py"))


def test_settings_of_the_api_page_exist() -> None:
    """Check names that mkdocstrings checks too, but not where pydantic is installed."""
    python = pytest.importorskip("mkdocstrings_handlers.python")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    options = settings.partition("          options:\n")[2]
    options = options.partition("\nmarkdown_extensions:")[0]
    names = set(re.findall(r"^ {12}(\w+):", options, re.MULTILINE))
    assert {"docstring_style", "show_source"} <= names
    assert names <= set(python.PythonOptions.__dataclass_fields__)


def test_links_to_files_outside_docs_lead_to_pages(hooks: dict[str, Any]) -> None:
    for page, link, moved in (
        ("docs/index.md", "../CONTRIBUTING.md#b", "CONTRIBUTING.md#b"),
        ("docs/index.md", "text.md", "text.md"),
        ("docs/index.md", "../examples/sentiment.py", "examples/sentiment.py.md"),
        ("docs/index.md", "../none.md", "../none.md"),
        ("CONTRIBUTING.md", "docs/text.md", "text.md"),
        ("CONTRIBUTING.md", "README.md", "index.md"),
        (
            "elmo_cli/data/mini/card.md",
            "../../../docs/models.md",
            "../../../models.md",
        ),
    ):
        text = f"[a]({link}) [b]({link})"
        assert hooks["moved"](text, page) == f"[a]({moved}) [b]({moved})"
    code = "```sh\n[a](../LICENSE)\n```\n"
    assert "../LICENSE" in hooks["moved"](code, "docs/index.md")


@pytest.mark.parametrize("address", [None, "https://example.org/a/b"])
def test_pages_for_contributors_stay_in_the_repository(
    hooks: dict[str, Any], address: str | None
) -> None:
    text = "Read [the layout](docs/architecture.md#the-layout) and [a](../text.md)."
    shown = hooks["without_links_to_the_repository"](text, address)
    if address is None:
        assert shown == "Read the layout and [a](../text.md)."
    else:
        page = f"{address}/blob/main/docs/architecture.md#the-layout"
        assert shown == f"Read [the layout]({page}) and [a](../text.md)."


def test_tables_with_tabs_are_aligned(hooks: dict[str, Any]) -> None:
    text = "```text\na\tbc\nabc\td\n```"
    aligned = "```text\na    bc\nabc  d\n```"
    assert hooks["aligned"](text) == aligned


def test_linked_files_become_pages(hooks: dict[str, Any]) -> None:
    text = "[a](../examples/tutorial.ipynb) [b](text.md)"
    linked = hooks["linked_files"](text, "docs/index.md")
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
    root = ElementTree.fromstring(content.replace("data-search-exclude", ""))
    svg = root.find(f".//{SVG}svg")
    assert svg is not None
    assert svg.get("aria-label") == 'a "b"'
    assert f'href="../{picture.name}"' in content
    assert "min-width" not in content  # A phone shows all of it.
    assert svg.get("fill") == "currentColor"
    assert svg.find(f".//{SVG}title") is not None  # the tooltips
    for fixed in ("#ffffff", "#000000", '"white"', "<style"):
        assert fixed not in content


def test_addresses_come_from_the_project(hooks: dict[str, Any], tmp_path: Path) -> None:
    from mkdocs.config.defaults import MkDocsConfig

    (tmp_path / "pyproject.toml").write_text(
        'repository = "https://example.org/a/b"\n'
        'documentation = "https://example.org/docs/"\n'
    )
    hooks["on_config"].__globals__["ROOT"] = tmp_path
    config = hooks["on_config"](MkDocsConfig())
    assert config.repo_url == "https://example.org/a/b"
    assert config.repo_name == "a/b"
    assert config.site_url == "https://example.org/docs/"
    assert config.copyright.startswith("elmo-cli ")
    assert '<a href="https://example.org/a/b">source</a>' in config.copyright


def test_directions_never_mix_in_the_picture_of_the_model() -> None:
    root = ElementTree.parse(DOCS / "elmo.svg").getroot()
    boxes = root.findall(f"{SVG}rect")[1:]
    texts = root.findall(f"{SVG}text")
    labels = [text for text in texts if text.get("text-anchor") == "middle"]

    def box_at(x: float, y: float) -> str | None:
        for box, label in zip(boxes, labels, strict=True):
            left = float(box.attrib["x"]) - 3
            right = left + float(box.attrib["width"]) + 6
            top = float(box.attrib["y"]) - 3
            bottom = top + float(box.attrib["height"]) + 6
            if left <= x <= right and top <= y <= bottom:
                return label.text
        return None

    for line in root.findall(f"{SVG}line"):
        start = box_at(float(line.attrib["x1"]), float(line.attrib["y1"]))
        end = box_at(float(line.attrib["x2"]), float(line.attrib["y2"]))
        ends = {start, end}
        assert None not in ends
        assert not {"forward", "backward"} <= ends
        assert line.get("class") != "f" or "backward" not in ends
        assert line.get("class") != "b" or "forward" not in ends
