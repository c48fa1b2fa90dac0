"""Training on every input format, others' vocabularies, and a model's tokenizer."""

import gzip
import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import pyarrow
import pytest
from pyarrow import parquet

from elmo_cli import ElmoEmbedder
from elmo_cli.errors.exceptions import ModelError, StoppedError
from elmo_cli.model.vocabulary_files import read_vocabulary
from elmo_cli.options.text import TextSettings
from elmo_cli.text.tokenizers import make_tokenizer
from elmo_cli.training.training_text import TrainingText
from tests.support.commands import elmo
from tests.support.runs import stop_after
from tests.support.training_runs import assert_same_weights, run_in, train

pytestmark = pytest.mark.usefixtures("training_folder")


@pytest.fixture
def texts(training_folder: None) -> None:
    """Write the text in other formats, with equal ids and other columns."""
    lines = Path("text.txt").read_text().splitlines()
    tokens = [line.split() for line in lines if line]
    json_lines = [json.dumps({"id": "a/b", "tokens": line}) for line in tokens]
    conllu = [
        "\n".join(f"{n}\t{t}\t_" for n, t in enumerate(line, 1)) for line in tokens
    ]
    Path("text.jsonl").write_text("\n".join(json_lines))
    Path("text.conllu").write_text("\n\n".join(conllu) + "\n")
    Path("text.conllu.gz").write_bytes(gzip.compress(Path("text.conllu").read_bytes()))
    Path("table.csv").write_text(
        "id,text,said\n" + "".join(f"1,x y,{line}\n" for line in lines)
    )
    columns = {"id": [1] * len(lines), "text": ["x y"] * len(lines), "said": lines}
    parquet.write_table(pyarrow.table(columns), "table.parquet")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any]:
    """Return the folder of a model trained on plain text, and its perplexity."""
    with run_in(tmp_path_factory) as folder:
        return str(folder / "text"), train("text", files=("text.txt", "text.txt"))


@pytest.mark.usefixtures("texts")
@pytest.mark.parametrize(
    "name",
    ["text.jsonl", "text.conllu", "text.conllu.gz", "table.csv", "table.parquet"],
)
def test_formats_resume_to_the_weights_of_equal_text(
    name: str, whole: tuple[str, Any]
) -> None:
    is_table = name.startswith("table")
    columns = {"text": TextSettings(text_column="said")} if is_table else {}
    for step in (1, 5):
        with pytest.raises(StoppedError):
            train("parts", should_stop=stop_after(step), files=(name, name), **columns)
    if is_table:
        with pytest.raises(ModelError, match=r"text_column said \(now not given\)"):
            train("parts", files=(name, name), text=TextSettings())
    assert train("parts", files=(name, name), **columns) == whole[1]
    assert_same_weights(whole[0], "parts")
    assert ("| text column | `said` |" in Path("parts/card.md").read_text()) == is_table


def test_resume_skips_records_without_their_tokens() -> None:
    Path("raw.jsonl").write_text(
        "".join(json.dumps({"text": f"a {n}"}) + "\n" for n in range(9))
    )
    tokenize = Mock(side_effect=str.split)
    tokenizer = replace(make_tokenizer("moses"), tokenize=tokenize)
    text = TrainingText((Path("raw.jsonl"),), tokenizer=tokenizer)
    entries = list(text.read_file(Path("raw.jsonl"), n_records=6))
    assert tokenize.mock_calls == [call("a 6"), call("a 7"), call("a 8")]
    assert [entry.n_records for entry in entries] == [7, 8, 9]


@pytest.mark.parametrize("name", ["text.jsonl", "table.csv"])
def test_validation_share_keeps_the_tokens_of_records(name: str, texts: None) -> None:
    lines = [json.dumps({"tokens": ["a b", f"{n}"]}) for n in range(60)]
    Path("text.jsonl").write_text("\n".join(lines))
    settings = (
        TextSettings(text_column="said") if name == "table.csv" else TextSettings()
    )
    share = {"validation_file": None, "validation_share": 0.2}
    perplexity = train("model", steps=2, files=(name,), text=settings, **share)
    [chosen] = Path("model").glob("validation.*")
    assert ("a b" in read_vocabulary("model/vocab.txt").words) == (name == "text.jsonl")
    measured = json.loads(
        elmo("perplexity", chosen, "--model", "model", "--json").stdout
    )
    assert (
        perplexity.items()
        >= {key: measured[key] for key in ("tokens", "unknown")}.items()
    )
    assert perplexity["average"] == pytest.approx(measured["all_words"]["average"])


def test_coverage_of_a_vocabulary_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "elmo_cli")
    settings = {"vocabulary_file": "words.txt", "vocabulary_size": None, "steps": 1}
    for words, level in (("abcdefghijklmnopqrstuvwxyz", "INFO"), ("abc", "WARNING")):
        caplog.clear()
        Path("words.txt").write_text("\n".join(["<S>", "</S>", "<UNK>", *words]))
        train(words, **settings)
        [entry] = [entry for entry in caplog.records if " covers " in entry.message]
        assert entry.levelname == level
        message = entry.message
        assert message.startswith("words.txt: the vocabulary covers ")
        assert message.endswith("% of the first 420 tokens of text.txt")


RAW = 'Mr. a said, "b".\n'
LINE = "Tokenizer: moses:en, as in the model's training\n"
WARNING = "Warning: the model was trained with --tokenizer moses:en, not whitespace\n"


@pytest.fixture(scope="module")
def moses_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with raw texts, and `model` as it is trained on them."""
    with run_in(tmp_path_factory) as folder:
        Path("text.txt").write_text("".join(RAW.replace("a", a) for a in "abcdefgh"))
        Path("raw.txt").write_text(RAW)
        Path("raw.conllu").write_text("1\tMr.\t_\n2\tsaid,\t_\n")
        train(
            "model",
            tokenizer=make_tokenizer("moses"),
            steps=2,
            validation_file="raw.txt",
        )
    return folder


@pytest.fixture
def raw_texts(moses_run: Path, training_folder: None) -> None:
    """Copy that folder to the current folder."""
    shutil.copytree(moses_run, ".", dirs_exist_ok=True)


def test_model_folder_names_its_tokenizer(raw_texts: None) -> None:
    training = json.loads(Path("model/options.json").read_text())["training"]
    assert training == {
        "state": "zero",
        "tokenizer": "moses:en",
        "normalization": "moses-2",
    }
    assert ElmoEmbedder(model="model").files.tokenizer == "moses:en"
    assert ElmoEmbedder().files.tokenizer is None


def test_model_of_an_older_version_keeps_typographic_marks(raw_texts: None) -> None:
    content = json.loads(Path("model/options.json").read_text())
    del content["training"]["normalization"]
    Path("model/options.json").write_text(json.dumps(content))
    result = elmo("surprisal", "-", "--model", "model", stdin="isn’t\n")
    assert "Tokenizer: moses:en:verbatim, as in the model's training" in result.stderr
    _, *lines = result.stdout.splitlines()
    words = [line.split("\t")[2] for line in lines]
    assert words == ["isn", "’", "t"]


@pytest.mark.parametrize(
    "command",
    [
        "perplexity raw.txt --json",
        "surprisal raw.txt",
        "embed raw.txt out.npz --overwrite",
        "predict 'Mr. a said, b' -v",
        "cosine said 'He said, a' 'Mr. a said, b' -v",
    ],
)
def test_commands_use_the_tokenizer_of_the_model(command: str, raw_texts: None) -> None:
    default, moses, whitespace = (
        elmo(*shlex.split(f"{command} --model model {arguments}"))
        for arguments in ("", "--tokenizer moses", "--tokenizer whitespace")
    )
    assert default.exit_code == 0
    assert default.stdout == moses.stdout
    assert LINE in default.stderr
    assert WARNING in whitespace.stderr
    assert "Tokenizer" not in moses.stderr + whitespace.stderr
    assert "Warning" not in default.stderr + moses.stderr
    if command.startswith("perplexity"):
        assert default.stdout != whitespace.stdout
        record = json.loads(Path("model/training.json").read_text())["perplexity"]
        assert json.loads(default.stdout)["all_words"]["average"] == record["average"]
    if command.startswith("embed"):
        assert " 8 tokens" in default.stderr
        result = elmo(
            "embed", "raw.conllu", "out.npz", "--model", "model", "--overwrite"
        )
        assert " 2 tokens" in result.stderr
        assert LINE not in result.stderr


@pytest.mark.usefixtures("raw_texts")
def test_python_methods_use_the_tokenizer_of_the_model(
    caplog: pytest.LogCaptureFixture,
) -> None:
    embedder = ElmoEmbedder(model="model")
    text = "Mr. a said, b"
    assert len(embedder.encode(text, pooling=None)) == 5
    assert embedder.embed_file("raw.txt", "out.hdf5").n_tokens == 8
    assert embedder.embed_file("raw.conllu", "out2.hdf5").n_tokens == 2
    assert len(embedder.encode(text, pooling=None, tokenizer="whitespace")) == 4
    warnings = [
        record.message for record in caplog.records if record.levelname == "WARNING"
    ]
    assert warnings == ["the model was trained with tokenizer moses:en, not whitespace"]


@pytest.mark.usefixtures("raw_texts")
def test_fine_tuning_keeps_the_tokenizer_of_the_model(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("WARNING")
    command = "train text.txt --init-from model --steps 1 --output tuned"
    result = elmo(*command.split())
    assert LINE in result.stderr
    options = json.loads(Path("tuned/options.json").read_text())
    assert options["training"]["tokenizer"] == "moses:en"

    command = "train text.txt --init-from model --steps 1 --output other"
    result = elmo(*command.split(), "--tokenizer", "whitespace")
    assert WARNING in result.stderr
    options = json.loads(Path("other/options.json").read_text())
    assert "tokenizer" not in options["training"]
