"""The examples: one that reads activations, and sentiment, on sentences like its package's."""

import io
import runpy
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from commands import elmo
from conftest import GOLDEN

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPT = str(EXAMPLES / "sentiment.py")


@pytest.mark.parametrize(
    ("text", "options", "lines"),
    [
        # The last one of equal sentences has its sentence.
        ("b .\n" * 9 + "k .\n\nb .\n", "", [f"{n}\t(3, 2, 32)\t" for n in range(9)]
         + ["9\t(3, 2, 32)\tk .", "10\t(3, 0, 32)\t", "11\t(3, 2, 32)\tb ."]),
        ("a b\n", "--top --forget-sentences", ["0\t(2, 32)\t"]),
    ],
)  # fmt: skip
def test_activations_are_read_in_the_order_of_lines(
    text: str,
    options: str,
    lines: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    elmo("embed", "-", "out.hdf5", "--model", GOLDEN / "relu", *options.split(), stdin=text)
    monkeypatch.setattr(sys, "argv", ["", "out.hdf5"])
    runpy.run_path(str(EXAMPLES / "read_activations.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == lines


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Write a zip for the example, with 40 reviews that one word tells apart."""
    example = runpy.run_path(SCRIPT)
    rows = [
        f"{n}\t{rating}\tFilm {n} is {word}, isn't it?"
        for n in range(20)
        for rating, word in ((2.5, "good"), (-2.5, "bad"))
    ]
    text = "\r\n".join([*rows, "40\t0.1\tSome call it good, some bad."]).encode("utf-8")
    resources = io.BytesIO()
    with tarfile.open(fileobj=resources, mode="w:gz") as archive:
        entry = tarfile.TarInfo(example["REVIEWS"])
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    path = tmp_path / "package.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(example["ARCHIVE"], resources.getvalue())
    return path


def test_the_split_is_repeatable_and_has_clear_ratings_only(package: Path) -> None:
    read: Any = runpy.run_path(SCRIPT)["read_reviews"]
    train, dev, test = split = read(package, 100, 5)
    assert (len(train), len(dev), len(test)) == (30, 5, 5)
    for tokens, label in [*train, *dev, *test]:
        assert tokens[3:] == ["good" if label else "bad", ",", "isn", "'t", "it", "?"]
    assert read(package, 100, 5) == split


def test_the_example_prints_a_line_for_each_way(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.setenv("ELMO_MODEL", str(GOLDEN / "relu"))
    options = ["--train", "10", "--held-out", "5", "--epochs", "1", "--seeds", "1", "2"]
    monkeypatch.setattr(sys, "argv", [SCRIPT, str(package), *options, "--sklearn"])
    runpy.run_path(SCRIPT, run_name="__main__")
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["vectors", "seed 1", "seed 2", "mean", "seconds"]
    assert [line[0] for line in lines[1:]] == [
        "words, no ELMo",
        "ELMo, frozen average",
        "ELMo, trained mix",
        "ELMo, fine-tuned",
        "ElmoVectorizer, LogisticRegression",
    ]
    for first, second, mean in (map(float, line[1:4]) for line in lines[1:5]):
        assert 0.0 <= min(first, second) <= mean <= max(first, second) <= 100.0
