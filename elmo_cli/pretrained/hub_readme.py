"""README.md of a model for the Hugging Face hub: metadata, use, and the model's card."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from elmo_cli.atomic import write_lines
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.text.lines import read_text

README: Final = "README.md"

_USE: Final = """\
## Use

```sh
pip install "elmo-cli[hub]"
elmo embed sentences.txt vectors.hdf5 --model hf:OWNER/{name}
```

```python
from elmo_cli import ElmoEmbedder

embedder = ElmoEmbedder.from_pretrained("OWNER/{name}")
vectors = embedder.embed_sentence(["The", "cat", "sat", "."])  # float32, shape ({shape})
```

Replace OWNER by the owner of the repository.
"""


def write_readme(files: ModelFiles, folder: Path) -> None:
    """Write the README.md of a model into a folder for the hub."""
    write_lines(folder / README, _readme_lines(files, folder.resolve().name))


def _readme_lines(files: ModelFiles, name: str) -> Iterator[str]:
    """Yield the lines of a README.md, in Markdown after metadata in YAML."""
    options = files.parsed_options
    yield from ("---", "library_name: elmo-cli", "pipeline_tag: feature-extraction")
    if files.language is not None:
        yield f"language: {files.language}"
    yield from ("tags:", "- elmo", "- contextual-word-embeddings")
    yield "# Add the licence of the weights, for example: license: apache-2.0"
    yield from ("---", "", f"# {name}", "")
    kind = "characters" if options.char_cnn is not None else "the words of its vocabulary"
    yield (
        f"ELMo model for elmo-cli: {options.n_layers} layers of {options.width} numbers per token. "
        f"It reads {kind}."
    )
    yield ""
    shape = f"{options.n_layers}, 4, {options.width}"
    yield from _USE.format(name=name, shape=shape).splitlines()
    for line in _card_lines(files):
        # The card is a section of this page.
        yield f"#{line}" if line.startswith("#") else line


def _card_lines(files: ModelFiles) -> list[str]:
    """Return the lines of the model's card after a blank line, or an empty list without a card."""
    with suppress(OSError, UnicodeDecodeError):
        return ["", *read_text(files.options.with_name("card.md")).splitlines()]
    return []
