"""The models of ELMoForManyLangs (Che et al., 2018): their options and their lexicons.

Their folder holds

    config.json             `config_path` names the file of the architecture
    cnn_50_100_..._.json    the architecture; often left out, since all have the same
    char.dic, word.dic      a symbol, a tab and its id a line
    token_embedder.pkl, encoder.pkl     the weights: see `many_langs_weights`

A token is its Unicode characters and its word; a model has a table for each, or for
one of them. Beyond the token encoder, these models are biLMs like all others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import ModelError, OptionsError
from elmo_cli.model.options import ModelOptions, parse_options, read_json

START_TOKEN: Final = "<bos>"
END_TOKEN: Final = "<eos>"

_UNKNOWN: Final = "<oov>"
_MOST_DIGITS: Final = 9
"""Of a number of a lexicon: more are no row of a table."""
_PADDING: Final = "<pad>"
# Each has the other's name in the lexicons: so the models were trained.
_WORD_START: Final = "<eow>"
_WORD_END: Final = "<bow>"
_CHARACTER_SYMBOLS = (START_TOKEN, END_TOKEN, _WORD_START, _WORD_END, _UNKNOWN, _PADDING)
_NAMELESS: Final = "\u3000"
"""The symbol of a line that has none: a space, of which the lexicons only have this one."""

_PUBLISHED: Final = {
    "encoder": {
        "name": "elmo",
        "dim": 4096,
        "projection_dim": 512,
        "n_layers": 2,
        "cell_clip": 3,
        "proj_clip": 3,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}
_PUBLISHED_NAMES: Final = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
"""Files that come with their package, not with the models; both hold `_PUBLISHED`."""

# The names in options.json, and theirs; the longest first.
_NAMES: Final = {
    "char_cnn.embedding.dim": "token_embedder.char_dim",
    "char_cnn.": "token_embedder.",
    "lstm.": "encoder.",
}


@dataclass(frozen=True)
class ManyLangsOptions(ModelOptions):
    """The architecture; `char_cnn` is None where words alone are used."""

    word_dim: int
    """The size of a word's row; 0 where characters alone are used."""
    max_characters_per_token: int
    """Character ids a token, its two end marks included; its word is cut alike."""


def read_config(path: Path, content: dict[str, Any]) -> ManyLangsOptions:
    """The architecture of the model whose config.json has this content.

    Raises:
        OptionsError: the file that it names is missing, or describes no model that
            is known here.
    """
    named = PurePosixPath(str(content["config_path"]).replace("\\", "/"))
    # The path is from the disk where the model was trained: its name alone counts.
    architecture = path.with_name(named.name or "-")
    if architecture.is_file():
        found = read_json(architecture)
    elif named.name in _PUBLISHED_NAMES:
        found = _PUBLISHED
    else:
        raise OptionsError(
            f"{path}: config_path names {named.name or 'no file'}, which is not in the folder; "
            "copy it there"
        )
    try:
        return _parse(found)
    except OptionsError as error:
        raise OptionsError(f"{architecture}: {error}") from None


def _parse(content: Any) -> ManyLangsOptions:
    """Their architecture, which options.json has under other names for the two sections."""
    encoder = _section(content, "encoder", "elmo")
    embedder = _section(content, "token_embedder", "cnn")
    char_dim, word_dim = embedder.get("char_dim"), embedder.get("word_dim")
    if not isinstance(word_dim, int) or word_dim < 0 or char_dim == word_dim == 0:
        raise OptionsError(
            "token_embedder: expected the sizes char_dim and word_dim, one of them above 0, "
            f"found {char_dim} and {word_dim}"
        )
    rewritten = {
        "lstm": {**encoder, "use_skip_connections": True},
        "char_cnn": {**embedder, "embedding": {"dim": char_dim}} if char_dim != 0 else None,
    }
    try:
        options = parse_options(rewritten)
    except OptionsError as error:
        message = str(error)
        for ours, theirs in _NAMES.items():
            message = message.replace(ours, theirs)
        raise OptionsError(message) from None
    longest = embedder.get("max_characters_per_token")
    if not isinstance(longest, int) or longest < 3:
        raise OptionsError(
            "token_embedder.max_characters_per_token: expected a whole number, 3 or more, "
            f"found {longest}"
        )
    return ManyLangsOptions(options.lstm, options.char_cnn, word_dim, longest)


def _section(content: Any, name: str, kind: str) -> dict[str, Any]:
    """A section of the file, which must be of the kind that is known here."""
    section = content.get(name) if isinstance(content, dict) else None
    if not isinstance(section, dict):
        raise OptionsError(f"{name}: expected an object, found none")
    if str(section.get("name")).lower() != kind:
        raise OptionsError(f'{name}.name: expected "{kind}", found {section.get("name")!r}')
    return section


class Lexicon:
    """Symbols, characters or words, and the rows of their table."""

    def __init__(self, rows: dict[str, int]) -> None:
        self.rows = rows
        self.n_rows = 1 + max(rows.values())
        self._unknown = rows[_UNKNOWN]

    def row(self, symbol: str) -> int:
        """The row of a symbol; that of `<oov>` if it is not held."""
        return self.rows.get(symbol, self._unknown)


@dataclass(frozen=True)
class Lexicons:
    """The lexicons of a model, and the ids that they give to tokens."""

    characters: Lexicon | None
    words: Lexicon | None
    max_characters: int

    def token_ids(self, tokens: Sequence[str]) -> NDArray[np.int64]:
        """The ids of tokens; a literal `<bos>` or `<eos>` gives those of that boundary.

        Returns:
            int64, shape (N, 1 + C): the word (1 where words are not used), then the
            characters, C of them or none. Rows of the tables, raised by one.
        """
        n_characters = self.max_characters if self.characters else 0
        ids = np.zeros((len(tokens), 1 + n_characters), dtype=np.int64)
        for row, token in zip(ids, tokens, strict=True):
            if token not in (START_TOKEN, END_TOKEN):
                token = token[: self.max_characters - 2]
            if self.words:
                row[0] = self.words.row(token)
            if self.characters:
                row[1:] = self._character_ids(token, self.characters)
        return ids + 1

    def _character_ids(self, token: str, lexicon: Lexicon) -> list[int]:
        symbols = [token] if token in (START_TOKEN, END_TOKEN) else token
        symbols = [_WORD_START, *symbols, _WORD_END]
        padding = [lexicon.rows[_PADDING]] * (self.max_characters - len(symbols))
        return [*map(lexicon.row, symbols), *padding]


def read_lexicons(folder: Path, options: ManyLangsOptions) -> Lexicons:
    """Read the lexicons that a model uses.

    Raises:
        ModelError: one is missing, or is not as it should be.
    """
    characters, words = None, None
    if options.char_cnn is not None:
        characters = _read_lexicon(folder / "char.dic", _CHARACTER_SYMBOLS)
    if options.word_dim:
        words = _read_lexicon(folder / "word.dic", (_UNKNOWN,))
    return Lexicons(characters, words, options.max_characters_per_token)


def _read_lexicon(path: Path, required: Sequence[str]) -> Lexicon:
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except OSError as error:
        raise ModelError(f"{path}: cannot read the lexicon: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ModelError(f"{path}: expected a lexicon in UTF-8, found other bytes") from None
    rows = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        symbol, _, row = line.rpartition("\t")
        if not row.strip().isdecimal() or len(row.strip()) > _MOST_DIGITS:
            raise ModelError(
                f"{path}: line {number}: expected a symbol, a tab and a number, found {line[:40]!r}"
            )
        rows[symbol.lstrip() or _NAMELESS] = int(row.strip())
    missing = [symbol for symbol in required if symbol not in rows]
    if missing:
        raise ModelError(f"{path}: expected the symbols {', '.join(missing)}, found none of them")
    return Lexicon(rows)
