"""Target words with their forms, and their positions in records."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from elmo_cli.errors.checks import check_sentence
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.messages import Message, Template, literal
from elmo_cli.errors.missing_files import missing_file_error
from elmo_cli.errors.wording import counted, shown
from elmo_cli.files.file_types import conversion_command
from elmo_cli.files.json_form import parse_json
from elmo_cli.options.text import ALL_COLUMNS, TextSettings
from elmo_cli.records.formats import find_format
from elmo_cli.records.input_format import InputFormat
from elmo_cli.records.open_input import open_input
from elmo_cli.records.open_records import open_records
from elmo_cli.records.record import Record
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import normalize

WORDS: Final = "words"
"""Attribute of a file with the target word of each form, as JSON.

Files of all tokens lack it. A record has an attribute of this name too, with the target
word at each position, if the forms do not tell it.
"""
POSITIONS: Final = "positions"
"""Attribute of a record with the positions of its target words, separated by commas."""
_POSITIONS_TEXT: Final = re.compile(r"[0-9]{1,9}(?:,[0-9]{1,9})*")

# Columns of a table of target words, as `elmo occurrences` writes them.
_WORD: Final = "word"
_FORM: Final = "form"


def read_targets(
    path: str | Path, input_format: str | None = None, column: str | None = None
) -> dict[str, str]:
    """Read a file of target words.

        read_targets("targets.txt")  # {"bank": "bank", "banks": "bank"}

    Each line has a word, or a word and its forms, separated by commas:
    `lemma,form,form`. A table has a column of words, and optionally a column `form`
    with one form of the word per row.

    Args:
        path: Path of the file. CSV and TSV without a header `word` are read as lines.
        input_format: Format of the file. None chooses it by the content and the suffix.
        column: Column of the words in a table; `word` by default.

    Returns:
        The word of each form. A word is a form of itself.

    Raises:
        InputError: The file cannot be read, has no words, or has a form of two words.
        SettingsError: `input_format` is unknown, or there is no such column.
    """
    source = Source(
        path,
        "Give the name of a file with one word per line.",
        shell_advice="Give the name of a file with one word per line, or pipe the "
        f"words: `{_typed_lines(path)} | {{piped}}`.",
        argument="path",
    )
    file_format = find_format(source, input_format)
    is_table = file_format.has_columns
    is_chosen = input_format is not None or column is not None
    if is_table and not is_chosen:
        is_table = _has_word_column(source, file_format)
    if column is not None and not is_table:
        expected = f"a table with a column {column!r}"
        raise SettingsError(f"{path}: expected {expected}, found {file_format.name}")

    if is_table:
        entries = _targets_of_rows(source, file_format, column or _WORD)
    else:
        entries = _targets_of_lines(source)
    targets: dict[str, str] = {}
    for location, forms in entries:
        if not forms[0] and any(forms):
            raise InputError(
                f"{path}, {location}: expected a word, found none",
                remedy="Add it, or remove its forms.",
            )
        for form in filter(None, forms):
            word = targets.setdefault(form, forms[0])
            if word != forms[0]:
                raise InputError(
                    f"{path}, {location}: {form!r} is a form of {word!r} already",
                    remedy="Name each form once.",
                )
    if not targets and not source.has_lines and not file_format.is_binary:
        raise source.empty_error()
    if not targets:
        raise InputError(
            f"{path}: no words", remedy="Write one word per line, or lemma,form,form."
        )
    # Tokens may have plain marks where the file has typographic ones.
    plain = {normalize(form).strip(): word for form, word in targets.items()}
    return plain | targets


def _has_word_column(source: Source, table: InputFormat) -> bool:
    """Return whether a table has a column `word`.

    CSV and TSV without it are lines. Raise an `InputError` for another table.
    """
    names = table.column_names(source, TextSettings(text_column=_WORD))
    if table.has_cells:
        return _WORD in names
    if names and _WORD not in names:
        raise InputError(
            f"{source.name}: no column 'word'. The columns are "
            f"{', '.join(map(repr, names))}",
            remedy="Rename the column with the words to word.",
        )
    return True


def _listed_words(text: str) -> list[str]:
    """Return the words of a list that was given in place of a file: Alice,rabbit."""
    return text.replace(",", " ").split()


def _typed_lines(path: str | Path) -> str:
    """Return the command that prints words that were given in place of a file.

    One line would be a word with its forms.
    """
    words = _listed_words(str(path))
    if len(words) < 2:
        return "echo {quoted}"
    return f"printf '%s\\n' {literal(shlex.join(words))}"


def _targets_of_lines(source: Source) -> Iterator[tuple[str, list[str]]]:
    """Yield the number of each line, as `line 3`, and a word with its forms."""
    with source:
        lines, _ = source.lines()
        for line in lines:
            if "\t" in line.text:
                command = conversion_command(
                    "cut -f 1", source.name, mark=".words", suffix=".txt"
                )
                raise InputError(
                    f"{source.name}, line {line.number}: {line.text[:60]!r} has a tab",
                    remedy=(
                        "Write one word per line, or lemma,form,form. If column 1 "
                        f"has the words, use {literal(command)}."
                    ),
                )
            # The target word of the line "," is a comma.
            forms = [line.text]
            if line.text != ",":
                forms = [form.strip() for form in line.text.split(",")]
            yield f"line {line.number}", forms


def _targets_of_rows(
    source: Source, table: InputFormat, column: str
) -> Iterator[tuple[str, list[str]]]:
    """Yield the number of each row, as `row 3`, and a word, perhaps with a form."""
    settings = TextSettings(
        input_format=table.name, text_column=column, keep_columns=ALL_COLUMNS
    )
    if table.lists_columns:
        # The table may have large columns of vectors, which are not needed.
        has_forms = _FORM in table.column_names(source, settings)
        settings = replace(settings, keep_columns=(_FORM,) if has_forms else ())
    text_input = open_input(source, settings)
    with open_records(text_input, reads_ids=False, is_quiet=True) as read:
        for number, record in enumerate(read.records, start=1):
            forms = [record.text]
            form = record.columns.get(_FORM)
            if isinstance(form, str):
                forms.append(form)
            yield f"row {number}", forms


def targets_of(
    words: Mapping[str, str] | Sequence[str] | str | Path,
) -> Mapping[str, str]:
    """Return the target word of each form.

    A word of a list is its only form, and a path is that of a file for `read_targets`.
    """
    if isinstance(words, (str, Path)):
        listed_words = _listed_words(str(words))
        are_words = listed_words and all(map(str.isalpha, listed_words))
        if isinstance(words, str) and are_words and not Path(words).exists():
            raise missing_file_error(
                words,
                InputError,
                remedy=f"For words, give a list: {literal(listed_words)}.",
            )
        return read_targets(words)
    if isinstance(words, Mapping):
        targets = words
    else:
        listed = check_sentence(words, "words", "a list of words, a dict or a path")
        targets = {word: word for word in listed}
    if not targets:
        raise InputError(
            Template("{--words}: the list is empty"), remedy="Give at least one word."
        )
    return targets


def target_positions(record: Record) -> list[int]:
    """Return the positions of the target words of a record.

    A record of a file of all tokens has all positions.
    """
    text = record.attributes.get(POSITIONS)
    if text is None:
        return list(range(len(record.tokens)))
    if not record.tokens:
        # The record was skipped.
        return []
    positions = []
    if _POSITIONS_TEXT.fullmatch(str(text)):
        positions = [int(part) for part in str(text).split(",")]
    if not positions or max(positions) >= len(record.tokens):
        expected = f"positions of {counted(len(record.tokens), 'token')}"
        raise InputError(
            f"the file is damaged: expected {expected}, found {shown(text)!r}"
        )
    return positions


def target_words(
    record: Record, positions: Sequence[int], forms: Mapping[str, str]
) -> list[str]:
    """Return the target word at each position of a record.

    A token that is not a form of a target word is its own target word.
    """
    tokens = [record.tokens[position] for position in positions]
    stored = record.attributes.get(WORDS)
    if not forms and stored is None:
        return tokens
    if stored is None or not tokens:
        return [forms.get(token, token) for token in tokens]
    words = parse_json(str(stored), list[str], WORDS)
    if len(words) != len(tokens):
        number = counted(len(words), "target word")
        raise InputError(
            f"the file is damaged: it has {number} for {len(tokens):,} positions"
        )
    return words


class TargetFinder:
    """Finder of target words in tokens or lemmas.

    It counts the texts in another case.
    """

    def __init__(self, words: Mapping[str, str], *, ignore_case: bool = False) -> None:
        """Find the words of these forms.

        With `ignore_case`, an `InputError` is raised for a form of two words.
        """
        self._folded = {form.casefold(): word for form, word in words.items()}
        self._words = self._folded if ignore_case else words
        self._ignore_case = ignore_case
        self.other_case: Counter[str] = Counter()
        if not ignore_case:
            return
        for form, word in words.items():
            other = self._folded[form.casefold()]
            if other != word:
                raise InputError(
                    "{--ignore-case True}: {form} is a form of {word} and of {other}",
                    remedy="Remove one of them.",
                    form=repr(form),
                    word=repr(word),
                    other=repr(other),
                )

    def find(self, texts: Sequence[str]) -> dict[int, str]:
        """Return the target word of each text that has one, by its index."""
        folded = [text.casefold() for text in texts]
        if self._folded.keys().isdisjoint(folded):
            return {}
        found: dict[int, str] = {}
        for index, text in enumerate(texts):
            compared = folded[index] if self._ignore_case else text
            if compared in self._words:
                found[index] = self._words[compared]
            elif folded[index] in self._folded:
                self.other_case[text] += 1
        return found

    def warning(self) -> Message | None:
        """Return a warning about the texts in another case, if there are any."""
        if not self.other_case:
            return None
        n_found = self.other_case.total()
        [(example, _)] = self.other_case.most_common(1)
        return Message(
            "{occurrences} in another case, such as {example}, {are} not counted",
            remedy="Use {--ignore-case True}.",
            occurrences=counted(n_found, "occurrence"),
            example=repr(example),
            are="is" if n_found == 1 else "are",
        )
