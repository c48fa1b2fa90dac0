"""`elmo occurrences`: the vectors of the occurrences of target words in a text.

Only sentences with a target word are computed, and only the vectors of target words are
written: in Parquet, a table with one row per occurrence, in the order of the text; or
in HDF5, with one record per sentence. docs/commands/occurrences.md has the columns.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple

import numpy as np

from elmo_cli.analysis.occurrences import targets
from elmo_cli.analysis.occurrences.annotated_targets import (
    PlaceFinder,
    align_place,
    must_have_place,
)
from elmo_cli.embedder import ElmoEmbedder, check_embedder
from elmo_cli.engine import Engine
from elmo_cli.errors.checks import check_choice, check_flag, check_path
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.messages import Template
from elmo_cli.options.analysis import MATCHES, Match
from elmo_cli.options.layers import Layers, layers_text
from elmo_cli.options.model import InitialState
from elmo_cli.options.output import (
    OCCURRENCE_FORMATS,
    REFUSED_SUFFIXES,
    STANDARD_OUTPUT,
    OutputSettings,
)
from elmo_cli.options.output_format import format_of_suffix
from elmo_cli.options.selection import SelectionSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.outputs.attributes import Attributes
from elmo_cli.outputs.output_rows import ColumnValues
from elmo_cli.outputs.token_rows import TokenRows
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.record import Record
from elmo_cli.runs.embed_file import open_run
from elmo_cli.runs.file_plan import FilePlan, plan_file, warn_about_suffix
from elmo_cli.runs.file_sink import Summary
from elmo_cli.runs.open_text_and_warn import open_text_and_warn
from elmo_cli.runs.pipeline import EmbeddedRecord

logger = logging.getLogger(__name__)


DEFAULT_LAYERS: Final = "top"
_SUFFIXES: Final = "Name a file with .parquet or .hdf5."
"""Remedy for the name of an output."""


class WrittenOccurrences(NamedTuple):
    """Result of a run."""

    counts: dict[str, int]
    """Number of occurrences of each target word, in the order of the words."""
    summary: Summary


def plan_occurrences(
    text_input: TextInput,
    output: str | Path,
    selection: SelectionSettings,
    output_settings: OutputSettings,
    *,
    state: InitialState | None = None,
    match: str = "form",
) -> FilePlan:
    """Plan a run over a text, before a model is loaded.

    `state` is the initial state, or None if it is not known yet.
    """
    if str(output) == STANDARD_OUTPUT:
        problem = "target words cannot go to standard output"
        raise SettingsError(problem, remedy=_SUFFIXES)
    if output_settings.file_format is None and not _may_have_occurrences(output):
        raise SettingsError(
            f"{output}: target words are written as Parquet or HDF5",
            remedy=_SUFFIXES,
        )
    if state == "carry":
        problem = Template(
            "{--state carry}: sentences without a target word are not computed, so no "
            "state can be carried over"
        )
        remedy = "Choose {--state zero} or {--state warm}."
        raise SettingsError(problem, remedy=remedy)
    output_format = output_settings.for_path(output, pooled=False).format
    if text_input.settings.keep_columns and not output_format.has_rows:
        raise SettingsError(
            "{--keep-columns}: requires Parquet, found {name}",
            remedy="Write a .parquet file.",
            name=output_format.title,
        )
    plan = plan_file(
        text_input,
        output,
        selection=selection,
        output_settings=output_settings,
        state=state,
    )
    if text_input.format.has_sequences:
        raise SettingsError(
            f"{text_input.source.name}: FASTA has no words",
            remedy="Choose another input.",
        )
    check_choice("match", match, MATCHES)
    if match == "lemma" and not text_input.format.has_lemmas:
        raise SettingsError(
            "{--match lemma}: requires CoNLL-U, found {name}",
            remedy="Remove {--match}, or give CoNLL-U, which has lemmas.",
            name=text_input.format.name,
        )
    return plan


def _may_have_occurrences(path: str | Path) -> bool:
    """Return whether the suffix of a path names no format that target words lack."""
    named = format_of_suffix(path)
    if named is None:
        return Path(path).suffix.lower() not in REFUSED_SUFFIXES
    return named.name in OCCURRENCE_FORMATS


def embed_occurrences(
    engine: Engine,
    plan: FilePlan,
    words: Mapping[str, str],
    on_progress: Callable[[Summary], object] | None = None,
    should_stop: Callable[[], bool] | None = None,
    *,
    match: str = "form",
    ignore_case: bool = False,
) -> WrittenOccurrences:
    """Embed the occurrences of target words into the output of a plan.

    `words` gives the target word of each form.
    """
    attributes = {targets.WORDS: json.dumps(dict(words), ensure_ascii=False)}
    if ignore_case:
        attributes["match"] = f"{match}, ignore case"
    elif match == "lemma":
        attributes["match"] = match
    search = _Search(
        words,
        match=match,
        ignore_case=ignore_case,
        unit=plan.text_input.format.number_unit,
    )
    with open_run(
        engine,
        plan,
        attributes=attributes,
        rows_type=OccurrenceRows,
        on_progress=on_progress,
        should_stop=should_stop,
    ) as file_run:
        embedded = file_run.embed_input(
            keep=search.keep_targets,
            select=select_targets,
            on_restart=search.restart,
            reads_lemmas=match == "lemma",
        )
        sink = embedded.sink
        if not embedded.was_complete:
            warnings = [search.finder.warning(), *search.places.warnings()]
            messages = [warning for warning in warnings if warning is not None]
            if not search.counts.total():
                file_run.writer.clear()
                advice: object = "Check the words and the tokenizer."
                if messages:
                    advice = messages[0]
                raise InputError(
                    "{name}: no target word occurs",
                    remedy="{advice}",
                    name=plan.text_input.source.name,
                    advice=advice,
                )
            for message in messages:
                logger.warning("%s", message)
            sink.finish(embedded.progress)
        return WrittenOccurrences(dict(search.counts), sink.summary_so_far())


class _Search:
    """Search for target words in all records of an input, with their counts."""

    def __init__(
        self, words: Mapping[str, str], *, match: str, ignore_case: bool, unit: str
    ) -> None:
        self._words = words
        self._unit = unit
        self._ignore_case = ignore_case
        self._by_lemma = match == "lemma"
        # Otherwise the form of a token tells its target word.
        self._stores_words = self._by_lemma or ignore_case
        self.restart()

    def restart(self) -> None:
        """Forget the records so far, because they are read again."""
        self.finder = targets.TargetFinder(self._words, ignore_case=self._ignore_case)
        self.places = PlaceFinder(self._words, self._unit)
        self.counts = Counter(dict.fromkeys(self._words.values(), 0))

    def keep_targets(self, record: Record) -> Record:
        """Return a record with the positions of its target words.

        Without any, it is blank, so that it is not computed.
        """
        found_places = self.places.find(record)
        stores_words = self._stores_words or bool(found_places)
        found = {place.tokens.start: place.word for place in found_places}
        if not found and not must_have_place(record):
            found = self.finder.find(record.lemmas if self._by_lemma else record.tokens)
        record = record._replace(places=[each.place for each in found_places])
        if not found:
            return record._replace(text="", tokens=[])
        self.counts.update(found.values())
        attributes = {**record.attributes, targets.POSITIONS: ",".join(map(str, found))}
        if stores_words:
            attributes[targets.WORDS] = json.dumps(
                list(found.values()), ensure_ascii=False
            )
        return record._replace(attributes=attributes)


def select_targets(embedded: EmbeddedRecord) -> EmbeddedRecord:
    """Return a record with the activations of its target words alone.

    Their shape is (L, n, W) or (n, W). An annotated word of several tokens has their
    mean.
    """
    record = embedded.record
    if record.error is not None:
        return embedded
    if record.places:
        means = []
        for place in record.places:
            tokens = align_place(place, record.tokens).tokens
            means.append(embedded.activations[..., tokens, :].mean(axis=-2))
        return embedded._replace(activations=np.stack(means, axis=-2))
    positions = targets.target_positions(record)
    return embedded._replace(activations=embedded.activations[..., positions, :])


class OccurrenceRows(TokenRows):
    """One row per occurrence of a target word."""

    def __init__(self, settings: OutputSettings, attributes: Attributes) -> None:
        others = {
            name: value for name, value in attributes.items() if name != targets.WORDS
        }
        super().__init__(settings, others)
        self._words: dict[str, str] = json.loads(attributes[targets.WORDS])

    def positions(self, record: Record) -> Sequence[int]:
        """Return the positions of the target words."""
        return targets.target_positions(record)

    def columns(
        self, number: int, record: Record, positions: Sequence[int]
    ) -> ColumnValues:
        """Return the columns of a record's rows, without kept columns and vectors."""
        forms = [record.tokens[position] for position in positions]
        columns: ColumnValues = {
            "word": targets.target_words(record, positions, self._words),
            "form": forms,
            **self.origin(number, record, positions),
            "sentence": [record.text] * len(forms),
        }
        if self.keeps_tokens:
            columns["tokens"] = [record.tokens] * len(forms)
        return columns


def write_occurrences(
    embedder: ElmoEmbedder,
    corpus: IO[str] | str | Path,
    output: str | Path,
    words: Mapping[str, str] | Sequence[str] | str | Path,
    *,
    layers: Layers = DEFAULT_LAYERS,
    text_settings: TextSettings | None = None,
    match: Match = "form",
    ignore_case: bool = False,
    overwrite: bool = False,
) -> WrittenOccurrences:
    """Write the vectors of the occurrences of target words in a text.

        write_occurrences(embedder, "corpus.txt", "bank.parquet", ["bank", "banks"])

    Args:
        embedder: Model; its state is not carried over.
        corpus: Path of the text, one sentence per line, or an open text file.
        output: Parquet (.parquet) or HDF5. The file appears once it is complete.
        words: Target words: a list, the word of each form as in
            `{"bank": "bank", "banks": "bank"}`, or the path of a file that
            `read_targets` reads.
        layers: "all", "top", "average", "sum", numbers such as 2, -1 or [0, 2],
            "word_emb" (the token layer once, W / 2 wide), or "lstm1", "lstm2".
        text_settings: How the text is read. None means `TextSettings()`.
        match: "form" compares the words with the tokens, and "lemma" with the lemmas of
            CoNLL-U.
        ignore_case: Ignore case when comparing them.
        overwrite: Replace an existing output.

    Returns:
        The number of occurrences of each word, and a summary of the run.

    Raises:
        InputError: No target word occurs, or the text or the words cannot be read.
        SettingsError: An option has a wrong value, the state is carried over, or the
            name of `output` is not that of Parquet or HDF5.
        OutputError: `output` already exists or cannot be written.
    """
    check_embedder(embedder)
    words = targets.targets_of(words)
    check_path("output", output)
    check_flag("ignore_case", ignore_case)
    opened = open_text_and_warn(
        corpus,
        text_settings,
        embedder.files,
        argument="corpus",
        reads_places=True,
    )
    with opened.source:
        plan = plan_occurrences(
            opened,
            output,
            selection=SelectionSettings(layers_text(layers)),
            output_settings=OutputSettings(overwrite=overwrite),
            state=embedder.state,
            match=match,
        )
        warn_about_suffix(plan, remedy=_SUFFIXES)
        return embed_occurrences(
            embedder.engine, plan, words, match=match, ignore_case=ignore_case
        )
