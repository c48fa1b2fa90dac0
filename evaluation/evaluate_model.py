"""Evaluation of a model: word senses, parts of speech, minimal pairs and reading.

    python evaluation --model mini --data FOLDER

Each test runs if its data is in the folder; docs/evaluation.md says where the data is
available. The tables are printed, and written to RESULTS.md and RESULTS.json.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from elmo_cli import ElmoEmbedder, ElmoError, LanguageModel, __version__
from elmo_cli.pretrained.find_model import find_files_by_name
from evaluation import (
    minimal_pairs,
    part_of_speech,
    reading_times,
    sense_lists,
    tables,
    word_senses,
)
from evaluation.data_folder import DataFolder, find_data
from evaluation.reading_data import read_natural_stories, read_ucl
from evaluation.sense_data import read_semcor, read_sense_numbers, read_test_sets
from evaluation.tables import Table
from evaluation.tagged_data import Split, read_brown, read_treebank
from evaluation.token_style import Embedder

State = Literal["zero", "warm", "carry"]


class Model(NamedTuple):
    """Model to evaluate, with its options."""

    name: str
    state: State | None = None
    """Initial state. None is the model's default."""
    device: str = "cpu"

    def load_embedder(self) -> ElmoEmbedder:
        """Load the model for its vectors."""
        return ElmoEmbedder(model=self.name, state=self.state, device=self.device)

    def load_language_model(self) -> LanguageModel:
        """Load the model with its softmax."""
        return LanguageModel(model=self.name, state=self.state, device=self.device)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the tests, print each table and write all of them."""
    parser = argparse.ArgumentParser(
        prog="evaluation", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--model", required=True, help="name or folder of a model")
    parser.add_argument(
        "--data", type=Path, help="folder of the data, searched recursively"
    )
    parser.add_argument(
        "--pairs", type=int, help="maximum number of pairs per set of BLiMP"
    )
    parser.add_argument(
        "--state",
        choices=get_args(State),
        help="initial state; the model's own if absent",
    )
    parser.add_argument(
        "--device", default="cpu", help="cpu, cuda, cuda:N or mps; default cpu"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("results"),
        help="output without suffix; default results",
    )
    options = parser.parse_args(arguments)
    if options.data is not None and not options.data.is_dir():
        raise SystemExit(f"{options.data}: no such folder. Unpack the data into one.")
    data = find_data(options.data) if options.data else DataFolder()
    model = Model(options.model, state=options.state, device=options.device)
    header = {
        "model": options.model,
        "state": options.state or "default",
        "elmo-cli": __version__,
    }
    try:
        write_tables(header, run_tests(model, data, options.pairs), options.output)
    except ElmoError as error:
        raise SystemExit(str(error)) from None


def write_tables(
    header: dict[str, str], results: Iterator[Table], output: Path
) -> None:
    """Print each table and write both files again, as soon as the table is complete."""
    done: list[Table] = []
    for table in results:
        done.append(table)
        print(table.to_markdown(), flush=True)
        page = output.with_name(f"{output.name}.md")
        page.write_text(tables.to_markdown(header, done), encoding="utf-8")
        data = output.with_name(f"{output.name}.json")
        data.write_text(tables.to_json(header, done), encoding="utf-8")


def run_tests(model: Model, data: DataFolder, n_pairs: int | None) -> Iterator[Table]:
    """Yield the table of each test whose data was found.

    Args:
        model: The model.
        data: The data.
        n_pairs: Maximum number of pairs per set of BLiMP.
    """
    yield from evaluate_vectors(model, data)
    yield from evaluate_minimal_pairs(model, data, n_pairs)
    yield from evaluate_reading(model, data)


def evaluate_vectors(model: Model, data: DataFolder) -> Iterator[Table]:
    """Yield the tables of a model's vectors, unless it only reads forward."""
    if "backward" not in find_files_by_name(model.name).architecture.directions:
        print("vectors: skipped. The model only reads forward.", file=sys.stderr)
        return
    embedder = model.load_embedder()
    yield sense_lists.evaluate(embedder)
    yield from evaluate_senses(embedder, data)
    yield from evaluate_parts_of_speech(embedder, data)


def evaluate_senses(embedder: Embedder, data: DataFolder) -> Iterator[Table]:
    """Yield the tables of word senses if their data was found."""
    needed = {
        "SemCor": data.semcor,
        "ALL.data.xml": data.test_sets,
        "index.sense": data.sense_index,
    }
    if _is_missing("word senses", [name for name, path in needed.items() if not path]):
        return
    assert data.test_sets is not None
    assert data.sense_index is not None
    yield from word_senses.evaluate(
        embedder,
        list(read_semcor(data.semcor)),
        list(read_test_sets(data.test_sets)),
        read_sense_numbers(data.sense_index),
    )


def evaluate_parts_of_speech(embedder: Embedder, data: DataFolder) -> Iterator[Table]:
    """Yield the table of parts of speech if a tagged corpus was found."""
    corpora: dict[str, Split] = {}
    if data.brown:
        corpora["Brown corpus"] = read_brown(data.brown)
    for name, (train, test) in data.treebanks.items():
        corpora[name] = read_treebank(train, test)
    needed = [] if corpora else ["Brown corpus", "treebank (*-train.conllu)"]
    if not _is_missing("parts of speech", needed):
        yield part_of_speech.evaluate(embedder, corpora)


def evaluate_minimal_pairs(
    model: Model, data: DataFolder, n_pairs: int | None
) -> Iterator[Table]:
    """Yield the table of minimal pairs, with BLiMP and for a model with a softmax."""
    if _is_missing("minimal pairs", [] if data.blimp else ["BLiMP (*.jsonl)"]):
        return
    try:
        scorer = model.load_language_model()
    except ElmoError as error:
        print(f"minimal pairs: skipped. {error}", file=sys.stderr)
        return
    if "backward" not in scorer.directions:
        print("minimal pairs: skipped. The model only reads forward.", file=sys.stderr)
        return
    pairs = list(minimal_pairs.read_pairs(data.blimp, n_pairs))
    yield minimal_pairs.evaluate(pairs, minimal_pairs.measure(scorer, pairs))


def evaluate_reading(model: Model, data: DataFolder) -> Iterator[Table]:
    """Yield the tables of each reading corpus, for a model with a softmax."""
    has_stories = data.story_times is not None and data.story_frequencies is not None
    needed = [
        "UCL sentences (all_measures.csv)",
        "Natural Stories (processed_wordinfo.tsv, freqs-1.tsv)",
    ]
    if _is_missing("reading", [] if data.ucl or has_stories else needed):
        return
    try:
        scorer = model.load_language_model()
        if data.ucl is not None:
            sentences = read_ucl(data.ucl)
            surprisal = reading_times.measure(scorer, sentences.sentences)
            yield from reading_times.evaluate(sentences, surprisal)
        if data.story_times is not None and data.story_frequencies is not None:
            stories = read_natural_stories(
                data.story_times, data.story_frequencies, data.story_gpt3
            )
            surprisal = reading_times.measure(scorer, stories.sentences)
            yield from reading_times.evaluate(stories, surprisal)
    except ElmoError as error:
        print(f"reading: skipped. {error}", file=sys.stderr)


def _is_missing(test: str, missing: list[str]) -> bool:
    """Return whether data is missing. If it is, print a message."""
    if missing:
        print(
            f"{test}: skipped. --data has no {', no '.join(missing)}.", file=sys.stderr
        )
    return bool(missing)
