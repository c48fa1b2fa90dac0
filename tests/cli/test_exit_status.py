"""Exit status of mistakes: 2 for wrong options, 1 for what fails in a run, in every command."""

import re
from pathlib import Path

import numpy as np
import pytest
from commands import TINY, elmo
from strategies import make_language_model, small_architecture

from elmo_cli.cli import COMMANDS, find_command

LINES = "the cat sat\nthe dog sat\nthe cat\na cat\nno cat ran\n"
MODEL = ("--model", "model")
BASES: dict[str, tuple[str, ...]] = {
    "embed": ("text.txt", "out.h5", *MODEL),
    "usages": ("text.txt", "out.h5", "--words", "words.txt", *MODEL),
    "perplexity": ("text.txt", *MODEL),
    "surprisal": ("text.txt", *MODEL),
    "predict": ("--file", "text.txt", *MODEL),
    "cosine": ("cat", "the cat", "a cat", *MODEL),
    "neighbours": ("cat", "the cat", "v.h5", *MODEL),
    "plot": ("cat", "v.h5", "out.svg", "--method", "pca"),
    "word-vectors": ("out.npz", "--corpus", "text.txt", "--min-count", "1", *MODEL),
    "change": ("v.h5", "v.h5", "--words", "words.txt"),
    "train": ("text.txt", "--preset", "mini", "--output", "new", "--steps", "1"),
    "models": (),
    "info": ("model",),
    "download": ("mini",),
    "convert": (str(TINY / "weights.hdf5"), "out.safetensors"),
    "completion": ("bash",),
    "help": ("embed",),
    "distribute": ("text.txt", "parts", "--engine", "none", *MODEL),
}
"""A command line of each command that is right."""

MISTAKES: dict[str, tuple[int, str]] = {
    # Wrong values
    "--tokenizer mosses": (2, "tokenizer 'mosses'"),
    "--tokenizer moses:x1": (2, "language 'x1'"),
    "--tokenizer moses --language x1": (2, "language 'x1'"),
    "--language fr --tokenizer whitespace": (2, "--language has no effect"),
    "--layers last": (2, "layers? 'last'"),
    "--layers 9": (2, "layers? '9'"),
    "--layer 9": (2, "layers? '9'"),
    "--mean-layers 9": (2, "layers '9'"),
    "--mix 1,2": (2, "--mix: expected 3 numbers"),
    "--mix 1,x,3": (2, "expected numbers separated by commas"),
    "--mix nan,1,2": (2, "expected finite float32 numbers"),
    "--pooling average": (2, "'average' is not one of"),
    "--precision float64": (2, "'float64' is not one of"),
    "--state cold": (2, "'cold' is not one of"),
    "--input-format docx": (2, "'docx' is not one of"),
    "--format xlsx": (2, "'xlsx' is not one of"),
    "--shard 0/3": (2, "shard '0/3'"),
    "--batch-tokens 0": (2, "expected a whole number of at least 1, found"),
    "--top 0": (2, "expected a whole number|unexpected 0: "),
    # Wrong combinations, with other options or with the input
    "--gamma 2": (2, "--gamma requires --mix"),
    "--mix 1,2,3 --layers all": (2, "choose one of --mix and --layers"),
    "--options-file o.json": (2, "--options-file"),
    "--input-format conllu --split-sentences": (2, "requires|no effect with|'conllu' is not one"),
    "--input-format fasta --tokenizer moses": (2, "no effect|requires --(queries|pairs)|FASTA has"),
    "--text-column context": (2, "--text-column has|requires --(queries|pairs)|a table with a"),
    "--id-column item": (2, "--id-column has no effect with text"),
    "--keep-columns all": (2, "--keep-columns"),
    "--input-format fasta --paragraphs": (2, "--paragraphs requires|no effect with|FASTA has"),
    "--layout packed --format jsonl": (2, "--layout requires HDF5"),
    "--compression gzip --format jsonl": (2, "--compression requires HDF5"),
    "--rows tokens": (2, "--rows tokens requires Parquet or JSON lines"),
    "--use-sentence-keys --layout packed": (2, "--use-sentence-keys requires HDF5"),
    "--format csv --json": (2, "choose one of --format|requires --p"),
    "--plot out.gif": (2, "unknown suffix '.gif'. Choose .svg"),
    "--occurrence 3": (2, "occurs once"),
    # What fails in a run
    "--model nothing": (1, "nothing: no such model"),
    "--device cuda:77": (1, "device 'cuda:77'"),
    "--device tpu": (2, "device 'tpu'"),
    "--words nothing": (1, "nothing"),
    "--frequencies nothing": (1, "nothing"),
}
"""Status of a mistake, and a pattern that its message has in every command."""


@pytest.fixture(autouse=True)
def inputs(folder: Path) -> None:
    Path("text.txt").write_text(LINES)
    Path("words.txt").write_text("cat\n")
    Path("model").mkdir()
    weight, bias = np.zeros((8, 3)), np.zeros(8)
    make_language_model(small_architecture(), 1, Path("model"), weight=weight, bias=bias)
    assert elmo("embed", "text.txt", "v.h5", *MODEL).exit_code == 0


def commands_with(options: str) -> list[str]:
    """Return the commands that have all these options and do not set one of them already."""
    names = {part for part in options.split() if part.startswith("--")}
    return [
        command
        for command in BASES
        if names <= {name for each in find_command(command).params for name in each.opts}
        and (options.startswith(("--model", "--words")) or not names & set(BASES[command]))
    ]


def test_every_command_has_a_base() -> None:
    assert sorted(BASES) == sorted(COMMANDS)


@pytest.mark.parametrize("options", MISTAKES)
def test_a_mistake_has_one_status_in_every_command(options: str) -> None:
    status, message = MISTAKES[options]
    commands = commands_with(options)
    assert commands
    for command in commands:
        base = list(BASES[command])
        if options.startswith(("--model", "--words")):
            name = options.split()[0]
            if name not in base:
                continue
            place = base.index(name)
            del base[place : place + 2]
        result = elmo(command, *base, *options.split())
        found = (result.exit_code, bool(re.search(message, result.stderr)))
        assert found == (status, True), f"{command}: {result.exit_code} {result.stderr}"
        assert result.stderr.splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize("name", ["missing.txt", "a.pdf", "latin1.txt", "bad.csv"])
def test_an_input_that_cannot_be_read_has_status_1(name: str) -> None:
    Path("a.pdf").write_bytes(b"%PDF-1.7\n\xff")
    Path("latin1.txt").write_bytes(b"caf\xe9\n")
    Path("bad.csv").write_text("no,columns\n1,2\n")
    for command in ("embed", "usages", "perplexity", "surprisal", "predict", "train", "distribute"):
        arguments = [name if each == "text.txt" else each for each in BASES[command]]
        result = elmo(command, *arguments)
        assert result.exit_code == 1, f"{command}: {result.stderr}"
        assert result.stderr.splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize("command", BASES)
def test_v_prints_more_and_q_errors_only(command: str) -> None:
    if command == "plot":
        pytest.importorskip("matplotlib")
    outputs = ("out.h5", "out.svg", "out.npz", "out.safetensors", "new", "parts")
    other = [f"other.{each}" if each in outputs else each for each in BASES[command]]
    assert elmo(command, *BASES[command], "-q").stderr == ""
    assert "\nTime: " in elmo(command, *other, "-v").stderr
