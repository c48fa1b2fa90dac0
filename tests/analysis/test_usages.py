"""`elmo usages`: the occurrences of target words, in every form that holds them."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from commands import LOADED, TINY, assert_fails, assert_misused, elmo, without_size
from layouts import layouts
from numpy.testing import assert_allclose, assert_array_equal
from runs import assert_same_file, embed, limit_memory, stop_after

from elmo_cli import (
    ElmoEmbedder,
    ElmoError,
    open_activations,
    open_occurrences,
    write_occurrences,
)
from elmo_cli.analysis.change import read_occurrences
from elmo_cli.analysis.occurrences import find_occurrences
from elmo_cli.analysis.usages import Usages, embed_usages, plan_usages
from elmo_cli.engine import Engine
from elmo_cli.errors import StoppedError
from elmo_cli.outputs.output_formats import OutputSettings
from elmo_cli.settings import Selection, TextSettings
from elmo_cli.text.input_formats import open_input

TEXT = "The bank lent\nno word\n\nbanks and a bank\nThe bank lent\nit saw\nthe end of banks\n"
WORDS = {"bank": "bank", "banks": "bank", "saw": "see", "fish": "fish"}
POSITIONS = [[1], [], [], [0, 3], [1], [1], [3]]
COUNTS = {"bank": 5, "see": 1, "fish": 0}
FORMATS = pytest.mark.parametrize("name", ["u.hdf5", "u.npz", "u.parquet", "u.jsonl"])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT)
    Path("targets.txt").write_text("bank,banks\nsee,saw\nfish\n")


def usages(
    source: str,
    output: str,
    words: dict[str, str] = WORDS,
    *,
    layers: str = "all",
    should_stop: Callable[[], bool] = lambda: False,
    text: TextSettings | None = None,
    match: str = "form",
    ignore_case: bool = False,
    **written: Any,
) -> Usages:
    """Write the occurrences with small windows, and checkpoints between them."""
    embedder = ElmoEmbedder(model=TINY, batch_tokens=8)
    opened = open_input(source, text or TextSettings())
    plan = plan_usages(opened, output, Selection(layers), OutputSettings(**written), match=match)
    matching: Any = {"match": match, "ignore_case": ignore_case}
    with patch("elmo_cli.embed_file.checkpoint_tokens", return_value=4):
        return embed_usages(embedder.engine, plan, words, should_stop=should_stop, **matching)


def rows_of(path: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    if path.endswith(".jsonl"):
        return [json.loads(line) for line in Path(path).read_text().splitlines()]
    parquet = pytest.importorskip("pyarrow.parquet")
    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


@layouts
def test_hdf5_has_the_vectors_with_line_and_position(layout: str) -> None:
    embed("text.txt", "all.hdf5", layout=layout)
    result = usages("text.txt", "usages.hdf5", layout=layout)
    assert (result.counts, result.summary.n_sentences) == (COUNTS, 7)
    with open_activations("all.hdf5") as everything, open_activations("usages.hdf5") as file:
        assert len(file) == 7
        for (record, values), whole, positions, line in zip(
            file.records(), everything, POSITIONS, TEXT.splitlines(), strict=True
        ):
            assert_allclose(values, whole[:, positions], atol=2e-6)
            assert record.tokens == (line.split() if positions else [])
            assert record.attributes.get("positions", "") == ",".join(map(str, positions))
        # Both files have equal occurrences, also for lines that occur twice.
        one, other = find_occurrences(file), find_occurrences(everything, WORDS)
        assert [each.location.number for each in one["bank"]] == [1, 4, 4, 5, 7]
        assert one["bank"][0].marked == "The [bank] lent"
        assert one.keys() == {"bank", "see", "fish"}
        last = {(each.location, each.index): each.vector for each in other["bank"]}
        for each in one["bank"]:
            if each.location.number > 1 or layout == "packed":
                location = each.location._replace(path=Path("all.hdf5"))
                assert_allclose(each.vector, last[location, each.index], atol=2e-6)


@pytest.mark.parametrize("name", ["u.parquet", "u.jsonl"])
def test_a_table_has_one_row_per_occurrence(name: str) -> None:
    embed("text.txt", "all.hdf5", output_format="top", layout="packed")
    write_occurrences(ElmoEmbedder(model=TINY), "text.txt", name, WORDS)
    with open_activations("all.hdf5") as file:
        vectors = [file[line][i] for line, row in enumerate(POSITIONS) for i in row]
    rows = rows_of(name)
    lines = TEXT.splitlines()
    expected = [
        {
            "word": WORDS[lines[line].split()[position]],
            "form": lines[line].split()[position],
            "line": line + 1,
            "id": None,
            "position": position,
            "sentence": lines[line],
        }
        for line, positions in enumerate(POSITIONS)
        for position in positions
    ]
    assert [{k: v for k, v in row.items() if k != "vector"} for row in rows] == expected
    assert_allclose([row["vector"] for row in rows], vectors, atol=2e-6)


@pytest.mark.parametrize("name", ["u.parquet", "u.jsonl"])
def test_a_table_has_one_column_per_layer(name: str) -> None:
    usages("text.txt", name)
    usages("text.txt", "2.jsonl", layers="2,0")
    usages("text.txt", "top.jsonl", layers="top")
    rows, pairs, tops = rows_of(name), rows_of("2.jsonl"), rows_of("top.jsonl")
    assert [k for k in rows[0] if "_" in k] == ["layer_0", "layer_1", "layer_2"]
    assert [k for k in pairs[0] if "_" in k] == ["layer_2", "layer_0"]
    for row, pair, top in zip(rows, pairs, tops, strict=True):
        assert_allclose(row["layer_2"], top["vector"], atol=1e-6)
        assert_allclose(row["layer_0"], pair["layer_0"], atol=1e-6)
    with open_occurrences(name) as file, open_occurrences("2.jsonl") as pair_file:
        (mean, *_), (second, *_) = file.read(), pair_file.read("2")
    assert_allclose(mean.vectors[0], np.mean([rows[0]["layer_1"], tops[0]["vector"]], axis=0))
    assert_allclose(second.vectors[0], tops[0]["vector"], atol=1e-6)


@pytest.mark.parametrize("name", ["u.parquet", "u.jsonl"])
def test_a_table_has_the_ids_and_tokens_of_the_input(name: str) -> None:
    Path("t.jsonl").write_text('{"id": "a", "tokens": ["a bank", "bank"]}\n')
    usages("t.jsonl", name)
    (row,) = rows_of(name)
    assert (row["id"], row["position"], row["tokens"]) == ("a", 1, ["a bank", "bank"])
    with open_occurrences(name) as file:
        (embedded,) = find_occurrences(file)["bank"]
    assert (embedded.location.name, embedded.sentence) == ("a", ["a bank", "bank"])


def test_lines_and_split_sentences_count_from_one() -> None:
    Path("raw.txt").write_text("No word.\nA bank. The bank lent.\n")
    text = TextSettings(tokenizer="moses", split_sentences=True)
    usages("raw.txt", "u.jsonl", text=text)
    rows = rows_of("u.jsonl")
    assert [(row["line"], row["sentence_number"]) for row in rows] == [(2, 2), (2, 3)]
    assert rows[0]["tokens"] == ["A", "bank", "."]


def test_other_programs_read_the_parquet_table() -> None:
    usages("text.txt", "u.parquet", layers="top")
    expected = [row["vector"] for row in rows_of("u.parquet")]
    polars = pytest.importorskip("polars")
    frame = polars.read_parquet("u.parquet")
    assert frame.schema["vector"] == polars.Array(polars.Float32, 32)
    assert_array_equal(frame["vector"].to_numpy(), expected)
    pandas = pytest.importorskip("pandas")
    assert_array_equal(np.stack(pandas.read_parquet("u.parquet")["vector"]), expected)
    duckdb = pytest.importorskip("duckdb")
    cosine = "array_cosine_similarity(vector::FLOAT[32], vector::FLOAT[32])"
    cosines = duckdb.sql(f"SELECT {cosine} FROM 'u.parquet' WHERE word = 'bank'").fetchall()
    assert_allclose(cosines, np.ones((5, 1)), atol=1e-6)


def test_a_table_rewritten_by_another_program_is_read() -> None:
    polars = pytest.importorskip("polars")
    usages("text.txt", "u.parquet", layers="top")
    polars.read_parquet("u.parquet").write_parquet("polars.parquet")
    pandas = pytest.importorskip("pandas")
    pandas.read_parquet("u.parquet").to_parquet("pandas.parquet")
    with open_occurrences("u.parquet", "polars.parquet", "pandas.parquet") as files:
        vectors = [each.vector for each in find_occurrences(files)["bank"]]
    assert_array_equal(vectors[:5], vectors[5:10])
    assert_array_equal(vectors[:5], vectors[10:])


@pytest.mark.parametrize(("layers", "n_axes"), [("top", 2), ("all", 3)])
def test_npz_has_one_matrix_per_word(layers: str, n_axes: int) -> None:
    usages("text.txt", "usages.npz", layers=layers)
    embed("text.txt", "all.hdf5", output_format=layers, layout="packed")
    with np.load("usages.npz") as arrays, open_activations("all.hdf5") as everything:
        assert list(arrays) == ["bank", "see", "fish"]
        rows = [
            np.swapaxes(values, 0, -2)[positions]
            for values, positions in zip(everything, POSITIONS, strict=True)
        ]
        assert arrays["bank"].ndim == n_axes
        assert_allclose(arrays["bank"], np.concatenate([*rows[:5], rows[6]]), atol=2e-6)
        assert_allclose(arrays["see"], rows[5], atol=2e-6)
        assert arrays["fish"].shape == (0, *arrays["bank"].shape[1:])


@FORMATS
def test_equal_runs_write_equal_bytes(name: str) -> None:
    usages("text.txt", name, layers="top")
    first = Path(name).read_bytes()
    usages("text.txt", name, layers="top", overwrite=True)
    assert Path(name).read_bytes() == first


def test_only_sentences_with_a_word_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    compute, computed = Engine.embed_window, list[list[str]]()

    def noted(self: Engine, window: list[list[str]], *rest: Any, **options: Any) -> Any:
        computed.extend(filter(None, window))
        return compute(self, window, *rest, **options)

    monkeypatch.setattr(Engine, "embed_window", noted)
    write_occurrences(ElmoEmbedder(model=TINY), "text.txt", "usages.hdf5", WORDS)
    lines = [line.split() for line in TEXT.splitlines()]
    assert computed == [line for line, at in zip(lines, POSITIONS, strict=True) if at]


@layouts
def test_a_stopped_run_resumes_with_all_counts(layout: str) -> None:
    Path("long.txt").write_text(TEXT * 5)
    counts = {word: 5 * count for word, count in COUNTS.items()}
    assert usages("long.txt", "whole.hdf5", layout=layout).counts == counts
    for n_windows in (3, 2, 1):
        with pytest.raises(StoppedError, match="Stopped after line "):
            usages("long.txt", "u.hdf5", layout=layout, should_stop=stop_after(n_windows))
    resumed = usages("long.txt", "u.hdf5", layout=layout)
    assert resumed.summary.resumed_from > 0
    assert resumed.counts == counts
    assert_same_file("u.hdf5", "whole.hdf5")
    again = usages("long.txt", "u.hdf5", layout=layout)
    assert (again.summary.was_complete, again.counts) == (True, counts)


def test_overwriting_the_run_of_another_text_counts_once() -> None:
    Path("long.txt").write_text(TEXT * 5)
    with pytest.raises(StoppedError):
        usages("long.txt", "u.hdf5", should_stop=stop_after(3))
    Path("long.txt").write_text("a bank\n" + TEXT)
    result = usages("long.txt", "u.hdf5", overwrite=True)
    assert result.counts == COUNTS | {"bank": 6}


def test_a_file_of_other_words_is_refused() -> None:
    usages("text.txt", "usages.hdf5")
    with pytest.raises(ElmoError, match=r"differs in words \("):
        usages("text.txt", "usages.hdf5", {"bank": "bank"})
    with pytest.raises(ElmoError, match=r"differs in match \(none, not form, ignore case\)"):
        usages("text.txt", "usages.hdf5", ignore_case=True)


# Case and lemmas

CASES = "The Bank lent\nBANKS and a bank\nhe Saw\n"
LEMMAS = "1\tThe\tthe\n2\tmice\tmouse\n3\tsaw\tsee\n\n1\tA\ta\n2\tsaw\tsaw\n3\tMice\tMouse\n"
ANIMALS = {"mouse": "mouse", "see": "see", "saw": "saw"}


def found_in(name: str) -> dict[str, list[tuple[int, int]]]:
    """Return the line and position of each occurrence; in npz, which has none, their number."""
    with open_occurrences(name) as files:
        found = find_occurrences(files)
    if name.endswith("npz"):
        return {word: [(len(found[word]), 0)] for word in found}
    return {word: [(e.location.number, e.index) for e in found[word]] for word in found}


@FORMATS
def test_words_are_found_in_every_case(name: str) -> None:
    Path("cases.txt").write_text(CASES)
    result = usages("cases.txt", name, layers="top", ignore_case=True)
    assert result.counts == {"bank": 3, "see": 1, "fish": 0}
    expected = {"bank": [(1, 1), (2, 0), (2, 3)], "see": [(3, 1)]}
    if name.endswith("npz"):
        assert found_in(name) == {"bank": [(3, 0)], "see": [(1, 0)], "fish": [(0, 0)]}
    else:
        assert {word: at for word, at in found_in(name).items() if at} == expected


@FORMATS
def test_lemmas_are_found_in_conllu(name: str) -> None:
    Path("t.conllu").write_text(LEMMAS)
    result = usages("t.conllu", name, ANIMALS, layers="top", match="lemma")
    assert result.counts == {"mouse": 1, "see": 1, "saw": 1}
    # One form may have two lemmas.
    at = {"mouse": [(1, 1)], "see": [(1, 2)], "saw": [(2, 1)]}
    assert found_in(name) == ({word: [(1, 0)] for word in at} if name.endswith("npz") else at)
    with open_occurrences(name) as files:
        vectors = {word: found[0].vector for word, found in find_occurrences(files).items()}
    top = list(ElmoEmbedder(model=TINY).embed_sentences([["The", "mice", "saw"]], layers="top"))
    assert_allclose([vectors["mouse"], vectors["see"]], top[0][1:], atol=2e-6)
    both = usages("t.conllu", name, ANIMALS, match="lemma", ignore_case=True, overwrite=True)
    assert both.counts == {"mouse": 2, "see": 1, "saw": 1}


@pytest.mark.parametrize("name", ["u.hdf5", "u.parquet"])
def test_words_of_lemmas_are_compared(name: str) -> None:
    Path("t.conllu").write_text(LEMMAS)
    usages("t.conllu", name, ANIMALS, layers="top", match="lemma")
    with open_occurrences(name) as files:
        found = find_occurrences(files, {"mouse": "mouse"})
    assert [each.token for each in found["mouse"]] == ["mice"]


def test_change_requires_the_match_of_both_files() -> None:
    Path("t.conllu").write_text("\n".join([LEMMAS] * 3))
    Path("animals.txt").write_text("\n".join(ANIMALS))
    for name, match in (("a.hdf5", "lemma"), ("b.parquet", "lemma"), ("form.hdf5", "form")):
        command = ("usages", "t.conllu", name, "--words", "animals.txt", "--model", TINY)
        elmo(*command, "--match", match)
    changes = elmo("change", "a.hdf5", "b.parquet", "--match", "lemma")
    assert [line.split("\t")[0] for line in changes.stdout.splitlines()[1:]].count("mouse") == 1
    problem = "not made with --match lemma, or without a record of it"
    remedy = (
        "Make each of the files with `elmo usages TEXT OUT --words FILE --match lemma`, where OUT "
        "is HDF5 or Parquet."
    )
    result = elmo("change", "a.hdf5", "form.hdf5", "--match", "lemma")
    assert_misused(result, f"form.hdf5: {problem}. {remedy}")
    result = elmo("change", "form.hdf5", "form.hdf5", "--match", "lemma")
    assert_misused(result, f"form.hdf5 and form.hdf5: {problem}. {remedy}")
    with pytest.raises(ElmoError, match=r"^a\.hdf5: not made with --match form, or "):
        read_occurrences("a.hdf5", "form.hdf5", match="form")


def test_a_warning_counts_the_words_in_another_case() -> None:
    Path("cases.txt").write_text(CASES)
    command = ("usages", "cases.txt", "u.jsonl", "--words", "targets.txt", "--model", TINY)
    warning = "3 occurrences in another case, such as 'Bank', are not counted. Use --ignore-case."
    assert f"\nWarning: {warning}\nbank: 1 occurrence\n" in elmo(*command).stderr
    result = elmo(*command, "--ignore-case", "--overwrite")
    assert "another case" not in result.stderr
    assert "\nbank: 3 occurrences\nsee: 1 occurrence\n" in result.stderr
    Path("targets.txt").write_text("LENT\n")
    assert_fails(
        elmo(*command, "--overwrite"),
        "cases.txt: no target word occurs. 1 occurrence in another case, such as "
        "'lent', is not counted. Use --ignore-case.",
        loads=True,
    )


def test_two_words_in_other_cases_contradict() -> None:
    with pytest.raises(ElmoError) as error:
        usages("text.txt", "u.npz", {"Polish": "Polish", "polish": "polish"}, ignore_case=True)
    assert str(error.value) == (
        "--ignore-case: 'Polish' is a form of 'Polish' and of 'polish'. Remove one of them."
    )


@FORMATS
def test_a_sentence_beyond_memory_is_skipped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("long.txt").write_text("bank " * 30 + "\na bank\n")
    limit_memory(monkeypatch, 20)
    usages("long.txt", name, layers="top", text=TextSettings(skip_errors=True))
    with open_occurrences(name) as file:
        assert len(find_occurrences(file)["bank"]) == 1


@FORMATS
def test_change_is_the_same_from_all_formats(name: str) -> None:
    Path("new.txt").write_text(TEXT.replace("bank", "big bank"))
    model = ("--model", TINY, "--layers", "top", "-q")
    words = ("--words", "targets.txt")
    for text in ("text", "new"):
        assert elmo("usages", f"{text}.txt", f"{text}.{name}", *words, *model).exit_code == 0
        elmo("embed", f"{text}.txt", f"{text}.all.hdf5", "--layout", "packed", *model)
    answers = [
        elmo("change", f"text.{form}", f"new.{form}", *more, "--json")
        for form, more in ((name, ()), ("all.hdf5", words))
    ]
    changes = [json.loads(answer.stdout) for answer in answers]
    assert {(each["word"], each["n_old"], each["n_new"]) for each in changes} == {("bank", 5, 5)}
    assert_allclose([each["change"] for each in changes], changes[0]["change"], rtol=1e-5)


@pytest.mark.parametrize("tokenizer", ["whitespace", "moses"])
def test_the_tokens_of_any_tokenizer_are_searched(tokenizer: str) -> None:
    Path("raw.txt").write_text("We saw the bank.\n")
    write_occurrences(
        ElmoEmbedder(model=TINY), "raw.txt", "usages.hdf5", WORDS, tokenizer=tokenizer
    )
    with open_activations("usages.hdf5") as file:
        ((record, values),) = file.records()
    assert record.attributes["positions"] == ("1" if tokenizer == "whitespace" else "1,3")
    assert len(values) == len(record.attributes["positions"].split(","))


def test_typographic_target_words_are_found_in_either_form() -> None:
    Path("words.txt").write_text("’s\n", encoding="utf-8")
    Path("raw.txt").write_text("It’s the bank's .\nthe ’s\n", encoding="utf-8")
    for name, tokenizer, forms in (("m", "moses", ["'s"] * 2), ("w", "whitespace", ["’s"])):
        more = ("--words", "words.txt", "--model", TINY, "--tokenizer", tokenizer)
        result = elmo("usages", "raw.txt", f"{name}.jsonl", *more)
        assert f"’s: {len(forms)} occurrence" in result.stderr
        rows = map(json.loads, Path(f"{name}.jsonl").read_text("utf-8").splitlines())
        assert [(row["word"], row["form"]) for row in rows] == [("’s", form) for form in forms]


def test_the_command_prints_the_number_of_occurrences() -> None:
    result = elmo("usages", "text.txt", "u.parquet", "--words", "targets.txt", "--model", TINY)
    assert result.exit_code == 0
    assert without_size(result.stderr) == (
        f"{LOADED}bank: 5 occurrences\nsee: 1 occurrence\nWarning: no occurrence of fish\n"
        "Wrote u.parquet: 6 occurrences in 7 lines\n"
    )
    assert "vector" in rows_of("u.parquet")[0]
    command = ("usages", "-", "-", "--words", "targets.txt", "--format", "jsonl", "--model", TINY)
    result = elmo(*command, "-q", stdin=TEXT)
    assert [json.loads(line)["line"] for line in result.stdout.splitlines()] == [1, 4, 4, 5, 6, 7]


@FORMATS
def test_words_that_never_occur_leave_no_output(name: str) -> None:
    Path("targets.txt").write_text("Fish,FISH\nzebra\n")
    Path(name).write_bytes(b"")
    for options in ((), ("--overwrite",)):
        if not options:
            Path(name).unlink()
        result = elmo(
            *("usages", "text.txt", name, "--words", "targets.txt", "--model", TINY), *options
        )
        assert_fails(
            result,
            "text.txt: no target word occurs. Check the words and the tokenizer.",
            loads=True,
        )
        assert not Path(name).exists()
        assert not Path(f"{name}.partial").exists()


def test_misuse_is_refused_before_a_model_is_loaded() -> None:
    command = ("usages", "text.txt", "out.hdf5", "--model", TINY, "--words", "targets.txt")
    assert_misused(
        elmo(*command, "--state", "carry"),
        "--state carry: sentences without a target word are not computed, so no state can be "
        "carried over. Choose --state zero or warm.",
    )
    assert_misused(elmo("usages", "text.txt", "out.hdf5"), "Missing option '--words'.")
    missing = elmo("usages", "text.txt", "out.hdf5", "--words", "no.txt")
    assert_fails(missing, "no.txt: cannot read the input: No such file or directory")
    npy = elmo("usages", "text.txt", "o.npy", "--words", "targets.txt", "--model", TINY)
    assert_misused(
        npy, "o.npy: npy cannot hold target words. Choose one of hdf5, npz, parquet, jsonl."
    )
    Path("p.fasta").write_text(">a\nMK\n")
    fasta = elmo("usages", "p.fasta", "o.npz", "--words", "targets.txt", "--model", TINY)
    assert_misused(fasta, "p.fasta: FASTA has no words. Choose another input.")
    assert_misused(
        elmo(*command, "--match", "lemma"), "--match lemma requires CoNLL-U, found text."
    )
    assert not Path("out.hdf5").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "", "a.jsonl: expected rows, found none"),
        ("a.jsonl", "[]\n", "a.jsonl, line 1: expected a JSON object, found "),
        ("a.jsonl", '{"word": 1}\n', "a.jsonl: expected the columns word, form, "),
        ("a.jsonl", '{"word": "a", "form": "a", "line": 1, "id": null, "position": 3, "sentence"'
         ': "a b", "vector": [1]}\n', "a.jsonl, row 1: the form 'a' is not the token at "),
        ("a.jsonl", '{"word": "a", "form": "a", "line": 1, "id": null, "position": 0, "sentence"'
         ': "a b", "vector": ["x"]}\n', "a.jsonl, line 1: invalid row: could not convert"),
        ("a.parquet", "text", "a.parquet: not a readable file of target words: "),
        ("a.npz", "text", "a.npz: not a readable file of target words: "),
    ],
)  # fmt: skip
def test_a_damaged_file_is_reported(name: str, content: str, message: str) -> None:
    Path(name).write_text(content)
    with pytest.raises(ElmoError) as error, open_occurrences(name) as files:
        list(files.read())
    assert str(error.value).startswith(message)


def test_csv_of_targets_is_a_file_of_targets() -> None:
    with open("t.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["bank", "banks"], ["fish"]])
    result = elmo("usages", "text.txt", "u.jsonl", "--words", "t.csv", "--model", TINY)
    assert "bank: 5 occurrences\n" in result.stderr
