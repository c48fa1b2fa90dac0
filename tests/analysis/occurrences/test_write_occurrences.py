"""`elmo occurrences`: the occurrences of target words, in every form."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from elmo_cli import (
    ElmoEmbedder,
    ElmoError,
    measure_change,
    open_activations,
    open_occurrences,
    write_occurrences,
)
from elmo_cli.analysis.change.occurrence_matrices import read_occurrences
from elmo_cli.analysis.occurrences.write_occurrences import (
    WrittenOccurrences,
    embed_occurrences,
    plan_occurrences,
)
from elmo_cli.analysis.search.word_search import find_occurrences
from elmo_cli.engine import Engine
from elmo_cli.errors.exceptions import InputError, SettingsError, StoppedError
from elmo_cli.options.output import OutputSettings
from elmo_cli.options.selection import SelectionSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.records.open_input import open_input
from tests.support.accept import CheckExample
from tests.support.commands import TINY, elmo
from tests.support.layouts import layouts
from tests.support.runs import assert_same_file, embed, limit_memory, stop_after
from tests.support.table_files import read_rows, write_table
from tests.support.transcripts import Example, each_example

EARLIER = Path(__file__).parent / "earlier_occurrences"
"""Files that an earlier version wrote, with the model TINY."""
DOCS = Path(__file__).parents[3] / "docs"

TEXT = """\
The bank lent
no word

banks and a bank
The bank lent
it saw
the end of banks
"""
WORDS = {"bank": "bank", "banks": "bank", "saw": "see", "fish": "fish"}
POSITIONS = [[1], [], [], [0, 3], [1], [1], [3]]
COUNTS = {"bank": 5, "see": 1, "fish": 0}
FORMATS = pytest.mark.parametrize("name", ["u.hdf5", "u.parquet"])


pytestmark = pytest.mark.usefixtures("corpus")


@pytest.fixture
def corpus(folder: Path) -> None:
    """Write a text and target words into the current folder."""
    Path("text.txt").write_text(TEXT)
    Path("targets.txt").write_text("bank,banks\nsee,saw\nfish\n")


def write_targets(
    source: str,
    output: str,
    words: dict[str, str] = WORDS,
    *,
    layers: str = "all",
    should_stop: Callable[[], bool] = lambda: False,
    text_settings: TextSettings | None = None,
    match: str = "form",
    ignore_case: bool = False,
    **written: Any,
) -> WrittenOccurrences:
    """Write the occurrences with small windows, and checkpoints between them."""
    opened = open_input(source, text_settings or TextSettings())
    plan = plan_occurrences(
        opened,
        output,
        SelectionSettings(layers),
        OutputSettings(**written),
        match=match,
    )
    options: Any = {
        "match": match,
        "ignore_case": ignore_case,
        "should_stop": should_stop,
    }
    with patch("elmo_cli.runs.embed_file.checkpoint_tokens", return_value=4):
        return embed_occurrences(
            ElmoEmbedder(model=TINY, batch_tokens=8).engine, plan, words, **options
        )


@layouts
def test_hdf5_has_the_vectors_with_line_and_position(layout: str) -> None:
    embed("text.txt", "all.hdf5", layout=layout)
    result = write_targets("text.txt", "occurrences.hdf5", layout=layout)
    assert result.counts == COUNTS
    assert result.summary.n_records == 7
    with (
        open_activations("all.hdf5") as everything,
        open_activations("occurrences.hdf5") as file,
    ):
        assert len(file) == 7
        for (record, values), whole, positions, line in zip(
            file.records(), everything, POSITIONS, TEXT.splitlines(), strict=True
        ):
            assert_allclose(values, whole[:, positions], atol=2e-6)
            if positions:
                assert record.tokens == line.split()
            else:
                assert record.tokens == []
            stored = record.attributes.get("positions", "")
            assert stored == ",".join(str(position) for position in positions)
        # Both files have equal occurrences, also for lines that occur twice.
        one = find_occurrences(file)
        other = find_occurrences(everything, WORDS)
        assert [each.location.number for each in one["bank"]] == [1, 4, 4, 5, 7]
        assert one["bank"][0].marked == "The [bank] lent"
        assert one.keys() == {"bank", "see", "fish"}
        last = {(each.location, each.index): each.vector for each in other["bank"]}
        # AllenNLP's layout has the last of equal lines.
        first = 0 if layout == "packed" else 1
        for each in one["bank"][first:]:
            location = each.location._replace(path=Path("all.hdf5"))
            assert_allclose(each.vector, last[location, each.index], atol=2e-6)


def all_vectors() -> NDArray[np.float32]:
    """Return the layers of each occurrence in the text, (6, 3, 32)."""
    embed("text.txt", "all.hdf5", output_format="all", layout="packed")
    vectors = []
    with open_activations("all.hdf5") as file:
        for values, positions in zip(file, POSITIONS, strict=True):
            for position in positions:
                vectors.append(values[:, position])
    return np.array(vectors)


@pytest.mark.parametrize("layers", ["top", "all", "2,0"])
def test_a_table_has_one_row_per_occurrence(layers: str) -> None:
    expected = []
    for number, line in enumerate(TEXT.splitlines(), start=1):
        for position in POSITIONS[number - 1]:
            form = line.split()[position]
            row = {
                "word": WORDS[form],
                "form": form,
                "line": number,
                "id": None,
                "position": position,
                "sentence": line,
            }
            expected.append(row)
    write_targets("text.txt", "u.parquet", layers=layers)
    written = []
    for row in read_rows("u.parquet"):
        written.append({name: row[name] for name in expected[0]})
    assert written == expected


@pytest.mark.parametrize(
    ("layers", "columns"),
    [
        ("top", {"vector": 2}),
        ("all", {"layer_0": 0, "layer_1": 1, "layer_2": 2}),
        ("2,0", {"layer_2": 2, "layer_0": 0}),
    ],
)
def test_a_table_has_one_column_per_layer(layers: str, columns: dict[str, int]) -> None:
    vectors = all_vectors()
    write_targets("text.txt", "u.parquet", layers=layers)
    rows = read_rows("u.parquet")
    for row in rows:
        assert list(row)[-len(columns) :] == list(columns)
        assert len(row) == 6 + len(columns)
    for column, layer in columns.items():
        written = [row[column] for row in rows]
        assert_allclose(written, vectors[:, layer], atol=2e-6)


@pytest.mark.parametrize("layers", ["top", "all", "2,0"])
def test_layers_of_a_table_can_be_chosen(layers: str) -> None:
    vectors = all_vectors()
    write_targets("text.txt", "u.parquet", layers=layers)
    with open_occurrences("u.parquet") as opened:
        (found, *_) = opened.read(None if layers == "top" else "2")
        assert_allclose(found.vectors[0], vectors[0, 2], atol=2e-6)
        (found, *_) = opened.read()
        # By default, it is the mean of the LSTM layers that the file has.
        default = vectors[0, 1:].mean(axis=0) if layers == "all" else vectors[0, 2]
        assert_allclose(found.vectors[0], default, atol=2e-6)


@FORMATS
def test_two_runs_write_the_same_bytes(name: str) -> None:
    write_targets("text.txt", name, layers="top")
    first = Path(name).read_bytes()
    write_targets("text.txt", name, layers="top", overwrite=True)
    assert Path(name).read_bytes() == first


def test_only_sentences_with_a_word_are_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compute = Engine.embed_window
    computed = list[list[str]]()

    def noted(self: Engine, window: list[list[str]], *rest: Any, **options: Any) -> Any:
        computed.extend(sentence for sentence in window if sentence)
        return compute(self, window, *rest, **options)

    monkeypatch.setattr(Engine, "embed_window", noted)
    write_occurrences(ElmoEmbedder(model=TINY), "text.txt", "occurrences.hdf5", WORDS)
    expected = []
    for line, positions in zip(TEXT.splitlines(), POSITIONS, strict=True):
        if positions:
            expected.append(line.split())
    assert computed == expected


LONG_COUNTS = {"bank": 25, "see": 5, "fish": 0}
"""Occurrences in five times the text."""


def stop_three_times(layout: str) -> None:
    """Stop a run over `long.txt`, five times the text, into `u.hdf5`."""
    Path("long.txt").write_text(TEXT * 5)
    for n_windows in (3, 2, 1):
        with pytest.raises(StoppedError, match="Stopped after line "):
            write_targets(
                "long.txt",
                "u.hdf5",
                layout=layout,
                should_stop=stop_after(n_windows),
            )


@layouts
def test_a_stopped_run_resumes_with_all_counts(layout: str) -> None:
    stop_three_times(layout)
    resumed = write_targets("long.txt", "u.hdf5", layout=layout)
    assert resumed.summary.resumed_from > 0
    assert resumed.counts == LONG_COUNTS

    whole = write_targets("long.txt", "whole.hdf5", layout=layout)
    assert whole.counts == LONG_COUNTS
    assert_same_file("u.hdf5", "whole.hdf5")
    again = write_targets("long.txt", "u.hdf5", layout=layout)
    assert again.summary.was_complete
    assert again.counts == LONG_COUNTS


@layouts
def test_a_run_with_other_words_is_refused(layout: str) -> None:
    write_targets("text.txt", "u.hdf5", layout=layout)
    with pytest.raises(ElmoError, match=r"other options: words \("):
        write_targets("text.txt", "u.hdf5", {"bank": "bank"}, layout=layout)
    problem = r"other options: match \(it has none, this run has form, ignore case\)"
    with pytest.raises(ElmoError, match=problem):
        write_targets("text.txt", "u.hdf5", ignore_case=True, layout=layout)


@layouts
def test_the_counts_of_a_run_over_another_text_are_forgotten(layout: str) -> None:
    stop_three_times(layout)
    shutil.copy("u.hdf5.partial", "partial")
    shutil.copy("u.hdf5.partial.log", "log")
    write_targets("long.txt", "u.hdf5", layout=layout)
    shutil.move("partial", "u.hdf5.partial")
    shutil.move("log", "u.hdf5.partial.log")
    Path("long.txt").write_text("a bank\n" + TEXT)
    other = write_targets("long.txt", "u.hdf5", overwrite=True, layout=layout)
    assert other.counts == COUNTS | {"bank": 6}


# Case and lemmas

LEMMAS = """\
1\tThe\tthe
2\tmice\tmouse
3\tsaw\tsee

1\tA\ta
2\tsaw\tsaw
3\tMice\tMouse
"""
ANIMALS = {"mouse": "mouse", "see": "see", "saw": "saw"}


def assert_found(name: str, expected: dict[str, list[tuple[int, int]]]) -> None:
    """Assert the line and position of each occurrence."""
    with open_occurrences(name) as files:
        words = find_occurrences(files)
    found = {}
    for word, occurrences in words.items():
        if occurrences:
            found[word] = [(each.location.number, each.index) for each in occurrences]
    assert found == expected


@FORMATS
def test_words_are_found_in_every_case(name: str) -> None:
    Path("cases.txt").write_text("The Bank lent\nBANKS and a bank\nhe Saw\n")
    result = write_targets("cases.txt", name, layers="top", ignore_case=True)
    assert result.counts == {"bank": 3, "see": 1, "fish": 0}
    assert_found(name, {"bank": [(1, 1), (2, 0), (2, 3)], "see": [(3, 1)]})


@FORMATS
def test_lemmas_are_found_in_conllu(name: str) -> None:
    Path("t.conllu").write_text(LEMMAS)
    result = write_targets("t.conllu", name, ANIMALS, layers="top", match="lemma")
    assert result.counts == {"mouse": 1, "see": 1, "saw": 1}
    # One form may have two lemmas.
    assert_found(name, {"mouse": [(1, 1)], "see": [(1, 2)], "saw": [(2, 1)]})
    with open_occurrences(name) as files:
        found = find_occurrences(files)
    embedder = ElmoEmbedder(model=TINY)
    (top,) = embedder.embed_sentences([["The", "mice", "saw"]], layers="top")
    assert_allclose(found["mouse"][0].vector, top[1], atol=2e-6)
    assert_allclose(found["see"][0].vector, top[2], atol=2e-6)
    both = write_targets(
        "t.conllu", name, ANIMALS, match="lemma", ignore_case=True, overwrite=True
    )
    assert both.counts == {"mouse": 2, "see": 1, "saw": 1}


def test_change_requires_the_match_of_both_files() -> None:
    Path("t.conllu").write_text("\n".join([LEMMAS] * 3))
    Path("animals.txt").write_text("\n".join(ANIMALS))
    for output in (
        "a.hdf5 --match lemma",
        "b.parquet --match lemma",
        "form.hdf5 --match form",
    ):
        command = f"occurrences t.conllu {output} --words animals.txt --model"
        elmo(*command.split(), TINY)
    result = elmo("change", "a.hdf5", "b.parquet", "--match", "lemma")
    _, *lines = result.stdout.splitlines()
    words = [line.split("\t")[0] for line in lines]
    assert words.count("mouse") == 1
    result = elmo("change", "a.hdf5", "form.hdf5", "--match", "lemma")
    error = "Error: form.hdf5: not made with --match lemma, or without a record"
    assert error in result.stderr
    changes = measure_change("a.hdf5", "b.parquet", match="lemma")
    assert ("mouse", 3, 3) in [(each.word, each.n_old, each.n_new) for each in changes]
    for read in (read_occurrences, measure_change):
        with pytest.raises(ElmoError, match=r"^a\.hdf5: not made with match form, or "):
            read("a.hdf5", "form.hdf5", match="form")
    with pytest.raises(
        ElmoError, match=r"^match: expected form or lemma, found 'lemmas'"
    ):
        write_targets("t.conllu", "u.hdf5", match="lemmas")


@FORMATS
def test_a_sentence_beyond_memory_is_skipped(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("long.txt").write_text("bank " * 30 + "\na bank\n")
    limit_memory(monkeypatch, 20)
    write_targets(
        "long.txt", name, layers="top", text_settings=TextSettings(skip_errors=True)
    )
    with open_occurrences(name) as file:
        assert len(find_occurrences(file)["bank"]) == 1


@FORMATS
def test_change_is_the_same_from_all_formats(name: str) -> None:
    Path("new.txt").write_text(TEXT.replace("bank", "big bank"))
    for command in (
        f"occurrences text.txt text.{name} --words targets.txt",
        f"occurrences new.txt new.{name} --words targets.txt",
        "occurrences new.txt new.hdf5 --words targets.txt --overwrite",
        "embed text.txt text.all.hdf5 --layout packed",
        "embed new.txt new.all.hdf5 --layout packed",
    ):
        elmo(*command.split(), "--layers", "top", "--model", TINY)
    sizes = []
    for command in (
        f"change text.{name} new.{name}",
        f"change text.{name} new.hdf5",
        "change text.all.hdf5 new.all.hdf5 --words targets.txt",
    ):
        change = json.loads(elmo(*command.split(), "--json").stdout)
        assert change["word"] == "bank"
        assert change["n_old"] == 5
        assert change["n_new"] == 5
        sizes.append(change["change"])
    assert_allclose(sizes, sizes[0], rtol=1e-5)


def test_words_are_a_list_a_dict_or_a_file() -> None:
    embedder = ElmoEmbedder(TINY)
    counts = []
    all_words: list[Any] = [WORDS, "targets.txt", Path("targets.txt")]
    for number, words in enumerate(all_words):
        output = f"{number}.parquet"
        counts.append(write_occurrences(embedder, "text.txt", output, words).counts)
    assert counts == [counts[0]] * 3
    by_form = write_occurrences(embedder, "text.txt", "list.hdf5", ["bank", "banks"])
    assert by_form.counts.keys() == {"bank", "banks"}
    assert sum(by_form.counts.values()) == counts[0]["bank"]


def test_change_is_measured_from_the_paths_of_two_files() -> None:
    Path("new.txt").write_text(TEXT.replace("bank", "big bank"))
    embedder = ElmoEmbedder(TINY)
    for name in ("text", "new"):
        write_occurrences(embedder, f"{name}.txt", f"{name}.parquet", "targets.txt")
        embedder.embed_file(f"{name}.txt", f"{name}.hdf5", "top")
    expected = measure_change(*read_occurrences("text.parquet", "new.parquet"))
    assert measure_change("text.parquet", Path("new.parquet")) == expected
    [bank] = measure_change("text.hdf5", "new.hdf5", words=["bank"], layers="top")
    assert bank.word == "bank"
    old, new = read_occurrences("text.hdf5", "new.hdf5", ["bank"], "top")
    assert [bank] == measure_change(old, new)
    with pytest.raises(SettingsError, match=r"^words: requires the paths of two"):
        measure_change(old, new, words=["bank"])
    with pytest.raises(InputError, match=r"^new: expected vectors from read_occ"):
        measure_change(old, "new.hdf5")


@pytest.mark.parametrize(
    ("tokenizer", "forms"), [("moses", ["'s", "'s"]), ("whitespace", ["’s"])]
)
def test_typographic_target_words_are_found_in_either_form(
    tokenizer: str, forms: list[str]
) -> None:
    Path("words.txt").write_text("’s\n", encoding="utf-8")
    Path("raw.txt").write_text("It’s the bank's .\nthe ’s\n", encoding="utf-8")
    command = f"occurrences raw.txt u.parquet --words words.txt --tokenizer {tokenizer}"
    result = elmo(*command.split(), "--model", TINY)
    assert f"’s: {len(forms)} occurrence" in result.stderr
    rows = read_rows("u.parquet")
    assert [row["form"] for row in rows] == forms
    assert {row["word"] for row in rows} == {"’s"}


def test_the_command_prints_the_number_of_occurrences() -> None:
    command = "occurrences text.txt u.parquet --words targets.txt --model"
    result = elmo(*command.split(), TINY)
    assert result.exit_code == 0
    assert result.stderr == (
        "bank: 5 occurrences\n"
        "see: 1 occurrence\n"
        "Warning: no occurrence of fish\n"
        "Wrote u.parquet: 6 occurrences in 7 lines\n"
    )
    assert "vector" in read_rows("u.parquet")[0]


def test_the_command_reads_standard_input() -> None:
    command = "occurrences - u.parquet --words targets.txt --model"
    elmo(*command.split(), TINY, stdin=TEXT)
    assert [row["line"] for row in read_rows("u.parquet")] == [1, 4, 4, 5, 6, 7]


@pytest.mark.parametrize("output", ["u.npz", "u.npy", "u.jsonl", "u.csv"])
def test_other_formats_are_refused(output: str) -> None:
    expected = (
        f"{output}: target words are written as Parquet or HDF5. "
        "Name a file with .parquet or .hdf5."
    )
    with pytest.raises(SettingsError) as error:
        write_occurrences(ElmoEmbedder(model=TINY), "text.txt", output, WORDS)
    assert str(error.value) == expected


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("u.npz", "npz"),
        ("u.npy", "npy"),
        ("u.jsonl", "JSON lines"),
        ("u.jsonl.gz", "JSON lines"),
    ],
)
def test_files_of_other_formats_are_refused_by_name(name: str, found: str) -> None:
    with pytest.raises(InputError, match=r"^u\.[a-z.]+: no such file"):
        open_occurrences(name)
    Path(name).touch()
    with pytest.raises(InputError) as error:
        open_occurrences(name)
    assert str(error.value) == (
        f"{name}: expected HDF5, or Parquet from `elmo occurrences`, found {found}. "
        "Write it with `elmo embed INPUT u.hdf5`."
    )


def test_matrices_of_another_program_can_be_converted() -> None:
    pytest.importorskip("pandas")
    old = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.savez("other.npz", bank=old, river=old[:1])
    page = (DOCS / "change.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"```python\n(import numpy\n.*?)```", page, re.DOTALL)
    exec(recipe, {})
    with open_occurrences("other.parquet") as files:
        found = find_occurrences(files)
    assert_allclose([each.vector for each in found["bank"]], old)
    assert_allclose([each.vector for each in found["river"]], old[:1])
    assert [each.location.number for each in found["bank"]] == [1, 2, 3]


@pytest.mark.parametrize("name", ["top.parquet", "all.hdf5"])
def test_files_of_an_earlier_version_are_read(name: str) -> None:
    expected = {"bank": [(1, 1), (3, 0), (3, 3)], "see": [(4, 1)]}
    assert_found(str(EARLIER / name), expected)
    layers = "2" if name.endswith(".hdf5") else None
    with open_occurrences(EARLIER / name) as files:
        found = find_occurrences(files, layers=layers)
    assert found.keys() == {"bank", "see", "fish"}
    values = ElmoEmbedder(model=TINY).embed_sentence(["banks", "and", "a", "bank"])
    assert_allclose(found["bank"][1].vector, values[2, 0], atol=2e-6)
    assert_allclose(found["bank"][2].vector, values[2, 3], atol=2e-6)


def test_lemmas_of_an_earlier_version_are_read() -> None:
    assert_found(
        str(EARLIER / "lemma.parquet"),
        {"mouse": [(1, 1)], "see": [(1, 2)], "saw": [(2, 1)]},
    )


@each_example(__file__)
def test_an_error_has_this_text(
    example: Example,
    check_example: CheckExample,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ELMO_MODEL", str(TINY))
    check_example(example)


# Annotated places

USES = [
    {"id": "u1", "text": "The bank is a bank .", "indexes_target_token": "14:18"},
    {"id": "u2", "text": "Bankers lent .", "indexes_target_token": "0:7"},
    {"id": "u3", "text": "My bank-book .", "indexes_target_token": "3:7"},
    {"id": "u4", "text": "A bank and a bank .", "indexes_target_token": ""},
    {"id": "u5", "text": "Two big banks .", "indexes_target_token": "4:13"},
]


@pytest.mark.parametrize("name", ["uses.tsv", "uses.jsonl", "uses.parquet"])
def test_the_annotated_words_of_a_table_are_its_occurrences(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    write_table(name, USES)
    embedder = ElmoEmbedder(model=TINY)
    words = {"bank": "bank", "banks": "bank"}
    counts, _ = write_occurrences(
        embedder,
        name,
        "u.parquet",
        words,
        text_settings=TextSettings(tokenizer="whitespace"),
    )
    assert counts == {"bank": 6}
    rows = read_rows("u.parquet")
    assert [(row["id"], row["word"], row["form"], row["position"]) for row in rows] == [
        ("u1", "bank", "bank", 4),
        ("u2", "bank", "Bankers", 0),
        ("u3", "bank", "bank-book", 1),
        ("u4", "bank", "bank", 1),
        ("u4", "bank", "bank", 4),
        ("u5", "bank", "big", 1),
    ]
    vectors = embedder.embed_sentence(["Two", "big", "banks", "."])[-1]
    assert_allclose(rows[5]["vector"], vectors[1:3].mean(axis=0), atol=1e-6)
    [warning] = [
        record.getMessage()
        for record in caplog.records
        if "annotated" in record.getMessage()
    ]
    assert warning.startswith("2 annotated words are not one whole token.")
    assert warning.endswith("'bank-book'")


@pytest.mark.parametrize(
    ("place", "warns"),
    [
        ({"start": "14", "end": "18"}, False),
        ({"start": "14.0", "end": "18.0"}, False),
        ({"start": "0", "end": "3"}, True),
        ({"start": "1.25", "end": "2.5"}, False),
        ({"start": "", "end": ""}, False),
        ({"indexes_target_token": ""}, False),
    ],
)
def test_a_place_without_a_target_word_is_searched_for_words(
    place: dict[str, str], warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    write_table("u.csv", [{"text": "The bank is a bank .", **place}])
    embedder = ElmoEmbedder(model=TINY)
    counts, _ = write_occurrences(embedder, "u.csv", "u.hdf5", {"bank": "bank"})
    is_used = place.get("start", "").startswith("14")
    assert counts == {"bank": 1 if is_used else 2}
    shown = "1 annotated place without a target word, so the words of these rows were s"
    assert (shown in caplog.text) == warns


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ({"start": 14, "end": None}, "a 'start', but no 'end'. Add the end, or remove"),
        ({"start": "", "end": 18}, "an 'end', but no 'start'. Add the start, or remo"),
        ({"spans": [{"start": 14}]}, "a 'start', but no 'end'. Add the end, or remov"),
        ({"ents": [{"end": 0}]}, "an 'end', but no 'start'. Add the start, or remove"),
        ({"start": None, "end": None}, None),
        ({"spans": [{"label": "MONEY"}]}, None),
        # Times
        ({"start": 14}, None),
        ({"start": 1.5, "end": ""}, None),
    ],
)
def test_a_start_without_an_end_is_an_error(
    place: dict[str, Any], problem: str | None
) -> None:
    text = "The bank is a bank ."
    write_table("u.jsonl", [{"text": text}, {"text": text, **place}])
    embedder = ElmoEmbedder(model=TINY)
    if problem is None:
        counts, _ = write_occurrences(embedder, "u.jsonl", "u.hdf5", {"bank": "bank"})
        assert counts == {"bank": 4}
        return
    message = f"^u.jsonl, line 2: field 'text': the word has {problem}"
    with pytest.raises(InputError, match=message):
        write_occurrences(embedder, "u.jsonl", "u.hdf5", {"bank": "bank"})


def test_an_empty_cell_of_an_end_is_an_error() -> None:
    write_table("u.csv", [{"text": "A bank .", "start": "2", "end": ""}])
    message = "^u.csv, line 2: field 'text': the word has a 'start', but no 'end'"
    with pytest.raises(InputError, match=message):
        write_occurrences(ElmoEmbedder(model=TINY), "u.csv", "u.hdf5", ["bank"])


@pytest.mark.parametrize("indexes", ["90:95", "bank", "5:3", "3:4"])
def test_a_use_without_its_word_is_left_out(
    indexes: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = "The bank is a bank ."
    use = {"text": text, "indexes_target_token": indexes}
    write_table("u.csv", [use])
    embedder = ElmoEmbedder(model=TINY)
    shown = "1 annotated place without a target word, so these rows were left out"
    with pytest.raises(InputError, match=f"no target word occurs. {shown}"):
        write_occurrences(embedder, "u.csv", "u.hdf5", {"bank": "bank"})
    write_table("u.csv", [use, {**use, "indexes_target_token": "4:8"}])
    counts, _ = write_occurrences(embedder, "u.csv", "u.hdf5", {"bank": "bank"})
    assert counts == {"bank": 1}
    assert shown in caplog.text


PRODIGY: dict[str, Any] = {
    "text": "The right-wing bank, he said, is a bank.",
    "tokens": [
        {"text": text, "start": start, "end": start + len(text), "id": number}
        for number, (start, text) in enumerate(
            [
                (0, "The"),
                (4, "right-wing"),
                (15, "bank"),
                (19, ","),
                (21, "he"),
                (24, "said"),
                (28, ","),
                (30, "is"),
                (33, "a"),
                (35, "bank"),
                (39, "."),
            ]
        )
    ],
    "spans": [
        {"start": 35, "end": 39, "label": "MONEY", "token_start": 9},
        {"start": 10, "end": 14, "label": "PART"},
        {"start": 21, "end": 28, "label": "OTHER"},
    ],
}
"""Record of Prodigy, whose text has other characters than its tokens with spaces."""


def record_of_spacy() -> dict[str, Any]:
    """Return the same record as spaCy's `Doc.to_json` has it."""
    tokens = [
        {name: token[name] for name in ("id", "start", "end")}
        for token in PRODIGY["tokens"]
    ]
    return {"text": PRODIGY["text"], "tokens": tokens, "ents": PRODIGY["spans"]}


@pytest.mark.parametrize("name", ["spans.jsonl", "spans.json", "spans.parquet"])
@pytest.mark.parametrize("kind", ["prodigy", "spacy", "text"])
def test_the_spans_of_prodigy_and_spacy_are_occurrences(
    kind: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    records = {
        "prodigy": PRODIGY,
        "spacy": record_of_spacy(),
        "text": {"text": PRODIGY["text"], "spans": PRODIGY["spans"]},
    }
    write_table(name, [records[kind], {**records[kind], "spans": [], "ents": []}])
    embedder = ElmoEmbedder(model=TINY)
    words = {"bank": "bank", "wing": "wing"}
    counts, _ = write_occurrences(
        embedder,
        name,
        "u.parquet",
        words,
        text_settings=TextSettings(tokenizer="moses"),
    )
    assert counts == {"bank": 3, "wing": 1}
    rows = read_rows("u.parquet")
    assert [(row["word"], row["form"], row["position"]) for row in rows] == [
        ("wing", "right-wing", 1),
        ("bank", "bank", 9),
        # The record without spans is searched for the words.
        ("bank", "bank", 2),
        ("bank", "bank", 9),
    ]
    tokens = [token["text"] for token in PRODIGY["tokens"]]
    vectors = embedder.embed_sentence(tokens)[-1]
    assert_allclose(rows[0]["vector"], vectors[1], atol=1e-6)
    assert_allclose(rows[1]["vector"], vectors[9], atol=1e-6)
    [warning] = [each for each in caplog.messages if "annotated" in each]
    unit = {"jsonl": "line", "json": "record", "parquet": "row"}[name.split(".")[1]]
    assert warning == (
        "1 annotated word is not one whole token. The vector is the mean of all tokens "
        f"that the characters overlap. The first is {unit} 1: 'right-wing'"
    )


def test_tokens_of_another_text_are_an_error_with_the_line() -> None:
    record = {**PRODIGY, "text": "Another text with a bank."}
    write_table("spans.jsonl", [PRODIGY, record])
    message = r"^spans.jsonl, line 2: field 'tokens': the tokens are not those of the "
    with pytest.raises(InputError, match=message):
        write_occurrences(
            ElmoEmbedder(model=TINY), "spans.jsonl", "u.parquet", {"bank": "bank"}
        )


def test_places_of_several_words_of_hdf5_are_read_back() -> None:
    write_table("spans.jsonl", [PRODIGY])
    words = {"bank": "bank", "wing": "wing"}
    write_occurrences(ElmoEmbedder(model=TINY), "spans.jsonl", "u.hdf5", words)
    with open_activations("u.hdf5") as activations:
        [(record, values)] = activations.records()
    assert record.attributes["positions"] == "1,9"
    assert values.shape == (2, 32)


def test_times_of_words_are_no_places() -> None:
    rows = [
        {"id": "a", "word": word, "start": 10 * number, "end": 10 * number + 5}
        for number, word in enumerate(["The", "bank", "is", "a", "bank"])
    ]
    write_table("words.csv", rows)
    settings = TextSettings(word_column="word", id_column="id")
    counts, _ = write_occurrences(
        ElmoEmbedder(model=TINY),
        "words.csv",
        "u.hdf5",
        {"bank": "bank"},
        text_settings=settings,
    )
    assert counts == {"bank": 2}


def test_the_position_of_dwug_chooses_a_token_of_its_tokenized_text() -> None:
    text = "The plane's wing is a plane."
    use = {
        "context": text,
        "indexes_target_token": "22:27",
        "context_tokenized": "The plane 's wing is a plane .",
        "indexes_target_token_tokenized": "6",
        "context_lemmatized": "the plane 's wing be a plane .",
    }
    outside = {**use, "indexes_target_token": "", "indexes_target_token_tokenized": "9"}
    write_table("uses.tsv", [use, {**outside, "context": "A plane."}])
    embedder = ElmoEmbedder(model=TINY)
    for column, n_searched in (
        ("context", 1),
        ("context_tokenized", 0),
        ("context_lemmatized", 0),
    ):
        settings = TextSettings(text_column=column)
        counts, _ = write_occurrences(
            embedder,
            "uses.tsv",
            "u.parquet",
            {"plane": "plane"},
            text_settings=settings,
            overwrite=True,
        )
        # The second use has no characters, and its position is outside the text.
        assert counts == {"plane": 1 + n_searched}
        assert read_rows("u.parquet")[0]["position"] == 6


@pytest.mark.parametrize("name", ["uses.tsv", "uses.jsonl", "uses.parquet"])
def test_the_lemma_of_dwug_chooses_among_target_words(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = "A plane lands , he planes it ."
    place = {"text": text, "indexes_target_token": "19:25"}
    write_table(
        name,
        [
            {**place, "lemma": "plane_vb"},
            {**place, "lemma": "plane_nn"},
            {**place, "lemma": "other"},
            {"text": text, "indexes_target_token": "8:13", "lemma": "plane_nn"},
            {"text": text, "indexes_target_token": "8:13", "lemma": "other"},
        ],
    )
    words = {"plane": "plane_nn", "planes": "plane_nn", "planed": "plane_vb"}
    words |= {"plane_nn": "plane_nn", "plane_vb": "plane_vb"}
    write_occurrences(ElmoEmbedder(model=TINY), name, "u.parquet", words)
    rows = read_rows("u.parquet")
    assert [(row["line"], row["word"], row["form"]) for row in rows] == [
        (1, "plane_vb", "planes"),
        (2, "plane_nn", "planes"),
        (3, "plane_nn", "planes"),
        (4, "plane_nn", "lands"),
    ]
    # The annotated word of the last use is none of the target words.
    warning = (
        "1 annotated place without a target word, so these rows were left out. The"
    )
    first = {"tsv": "line 6", "jsonl": "line 5", "parquet": "row 5"}[name.split(".")[1]]
    assert f"{warning} first is {first}: 'lands'. Add the form to w" in caplog.text


@pytest.mark.parametrize("name", ["u.parquet", "u.hdf5"])
def test_change_compares_what_was_annotated(name: str) -> None:
    uses = [
        {"text": f"{form} sat by the bank .", "indexes_target_token": f"0:{len(form)}"}
        for form in ("Bank", "Banks", "Banking", "bank", "Banque")
    ]
    write_table("uses.csv", uses)
    words = {"bank": "bank", "banks": "bank"}
    counts, _ = write_occurrences(ElmoEmbedder(model=TINY), "uses.csv", name, words)
    assert counts == {"bank": 5}
    for chosen in (None, words, {"bank": "bank"}):
        for ignore_case in (False, True):
            old, new = read_occurrences(name, name, chosen, ignore_case=ignore_case)
            assert old["bank"].shape == new["bank"].shape == (5, 32)


def test_sentences_of_a_use_are_computed_one_by_one() -> None:
    pytest.importorskip("sentencex")
    text = "We left. The bank lent. A bank."
    write_table("uses.csv", [{"text": text, "start": 26, "end": 30}])
    embedder = ElmoEmbedder(model=TINY)
    settings = TextSettings(tokenizer="moses", split_sentences=True)
    write_occurrences(
        embedder, "uses.csv", "u.parquet", {"bank": "bank"}, text_settings=settings
    )
    [row] = read_rows("u.parquet")
    assert row["position"] == 8
    vectors = embedder.embed_sentence(["A", "bank", "."])[-1]
    assert_allclose(row["vector"], vectors[1], atol=1e-6)
