"""The commands over files of any bytes: an answer or one line of error, and no file half done.

Damage to whole files is the business of hostile.py and fuzz.py; here nothing is whole to begin
with, and whole commands run.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from commands import TINY, elmo, without_size
from conftest import GOLDEN
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import WORDS, make_language_model, small_architecture

from elmo_cli import open_activations

MANY_LANGS = GOLDEN / "many-langs" / "both"

_PIECES = st.one_of(
    st.sampled_from(
        [
            *(b"\n", b"\n", b"\n", b"\r\n", b"\r", b"\0", b" ", b"\t", b"\xef\xbb\xbf", b"\xff"),
            *("\u2028".encode(), "\u0085".encode(), b"\x1c", b"\x0b", "\u3000".encode(), b"/"),
            *(b"the", b"cat", b">", b">id", b".", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"a/b"),
        ]
    ),
    st.text(max_size=5).map(lambda text: text.encode("utf-8", "replace")),
    st.binary(max_size=5),
)
contents = st.lists(_PIECES, max_size=12).map(b"".join)
"""Bytes as they are in a file that is called a text: many line ends, much that is no UTF-8."""

_NUMBERS = st.one_of(st.integers(), st.floats(), st.sampled_from([0, 1, -1, 10**400, 2**63]))
any_json = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)

FORMS = (
    (),
    ("--layout", "packed"),
    ("--use-sentence-keys",),
    ("--forget-sentences", "--average"),
    ("--pooling", "mean"),
    ("--skip-errors",),
    ("--skip-errors", "--layout", "packed", "--state", "carry"),
    ("--shard", "2/2"),
)


@contextmanager
def folder() -> Iterator[None]:
    """An empty folder, where the commands of one example run."""
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.chdir(name)
        yield


def ends_well(*arguments: str | Path, output: str | None = None) -> bool:
    """Run a command; whether it does what it should.

    Otherwise it ends with status 1 or 2 and one line of error, and without its output.
    """
    result = elmo(*arguments)
    shown = (arguments, result.stderr, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), shown
    assert result.exit_code in (0, 1, 2), shown
    if result.exit_code:
        errors = without_size(result.stderr).removeprefix(f"Model: {TINY}\n").split("\n")
        lines = [line for line in errors if not line.startswith("Skipped: ")]
        assert lines[-1] == "", shown
        assert lines[-2].startswith("Error: "), shown
        assert result.exit_code == 2 or len(lines) == 2, shown
    if output:
        assert Path(output).exists() == (result.exit_code == 0), shown
    return result.exit_code == 0


def sentences_of(content: bytes) -> list[list[str]] | None:
    """The sentences of a text, found in another way; None if it is not UTF-8."""
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    try:
        texts = [
            line.decode("utf-8" if number else "utf-8-sig") for number, line in enumerate(lines)
        ]
    except UnicodeDecodeError:
        return None
    return [text.split() for text in texts]


@given(content=contents, form=st.sampled_from(FORMS))
@example(content=b"\xef\xbb\xbf", form=())
@example(content=b"\xef\xbb\xbf\n\xef\xbb\xbfa", form=())
@example(content=b"\0", form=("--use-sentence-keys",))
def test_any_text_is_embedded_or_named(content: bytes, form: tuple[str, ...]) -> None:
    sentences = sentences_of(content)
    with folder():
        Path("text").write_bytes(content)
        done = ends_well("embed", "text", "out", "--model", TINY, *form, output="out")
        if done and form in ((), ("--layout", "packed")):
            assert sentences is not None
            with open_activations("out") as found:
                assert [values.shape[1] for values in found] == [len(s) for s in sentences]
        elif "--skip-errors" in form:
            assert done
        elif form != ("--use-sentence-keys",):
            assert done == (sentences is not None)


@given(content=contents, more=contents)
def test_any_fasta_is_embedded_or_named(content: bytes, more: bytes) -> None:
    with folder():
        Path("x.fasta").write_bytes(b">" + content + b"\n>" + more)
        arguments = ("embed", "x.fasta", "out", "--model", TINY)
        if not ends_well(*arguments, output="out"):
            assert ends_well(*arguments, "--skip-errors", output="out")
        with open_activations("out") as found:
            assert all(record.key for record, _ in found.records())


@given(content=contents, name=st.sampled_from(["text.gz", "x.fasta.gz"]))
def test_any_bytes_are_no_gzip(content: bytes, name: str) -> None:
    with folder():
        Path(name).write_bytes(content)
        done = ends_well("embed", name, "out", "--model", TINY, output="out")
        assert done == (not content) or content.startswith(b"\x1f\x8b")


@given(content=any_json, section=st.sampled_from([None, "lstm", "char_cnn"]), data=st.data())
def test_any_json_as_options_is_named(
    content: Any, section: str | None, data: st.DataObject
) -> None:
    options = json.loads((TINY / "options.json").read_text(encoding="utf-8"))
    if section is None:
        options = content
    else:
        options[section][data.draw(st.sampled_from(sorted(options[section])))] = content
    with folder():
        shutil.copy(TINY / "weights.hdf5", "weights.hdf5")
        Path("options.json").write_text(json.dumps(options), encoding="utf-8")
        Path("text").write_text("the cat\n")
        ends_well("info", ".")
        # A value that changes nothing but the numbers may do.
        ends_well("embed", "text", "out", "--model", ".", "-q", output="out")


@given(content=st.one_of(contents, any_json.map(json.dumps).map(str.encode)))
def test_any_bytes_as_options_or_weights_are_named(content: bytes) -> None:
    with folder():
        Path("text").write_text("the cat\n")
        for name in ("options.json", "weights.hdf5", "weights.safetensors", "model.zip"):
            Path(name).write_bytes(content)
        for files in (
            ("--options-file", "options.json", "--weight-file", TINY / "weights.hdf5"),
            ("--options-file", TINY / "options.json", "--weight-file", "weights.hdf5"),
            ("--options-file", TINY / "options.json", "--weight-file", "weights.safetensors"),
            ("--model", "model.zip"),
        ):
            assert not ends_well("embed", "text", "out", *files, "-q", output="out")


@given(partial=contents, log=contents)
def test_any_bytes_beside_an_output_are_named_or_no_obstacle(partial: bytes, log: bytes) -> None:
    with folder():
        Path("text").write_text("the cat\n\nsat\n")
        Path("out.partial").write_bytes(partial)
        Path("out.partial.log").write_bytes(log)
        arguments = ("embed", "text", "out", "--model", TINY, "-q")
        if not ends_well(*arguments, output="out"):
            Path("out.partial").unlink(missing_ok=True)
            Path("out.partial.log").unlink(missing_ok=True)
            assert ends_well(*arguments, output="out")
        with open_activations("out") as found:
            assert [values.shape[1] for values in found] == [2, 0, 1]


@given(content=contents)
def test_any_bytes_in_the_place_of_an_output_stay(content: bytes) -> None:
    with folder():
        Path("text").write_text("the cat\n")
        for name in ("out", "s1", "s2"):
            Path(name).write_bytes(content)
        assert elmo("embed", "text", "out", "--model", TINY, "-q").exit_code == 1
        assert Path("out").read_bytes() == content
        assert not ends_well("merge", "new", "s1", "s2", output="new")
        assert {path.name for path in Path().iterdir()} == {"text", "out", "s1", "s2"}


@given(content=contents, whole=st.booleans())
def test_any_bytes_as_a_vocabulary_are_named_or_read(content: bytes, whole: bool) -> None:
    with folder():
        weight, bias = np.zeros((8, 3)), np.zeros(8)
        Path("model").mkdir()
        make_language_model(small_architecture(), 1, Path("model"), weight=weight, bias=bias)
        words = "\n".join(WORDS[:3]).encode() + b"\n" if whole else b""
        Path("words").write_bytes(words + content)
        Path("text").write_bytes(content)
        model = ("--model", "model", "-q")
        for command in (
            ("predict", "the cat", *model, "--vocabulary-file", "words"),
            ("perplexity", "text", *model, "--vocabulary-file", "words"),
            ("perplexity", "text", *model, "--per-token"),
        ):
            ends_well(*command)
        for out in ("out.hdf5", "out.vec"):
            ends_well("word-vectors", "words", out, *model, output=out)
        Path("model/softmax.hdf5").write_bytes(content)
        assert not ends_well("predict", "the cat", *model)
        assert not ends_well("perplexity", "text", *model)


@given(content=contents, name=st.sampled_from([path.name for path in MANY_LANGS.iterdir()]))
def test_any_bytes_in_a_many_langs_model_are_named_or_read(content: bytes, name: str) -> None:
    with folder():
        shutil.copytree(MANY_LANGS, "model")
        Path("model", name).write_bytes(content)
        Path("text").write_text("the cat\n")
        done = ends_well("embed", "text", "out", "--model", "model", "-q", output="out")
        assert done == (name == "expected.hdf5") or name.endswith(".dic")


@given(content=contents, name=st.sampled_from(["checkpoint.pt", "counts.json", "log.jsonl"]))
def test_any_bytes_beside_a_model_in_training_are_named_or_no_obstacle(
    content: bytes, name: str
) -> None:
    with folder():
        Path("text").write_text("the cat sat .\n" * 20)
        Path("model").mkdir()
        Path("model", name).write_bytes(content)
        sizes = ("--preset", "mini", "--steps", "1")
        ends_well("train", "text", "--output", "model", *sizes, "-q")
        if name == "checkpoint.pt":
            assert Path("model", name).read_bytes() == content
