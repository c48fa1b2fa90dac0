"""Hooks of MkDocs: addresses from pyproject.toml, and pages for linked files.

A page links to a file of the repository as on GitHub, such as
`../examples/sentiment.py`. Here each such file becomes a page of the site, and the link
leads to that page. A link to a file that does not exist stays as it is, and `mkdocs
build --strict` reports it.
"""

import json
import posixpath
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from elmo_cli.version import __version__

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
FOR_CONTRIBUTORS = re.compile(
    r"\[(?P<text>[^\]]+)\]"
    r"\((?:\S*/)?(?P<page>(?:architecture|promises|release)\.md(?:#\S*?)?)\)"
)
"""Link to a page of docs/ that is not part of the site."""
FENCE = re.compile(r"^(```.*?^```$)", re.M | re.S)
TABLE = re.compile(r"^```text\n[^`]*\t[^`]*^```$", re.M)
"""Output with tabs."""
CODE = re.compile(r"<code[^>]*>.*?</code>", re.S)
OPTION = re.compile(r"(?<![\w-])(--?[a-z][\w-]*)(?![^<]*>)")
LANGUAGES = {
    **{
        ".py": "python",
        ".toml": "toml",
        ".yml": "yaml",
        ".yaml": "yaml",
        ".cff": "yaml",
    },
    **{".sh": "sh", "": "docker"},
}
"""Language of the highlighting by suffix. The only file without a suffix is the
Dockerfile."""
PICTURE = re.compile(r'<img alt="([^"]*)" src="((?:\.\./)*\w+\.svg)" ?/?>')
COLOURS = {
    **{"<metadata>.*?</metadata>": "", r"<style.*?</style>": ""},
    **{'style="fill: #ffffff"': 'style="fill: none"', 'fill="white"': 'fill="none"'},
    **{"#ffffff": "var(--md-default-bg-color)", "#000000": "currentColor"},
    "#1f77b4|#2b6cb0": "var(--picture-blue)",
}
"""Replacements in a picture, so that it has the background and the colours of the
page."""
RENAMED = {"README.md": "index.md"}
"""Files outside docs/ that a page of docs/ replaces."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the addresses, from pyproject.toml, and the version of the footer."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = dict(re.findall(r'^(repository|documentation) = "(.+?)/?"', project, re.M))
    config.copyright = f"elmo-cli {__version__}"
    if "repository" in found:
        link = f'<a href="{found["repository"]}">source</a>'
        config.copyright += f" · {link}"
        config.repo_url = found["repository"]
        config.repo_name = "/".join(found["repository"].split("/")[-2:])
    # `mkdocs serve` has set its own.
    if "documentation" in found and not config.site_url:
        config.site_url = found["documentation"] + "/"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each linked file outside docs/, and for files these link to."""
    texts = [
        (f"docs/{file.src_uri}", file.content_string)
        for file in files.documentation_pages()
    ]
    while texts:
        source, text = texts.pop()
        for target in linked_files(text, source):
            uri = page_of(target)
            if uri not in files.src_uris:
                content = page_text(target)
                files.append(
                    File.generated(config, uri, content=moved(content, target))
                )
                texts.append((target, content))
                if target.endswith(".ipynb"):
                    path = str(ROOT / target)
                    files.append(File.generated(config, target, abs_src_path=path))
    return files


def on_page_markdown(
    markdown: str, *, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Let links of a page of docs/ lead to the pages of files outside docs/."""
    if page.file.generated_by is None:
        markdown = moved(markdown, f"docs/{page.file.src_uri}")
    markdown = without_links_to_the_repository(markdown, config.repo_url)
    return TABLE.sub(lambda table: aligned(table[0]), markdown)


def without_links_to_the_repository(text: str, repository: str | None) -> str:
    """Return a page whose links to pages for contributors lead to the repository.

    While the project has no address, only their text remains.
    """

    def replace(link: re.Match[str]) -> str:
        if not repository:
            return link["text"]
        return f"[{link['text']}]({repository}/blob/main/docs/{link['page']})"

    return FOR_CONTRIBUTORS.sub(replace, text)


def aligned(text: str) -> str:
    """Return lines with columns by spaces: Markdown would not align tabs."""
    rows = [line.split("\t") for line in text.split("\n")]
    cells = [cells for cells in rows if len(cells) > 1]
    widths = [max(map(len, column)) for column in zip_longest(*cells, fillvalue="")]
    lines = (zip(row, widths if len(row) > 1 else [0], strict=False) for row in rows)
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in line).rstrip() for line in lines
    )


def on_page_content(
    content: str, *, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Put pictures into the page, and mark the options in code: see site.css."""
    content = PICTURE.sub(lambda image: inlined(image[1], image[2]), content)
    return CODE.sub(
        lambda code: OPTION.sub(r'<span class="option">\1</span>', code[0]), content
    )


def inlined(description: str, source: str) -> str:
    """Return a picture of docs/ as a part of a page, which leads to the picture itself.

    Its tooltips work, and its colours follow the page.
    """
    svg = (ROOT / "docs" / posixpath.basename(source)).read_text(encoding="utf-8")
    svg = svg[svg.index("<svg") :]
    for pattern, replacement in COLOURS.items():
        svg = re.sub(pattern, replacement, svg, flags=re.S)
    label = f'role="img" aria-label="{description}"'
    opening, rest = svg.split(">", 1)
    opening = re.sub(r' (width|height|role|aria-label)="[^"]*"', "", opening)
    shown = f'{opening} fill="currentColor" {label}>' + rest.replace("\n", "")
    return f'<a class="picture" data-search-exclude href="{source}">{shown}</a>'


def linked_files(text: str, source: str) -> Iterator[str]:
    """Yield the existing files outside docs/ that a file links to, by their paths."""
    for part in FENCE.split(text)[::2]:
        for _, link, _ in LINK.findall(part):
            target = target_of(link, source)
            if target and not target.startswith("docs/") and target not in RENAMED:
                yield target


def target_of(link: str, source: str) -> str | None:
    """Return the path of a linked file in the repository; None for other links."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    is_inside = not re.match(r"[a-z]+:|/", link) and not path.startswith("..")
    return path if is_inside and (ROOT / path).is_file() else None


def page_of(path: str) -> str:
    """Return the page of the site for a file of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.endswith((".md", ".ipynb")):
        return RENAMED.get(path) or posixpath.splitext(path)[0] + ".md"
    return f"{path}.md"


def moved(text: str, source: str) -> str:
    """Return the text of a file whose links lead to pages of the site."""
    folder = posixpath.dirname(page_of(source)) or "."

    def move(match: re.Match[str]) -> str:
        before, link, after = match.groups()
        target = target_of(link, source)
        stays = target is None or (
            source.startswith("docs/") and target.startswith("docs/")
        )
        return (
            match[0]
            if stays
            else before + posixpath.relpath(page_of(target), folder) + after
        )

    parts = FENCE.split(text)
    parts[::2] = [LINK.sub(move, part) for part in parts[::2]]
    return "".join(parts)


def page_text(path: str) -> str:
    """Return a file of the repository in Markdown."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    if path.endswith(".ipynb"):
        return notebook_text(json.loads(text), posixpath.basename(path))
    name = LANGUAGES.get(posixpath.splitext(path)[1], "text")
    title = posixpath.basename(path)
    return f"# {title}\n\nThe file `{path}`:\n\n~~~~{name}\n{text}~~~~\n"


def notebook_text(notebook: dict[str, Any], name: str) -> str:
    """Return the cells of a notebook in Markdown, with a link to the notebook."""
    cells = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        cells.append(f"```python\n{text}\n```" if cell["cell_type"] == "code" else text)
    # The page has a folder of its own on the site.
    cells.insert(
        1, f'This page shows a notebook: <a href="../{name}" download>{name}</a>.'
    )
    return "\n\n".join(cells) + "\n"
