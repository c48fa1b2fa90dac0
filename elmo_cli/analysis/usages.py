"""`elmo usages`: the vectors of the occurrences of target words in a text.

Only sentences with a target word are computed, and only the vectors of target words are written:
in HDF5, in npz with one matrix per word, or as a table with one row per occurrence, in the order of
the text. docs/change.md describes its columns.
"""

import json
import logging
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis import targets
from elmo_cli.embed_file import Summary, embed_file
from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.engine import Engine
from elmo_cli.errors.checks import check_choice, check_type
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.file_plan import FilePlan, plan_file
from elmo_cli.options.analysis import MATCHES
from elmo_cli.options.model import InitialState
from elmo_cli.options.output import OutputSettings
from elmo_cli.options.selection import Layers, Selection, layers_text
from elmo_cli.options.text import TextSettings
from elmo_cli.outputs.arrays import write_array
from elmo_cli.outputs.attributes import Attributes
from elmo_cli.outputs.format_writer import FormatWriter, RecordFilter
from elmo_cli.outputs.json_lines import JsonlWriter
from elmo_cli.outputs.parquet import ParquetWriter
from elmo_cli.outputs.vector_rows import Columns, TokenRows
from elmo_cli.text.input_formats import CONLLU, FASTA, TextInput, open_input
from elmo_cli.text.records import Record

logger = logging.getLogger(__name__)

Array = NDArray[Any]

DEFAULT_LAYERS: Final = "top"


class _NpzUsagesWriter(FormatWriter):
    """Writer for one array per word, (n, W) or (n, L, W), in memory until the end."""

    def __init__(
        self, file: Any, output_format: OutputSettings, attributes: Attributes
    ) -> None:
        super().__init__(file, output_format, attributes)
        self._words: dict[str, str] = json.loads(attributes[targets.WORDS])
        self._rows: dict[str, list[Array]] = {word: [] for word in self._words.values()}
        self._no_rows = np.empty((0, 0), output_format.dtype)

    def write(self, number: int, record: Record, values: Array) -> None:
        rows = np.swapaxes(values, 0, -2)  # (n, L, W) or (n, W)
        self._no_rows = rows[:0].copy()
        positions = [] if record.error is not None else targets.target_positions(record)
        words = targets.target_words(record, positions, self._words)
        for word, row in zip(words, rows, strict=True):
            self._rows[word].append(row.copy())

    def finish(self, attributes: Attributes) -> None:
        with zipfile.ZipFile(self._file, "w") as archive:
            for word, rows in self._rows.items():
                write_array(archive, word, np.stack(rows) if rows else self._no_rows)


class _UsageRows(TokenRows):
    def __init__(self, output_format: OutputSettings, attributes: Attributes) -> None:
        others = {
            name: value for name, value in attributes.items() if name != targets.WORDS
        }
        super().__init__(output_format, others)
        self._words: dict[str, str] = json.loads(attributes[targets.WORDS])

    def positions(self, record: Record) -> Sequence[int]:
        return targets.target_positions(record)

    def columns(self, number: int, record: Record, positions: Sequence[int]) -> Columns:
        forms = [record.tokens[position] for position in positions]
        tokens = {"tokens": [record.tokens] * len(forms)} if self.keeps_tokens else {}
        return {
            "word": targets.target_words(record, positions, self._words),
            "form": forms,
            **self.origin(number, record, positions),
            "sentence": [record.text] * len(forms),
            **tokens,
        }


class _JsonlUsagesWriter(JsonlWriter):
    rows_type = _UsageRows


class _ParquetUsagesWriter(ParquetWriter):
    rows_type = _UsageRows


_WRITERS: Final[Mapping[str, type[FormatWriter]]] = {
    "npz": _NpzUsagesWriter,
    "jsonl": _JsonlUsagesWriter,
    "parquet": _ParquetUsagesWriter,
}


class Usages(NamedTuple):
    """Result of a run."""

    counts: dict[str, int]
    """Number of occurrences of each target word, in the order of the words."""
    summary: Summary


class _TargetFilter(RecordFilter):
    def __init__(
        self, words: Mapping[str, str], plan: FilePlan, match: str, *, ignore_case: bool
    ) -> None:
        self._words, self._source = words, plan.text.source.name
        self._by_lemma, self._ignore_case = match == "lemma", ignore_case
        self.attributes = {targets.WORDS: json.dumps(dict(words), ensure_ascii=False)}
        if self._by_lemma or ignore_case:
            self.attributes["match"] = f"{match}, ignore case" if ignore_case else match
        self.writer_type = _WRITERS.get(plan.output_format.name)
        self.begin()

    def begin(self) -> None:
        self.counts = Counter(dict.fromkeys(self._words.values(), 0))
        self._finder = targets.TargetFinder(self._words, ignore_case=self._ignore_case)

    def prepare(self, record: Record) -> Record:
        """Return a record with the positions of its target words. Without any, it is blank."""
        found = self._finder.find(record.lemmas if self._by_lemma else record.tokens)
        if not found:
            return record._replace(text="", tokens=[])
        self.counts.update(found.values())
        attributes = {**record.attributes, targets.POSITIONS: ",".join(map(str, found))}
        if "match" in self.attributes:
            attributes[targets.WORDS] = json.dumps(
                [*found.values()], ensure_ascii=False
            )
        return record._replace(attributes=attributes)

    def select(self, record: Record, activations: Array) -> Array:
        """Return the activations of the target words: (L, n, W) or (n, W)."""
        return activations[..., targets.target_positions(record), :]

    def finish(self) -> None:
        warning = self._finder.warning()
        if not self.counts.total():
            advice = warning or "Check the words and the tokenizer."
            raise InputError(f"{self._source}: no target word occurs. {advice}")
        if warning:
            logger.warning("Warning: %s", warning)


def plan_usages(
    text: TextInput,
    output: str | Path,
    selection: Selection,
    written: OutputSettings,
    *,
    state: InitialState | None = None,
    match: str = "form",
) -> FilePlan:
    """Choose the formats of a run over a file; see `plan_file`."""
    name = written.file_format or Path(output).suffix.lower().removeprefix(".")
    if name == "npy":
        remedy = "Choose one of hdf5, npz, parquet, jsonl."
        raise SettingsError(f"{output}: npy cannot hold target words. {remedy}")
    if state == "carry":
        reason = "sentences without a target word are not computed, so no state can be carried over"
        raise SettingsError(f"--state carry: {reason}. Choose --state zero or warm.")
    plan = plan_file(text, output, selection, written, state=state)
    if text.format.name == FASTA.name:
        raise SettingsError(
            f"{text.source.name}: FASTA has no words. Choose another input."
        )
    check_choice("match", match, MATCHES)
    if match == "lemma" and text.format.name != CONLLU.name:
        raise SettingsError(
            f"--match lemma requires CoNLL-U, found {text.format.name}."
        )
    return plan


def embed_usages(
    engine: Engine,
    plan: FilePlan,
    words: Mapping[str, str],
    on_progress: Callable[[Summary], object] | None = None,
    should_stop: Callable[[], bool] | None = None,
    *,
    match: str = "form",
    ignore_case: bool = False,
) -> Usages:
    """Embed the occurrences of target words, each given by form, into the output of a plan."""
    target_filter = _TargetFilter(words, plan, match, ignore_case=ignore_case)
    summary = embed_file(
        engine,
        plan,
        on_progress=on_progress,
        should_stop=should_stop,
        record_filter=target_filter,
    )
    return Usages(dict(target_filter.counts), summary)


def write_occurrences(
    embedder: ElmoEmbedder,
    corpus: IO[str] | str | Path,
    output: str | Path,
    words: Mapping[str, str],
    *,
    layers: Layers = DEFAULT_LAYERS,
    tokenizer: str | None = None,
    match: str = "form",
    ignore_case: bool = False,
    overwrite: bool = False,
) -> Usages:
    """Write the vectors of the occurrences of target words in a text.

    Args:
        embedder: Model. Its state is not carried over.
        corpus: Path of the text, one sentence per line, or an open text file.
        output: HDF5, .npz, .parquet or .jsonl. The file appears when it is complete.
        words: Target word of each form, such as `{"bank": "bank", "banks": "bank"}`.
        layers: As in `ElmoEmbedder.embed_sentences`.
        tokenizer: As in `ElmoEmbedder.embed_file`.
        match: `form` compares the words with the tokens, and `lemma` with the lemmas of CoNLL-U.
        ignore_case: Compare them in lower case.
        overwrite: Replace an existing output.

    Returns:
        The number of occurrences of each word, and a summary of the run.

    Raises:
        InputError: No target word occurs, or the input cannot be read.
        ElmoError: The output cannot be written.
    """
    check_type("embedder", embedder, ElmoEmbedder, "an ElmoEmbedder")
    targets.check_words(words)
    settings, files = TextSettings(tokenizer=tokenizer), embedder.files
    text = open_input(
        corpus, settings, trained=files.tokenizer, language=files.language
    )
    written = OutputSettings(overwrite=overwrite)
    plan = plan_usages(
        text,
        output,
        Selection(layers_text(layers)),
        written,
        state=embedder.state,
        match=match,
    )
    return embed_usages(
        embedder.engine, plan, words, match=match, ignore_case=ignore_case
    )
