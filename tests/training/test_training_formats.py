"""Training on every input format, and vocabularies that do not fit the text."""

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from commands import elmo
from pyarrow import parquet
from runs import stop_after
from training_runs import assert_same_weights, train, write_run_files

from elmo_cli.errors import ModelError, StoppedError
from elmo_cli.model.vocabulary import read_vocabulary
from elmo_cli.text.records import TextSettings
from elmo_cli.text.tokenizers import make_tokenizer
from elmo_cli.training.corpus import TrainingText


@pytest.fixture(autouse=True)
def texts(training_folder: None) -> None:
    """Write the lines of the text in other formats, with equal ids and other columns."""
    lines = Path("text.txt").read_text().splitlines()
    tokens = [line.split() for line in lines if line]
    json_lines = [json.dumps({"id": "a/b", "tokens": line}) for line in tokens]
    conllu = ["\n".join(f"{n}\t{t}\t_" for n, t in enumerate(line, 1)) for line in tokens]
    Path("text.jsonl").write_text("\n".join(json_lines))
    Path("text.conllu").write_text("\n\n".join(conllu) + "\n")
    Path("text.conllu.gz").write_bytes(gzip.compress(Path("text.conllu").read_bytes()))
    Path("table.csv").write_text("id,text,said\n" + "".join(f"1,x y,{line}\n" for line in lines))
    columns = {"id": [1] * len(lines), "text": ["x y"] * len(lines), "said": lines}
    parquet.write_table(pyarrow.table(columns), "table.parquet")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any]:
    """Return the folder of a model trained on plain text, and its perplexity."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(tmp_path_factory.mktemp("run"))
        write_run_files()
        return os.path.abspath("text"), train("text", files=("text.txt", "text.txt"))


FORMATS = ["text.jsonl", "text.conllu", "text.conllu.gz", "table.csv", "table.parquet"]


@pytest.mark.parametrize("name", FORMATS)
def test_formats_resume_to_the_weights_of_equal_text(name: str, whole: tuple[str, Any]) -> None:
    is_table = name.startswith("table")
    columns = {"settings": TextSettings(text_column="said")} if is_table else {}
    for step in (1, 5):
        with pytest.raises(StoppedError):
            train("parts", should_stop=stop_after(step), files=(name, name), **columns)
    if is_table:
        with pytest.raises(ModelError, match=r"text_column said \(now not given\)"):
            train("parts", files=(name, name), settings=TextSettings())
    assert train("parts", files=(name, name), **columns) == whole[1]
    assert_same_weights(whole[0], "parts")
    assert ("| text column | `said` |" in Path("parts/card.md").read_text()) == is_table


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


@pytest.mark.parametrize("name", ["text.jsonl", "table.csv"])
def test_validation_share_keeps_the_tokens_of_records(name: str) -> None:
    lines = [json.dumps({"tokens": ["a b", f"{n}"]}) for n in range(60)]
    Path("text.jsonl").write_text("\n".join(lines))
    settings = TextSettings(text_column="said") if name == "table.csv" else TextSettings()
    share = {"validation_file": None, "validation_share": 0.2}
    perplexity = train("model", steps=2, files=(name,), settings=settings, **share)
    [chosen] = Path("model").glob("validation.*")
    assert ("a b" in read_vocabulary("model/vocab.txt").words) == (name == "text.jsonl")
    measured = json.loads(elmo("perplexity", chosen, "--model", "model", "--json").stdout)
    for figure in ("tokens", "unknown"):
        assert perplexity[figure] == measured[figure]
    assert perplexity["average"] == pytest.approx(measured["all_words"]["average"])


def test_coverage_of_a_vocabulary_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "elmo_cli")
    settings = {"vocabulary_file": "words.txt", "vocabulary_size": None, "steps": 1}
    for words, start in (("abcdefghijklmnopqrstuvwxyz", ""), ("abc", "Warning: ")):
        caplog.clear()
        Path("words.txt").write_text("\n".join(["<S>", "</S>", "<UNK>", *words]))
        train(words, **settings)
        message = next(message for message in caplog.messages if " covers " in message)
        assert message.startswith(f"{start}the vocabulary of words.txt covers ")
        assert message.endswith(" % of the first 420 tokens of text.txt")
