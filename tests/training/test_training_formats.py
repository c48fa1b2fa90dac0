"""Training on every input format, and vocabularies that do not fit the text."""

import csv
import gzip
import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from commands import elmo
from runs import stop_after
from training_runs import assert_same_weights, train

from elmo_cli.errors import ModelError, StoppedError
from elmo_cli.model.vocabulary import read_vocabulary
from elmo_cli.text.records import TextSettings
from elmo_cli.text.tokenizers import make_tokenizer
from elmo_cli.training.corpus import TextProgress, TrainingText

SPECIAL = "<S>\n</S>\n<UNK>\n"


@pytest.fixture(autouse=True)
def texts(training_folder: None) -> None:
    lines = [line.split() for line in Path("text.txt").read_text().splitlines() if line]
    json_lines = [json.dumps({"id": number, "tokens": line}) for number, line in enumerate(lines)]
    conllu = ["\n".join(f"{n}\t{t}\t_" for n, t in enumerate(line, 1)) for line in lines]
    Path("text.jsonl").write_text("\n".join(json_lines))
    Path("text.conllu").write_text("\n\n".join(conllu) + "\n")
    Path("text.conllu.gz").write_bytes(gzip.compress(Path("text.conllu").read_bytes()))


def test_ids_of_records_are_ignored() -> None:
    lines = Path("text.jsonl").read_text().splitlines()
    rows = [{**json.loads(line), "id": "a/b"} for line in lines]
    Path("ids.jsonl").write_text("\n".join(map(json.dumps, rows)))
    expected = train("text", steps=2, files=("text.jsonl",))
    assert train("other", steps=2, files=("ids.jsonl",)) == expected


def write_table(name: str) -> None:
    """Write the lines of the text as a column, next to other texts, with equal ids."""
    rows = [(1, "x y", line) for line in Path("text.txt").read_text().splitlines()]
    if name.endswith(".parquet"):
        pyarrow = pytest.importorskip("pyarrow")
        table = pyarrow.table(
            dict(zip(("id", "text", "said"), zip(*rows, strict=True), strict=True))
        )
        __import__("pyarrow.parquet").parquet.write_table(table, name)
        return
    with open(name, "w", newline="") as file:
        csv.writer(file).writerows([("id", "text", "said"), *rows])


FORMATS = ["text.jsonl", "text.conllu", "text.conllu.gz", "table.csv", "table.parquet"]


@pytest.mark.parametrize("name", FORMATS)
def test_formats_resume_to_the_weights_of_equal_text(name: str) -> None:
    columns: dict[str, Any] = {}
    if name.startswith("table"):
        write_table(name)
        columns = {"settings": TextSettings(text_column="said")}
    expected = train("text", files=("text.txt", "text.txt"))
    for step in (1, 5):
        with pytest.raises(StoppedError):
            train("parts", should_stop=stop_after(step), files=(name, name), **columns)
    if columns:
        with pytest.raises(ModelError, match=r"text_column said \(now not given\)"):
            train("parts", files=(name, name), settings=TextSettings())
    assert train("parts", files=(name, name), **columns) == expected
    assert_same_weights("text", "parts")
    if columns:
        assert "| text column | `said` |" in Path("parts/card.md").read_text()


def test_the_validation_share_of_a_column_is_measured() -> None:
    write_table("table.csv")
    settings: dict[str, Any] = {"steps": 2, "validation_file": None, "validation_share": 0.2}
    perplexity = train(
        "table", files=("table.csv",), settings=TextSettings(text_column="said"), **settings
    )
    assert perplexity["tokens"] == train("text", **settings)["tokens"]


def test_the_command_trains_on_a_column() -> None:
    write_table("table.dat")
    arguments = ("train", "table.dat", "--options-file", "options.json", "--output", "model")
    options = ("--input-format", "csv", "--text-column", "said", "--steps", "1")
    result = elmo(*arguments, *options)
    assert result.exit_code == 0, result.output
    result = elmo("train", "text.txt", *arguments[2:-1], "other", "--text-column", "said")
    assert "Error: --text-column has no effect with text: it has no columns\n" in result.stderr


@pytest.mark.parametrize("suffix", ["txt", "jsonl", "conllu", "fasta"])
def test_windows_resume_in_every_format(suffix: str) -> None:
    Path("text.fasta").write_text("".join(f">s{n}\n{'ACDEF'[: n % 6]}\n" for n in range(9)))
    text = TrainingText((Path(f"text.{suffix}"),))
    windows = list(islice(text.windows(TextProgress(), 20), 12))
    for number in (1, 2, 5, 9):
        progress = windows[number - 1][1]
        assert list(islice(text.windows(progress, 20), 2)) == windows[number : number + 2]


def test_resume_skips_records_without_their_tokens() -> None:
    Path("raw.jsonl").write_text("".join(json.dumps({"text": f"a {n}"}) + "\n" for n in range(9)))
    texts: list[str] = []

    def tokenize(text: str) -> list[str]:
        texts.append(text)
        return text.split()

    tokenizer = replace(make_tokenizer("moses"), tokenize=tokenize)
    text = TrainingText((Path("raw.jsonl"),), tokenizer=tokenizer)
    entries = list(text.read_file(Path("raw.jsonl"), n_records=6))
    assert texts == ["a 6", "a 7", "a 8"]
    assert [entry.n_records for entry in entries] == [7, 8, 9]


@pytest.mark.parametrize("suffix", ["jsonl", "conllu"])
def test_train_and_perplexity_agree_about_a_file(suffix: str) -> None:
    source = f"text.{suffix}"
    perplexity = train("model", steps=2, files=(source,), validation_file=source)
    result = elmo("perplexity", source, "--model", "model", "--json")
    measured = json.loads(result.stdout)
    assert perplexity["average"] == pytest.approx(measured["all_words"]["average"])
    assert (perplexity["tokens"], perplexity["unknown"]) == (
        measured["tokens"],
        measured["unknown"],
    )


def test_validation_share_of_records_keeps_their_tokens() -> None:
    Path("text.jsonl").write_text(
        "".join(json.dumps({"tokens": ["a b", f"{n}"]}) + "\n" for n in range(60))
    )
    perplexity = train(
        "model", steps=2, files=("text.jsonl",), validation_file=None, validation_share=0.2
    )
    lines = Path("model/validation.jsonl").read_text().splitlines()
    assert perplexity["tokens"] == 2 * len(lines) > 0
    assert all(json.loads(line)["tokens"][0] == "a b" for line in lines)
    assert "a b" in read_vocabulary("model/vocab.txt").words
    assert not Path("model/validation.txt").exists()


def test_coverage_of_a_vocabulary_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "elmo_cli")
    settings = {"vocabulary_file": "words.txt", "vocabulary_size": None, "steps": 1}
    for words, start in (("abcdefghijklmnopqrstuvwxyz", ""), ("abc", "Warning: ")):
        caplog.clear()
        Path("words.txt").write_text(SPECIAL + "\n".join(words))
        train(words, **settings)
        message = next(message for message in caplog.messages if " covers " in message)
        assert message.startswith(f"{start}the vocabulary of words.txt covers ")
        assert message.endswith(" % of the first 420 tokens of text.txt")
