"""`--tokenizer auto`: a command sees whether its first input is raw or tokenized."""

import json
import subprocess
from pathlib import Path

import pytest

from elmo_cli import open_activations
from tests.support.commands import TINY, elmo, start_elmo
from tests.support.distributed_runs import SMALL_PARTS
from tests.support.strategies import small_architecture

RAW = "Tokenizer: moses, because the text is raw\n"
TOKENIZED = "Tokenizer: whitespace, because the text is tokenized\n"

pytestmark = pytest.mark.usefixtures("raw_files")


@pytest.fixture
def raw_files(folder: Path) -> None:
    """Write a raw and a tokenized text into the current folder."""
    Path("raw.txt").write_text("The cat sat.\nThe dog, too.\n")
    Path("tokenized.txt").write_text("The cat sat .\nThe dog , too .\n")


def embed(*arguments: str) -> None:
    """Run `elmo embed` with a small model."""
    result = elmo("embed", *arguments, "--model", str(TINY))
    assert result.exit_code == 0, result.stderr


def tokens_of(output: str, number: int) -> list[str]:
    """Return the tokens of a record."""
    with open_activations(output) as activations:
        return list(activations.tokens(number) or [])


def test_the_choice_is_printed_once_unless_the_command_is_quiet() -> None:
    line = ["embed", "raw.txt", "out.hdf5", "--model", str(TINY), "--overwrite"]
    assert elmo(*line).stderr.count(RAW) == 1
    assert elmo(*line, "-q").stderr == ""


@pytest.mark.parametrize("option", ["--all", "--top", "--average"])
def test_lines_of_allennlp_are_split_at_white_space(option: str) -> None:
    result = elmo("embed", "raw.txt", "out.hdf5", option, "--model", str(TINY))
    assert "Tokenizer" not in result.stderr
    assert tokens_of("out.hdf5", 0) == ["The", "cat", "sat."]


def test_a_pipe_is_answered_line_by_line() -> None:
    line = [
        "embed",
        "-",
        "-",
        "--format",
        "jsonl",
        "--layers",
        "top",
        "--model",
        str(TINY),
    ]
    pipe = subprocess.PIPE
    with start_elmo(*line, stdin=pipe, stdout=pipe) as process:
        for text, n_tokens in [("A cat.", 3), ("It ran .", 3), ("No.", 2)]:
            # A line is answered while the pipe waits for the next one.
            process.stdin.write(f"{text}\n".encode())
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert len(answer["tokens"]) == n_tokens
        process.stdin.close()
        assert process.stderr.read().decode().count(RAW) == 1


def test_the_first_line_of_a_pipe_decides() -> None:
    text = Path("tokenized.txt").read_text() + Path("raw.txt").read_text()
    result = elmo("embed", "-", "out.hdf5", "--model", str(TINY), stdin=text)
    assert TOKENIZED in result.stderr
    assert tokens_of("out.hdf5", 2) == ["The", "cat", "sat."]


def test_an_equal_name_continues_a_finished_output_and_another_one_does_not() -> None:
    embed("raw.txt", "out.hdf5")
    content = Path("out.hdf5").read_bytes()
    embed("raw.txt", "out.hdf5", "--tokenizer", "moses")
    assert Path("out.hdf5").read_bytes() == content
    other = ["--tokenizer", "whitespace"]
    result = elmo("embed", "raw.txt", "out.hdf5", *other, "--model", str(TINY))
    assert result.exit_code == 1
    assert (
        "other options: --tokenizer (it has moses:en, this run has whitespace)"
        in result.stderr
    )


def test_all_parts_follow_the_head_of_the_first_file() -> None:
    for files in (["raw.txt", "tokenized.txt"], ["tokenized.txt", "raw.txt"]):
        output = f"of-{files[0]}"
        result = elmo("distribute", *files, output, *SMALL_PARTS)
        assert result.exit_code == 0
        assert (RAW in result.stderr) == (files[0] == "raw.txt")
        number = 0 if files[0] == "raw.txt" else 2
        n_tokens = 4 if files[0] == "raw.txt" else 3
        assert len(tokens_of(output, number)) == n_tokens


@pytest.mark.parametrize(
    ("first", "n_tokens", "stored"), [("raw", 9, "moses:en"), ("tokenized", 6, None)]
)
def test_a_trained_model_follows_the_head_of_the_first_file(
    first: str, n_tokens: int, stored: str | None
) -> None:
    second = "tokenized" if first == "raw" else "raw"
    Path("tiny.json").write_text(json.dumps(small_architecture()))
    line = ["train", f"{first}.txt", f"{second}.txt", "--options-file", "tiny.json"]
    line += ["--validation-file", "raw.txt", "--negative-samples", "0"]
    result = elmo(*line, "--steps", "2", "--output", "model")
    assert result.exit_code == 0
    assert (RAW in result.stderr) == (first == "raw")
    # The validation text is tokenized like the training text: `sat.` is one or two.
    assert result.stdout.split()[:2] == ["tokens", str(n_tokens)]
    options = json.loads(Path("model/options.json").read_text())
    assert options["training"].get("tokenizer") == stored
    # Neither detached nor attached marks decide here, but the model's training does.
    Path("plain.txt").write_text("the cat's dog\n")
    result = elmo("embed", "plain.txt", "plain.hdf5", "--model", "model")
    assert result.exit_code == 0
    is_split = tokens_of("plain.hdf5", 0) == ["the", "cat", "'s", "dog"]
    assert is_split == (first == "raw")


def test_change_refuses_files_that_were_tokenized_differently() -> None:
    Path("words.txt").write_text("cat\n")
    for name in ("raw", "tokenized"):
        line = ["occurrences", f"{name}.txt", f"{name}.hdf5", "--words", "words.txt"]
        assert elmo(*line, "--model", str(TINY)).exit_code == 0
    result = elmo("change", "raw.hdf5", "tokenized.hdf5", "--words", "words.txt")
    assert result.exit_code == 1
    assert "tokenizer" in result.stderr


def test_a_query_follows_the_tokenizer_of_its_file() -> None:
    Path("names.txt").write_text("Dr. No, a cat.\n")
    embed("names.txt", "v.hdf5", "--tokenizer", "moses")
    line = ["neighbours", "sat", "The cat sat .x", "v.hdf5", "--model", str(TINY)]
    result = elmo(*line)
    assert result.exit_code == 0
    assert "Tokenizer" not in result.stderr


def test_a_raw_sentence_decides_for_a_pair() -> None:
    for sentences in (
        ("I sat by the bank.", "The bank 's money ."),
        ("The bank 's money .", "I sat by the bank."),
    ):
        result = elmo("cosine", "bank", *sentences, "--model", str(TINY))
        assert result.stderr == ""
        assert result.exit_code == 0
        result = elmo("cosine", "bank", *sentences, "--model", str(TINY), "-v")
        assert RAW in result.stderr
        line = "\t".join(sentences)
        result = elmo("cosine", "bank", "-", "--model", str(TINY), stdin=line)
        assert result.stderr == RAW
        assert result.exit_code == 0


def test_a_language_other_than_the_models_is_a_warning() -> None:
    line = ["embed", "raw.txt", "out.hdf5", "--model", "mini"]
    result = elmo(*line, "--language", "de")
    warning = "Warning: the model was trained on English, not German (de)"
    assert result.stderr.count(warning) == 1
