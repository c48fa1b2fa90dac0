"""`elmo embed` over files of any bytes: an output, or one line of error and no output."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elmo_cli import open_activations
from elmo_cli.files.file_types import binary_type
from tests.support.commands import TINY, elmo, without_size

_PIECES = st.one_of(
    st.sampled_from(
        [
            b"\n",
            b"\n",
            b"\n",
            b"\r\n",
            b"\r",
            b"\0",
            b" ",
            b"\t",
            b"\xef\xbb\xbf",
            b"\xff",
            "\u2028".encode(),
            "\u0085".encode(),
            b"\x1c",
            b"\x0b",
            "\u3000".encode(),
            b"/",
            b"the",
            b"cat",
            b">",
            b">id",
            b".",
            b"\xed\xa0\x80",
            b"\xf0\x9f\x98\x80",
            b"a/b",
        ]
    ),
    st.text(max_size=5).map(lambda text: text.encode("utf-8", "replace")),
    st.binary(max_size=5),
)
contents = st.lists(_PIECES, max_size=12).map(b"".join)
"""Bytes as they are in a file that is called a text: many line ends, much that is no UTF-8."""

OPTIONS = (
    "",
    "--layout packed",
    "--use-sentence-keys",
    "--forget-sentences --average",
    "--pooling mean",
    "--skip-errors",
    "--skip-errors --layout packed --state carry",
    "--shard 2/2",
)


@contextmanager
def folder() -> Iterator[None]:
    """Create an empty folder, where the commands of one example run."""
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.chdir(name)
        yield


def ends_well(*arguments: str | Path, output: str | None = None) -> bool:
    """Run a command; if it fails, then with status 1 or 2, one line of error and no output."""
    result = elmo(*arguments)
    shown = (arguments, result.stderr, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), shown
    assert result.exit_code in (0, 1, 2), shown
    if result.exit_code:
        errors = (
            without_size(result.stderr).removeprefix(f"Model: {TINY}\n").split("\n")
        )
        lines = [
            line for line in errors if not line.startswith(("Skipped: ", "Warning: "))
        ]
        assert lines[-1] == "", shown
        assert lines[-2].startswith("Error: "), shown
        assert result.exit_code == 2 or len(lines) == 2, shown
    if output:
        assert Path(output).exists() == (result.exit_code == 0), shown
    return result.exit_code == 0


def sentences_of(content: bytes) -> list[list[str]] | None:
    """Find the sentences of a text in another way. Return None if it is not UTF-8."""
    # Old Macs ended lines with a carriage return alone.
    lines = content.split(b"\r" if b"\r" in content and b"\n" not in content else b"\n")
    if not lines[-1]:
        lines.pop()
    try:
        texts = [line.decode().lstrip("\ufeff") for line in lines]
    except UnicodeDecodeError:
        return None
    return [text.split() for text in texts]


def is_binary(content: bytes) -> bool:
    """Return whether a file, or its first line, begins like data."""
    return any(map(binary_type, (content, content[: content.find(b"\n") + 1])))


@given(content=contents, options=st.sampled_from(OPTIONS))
@example(content=b"\0\n\n", options="--skip-errors")
@example(content=b"\xef\xbb\xbf", options="")
@example(content=b"\xef\xbb\xbf\n\xef\xbb\xbfa", options="")
@example(content=b"\0", options="--use-sentence-keys")
@example(content=b"\r\r", options="")
def test_any_text_is_embedded_or_named(content: bytes, options: str) -> None:
    sentences = None if is_binary(content) else sentences_of(content)
    with folder():
        Path("text").write_bytes(content)
        command = ["embed", "text", "out", "--model", str(TINY), *options.split()]
        done = ends_well(*command, output="out")
        if done and options in ("", "--layout packed"):
            assert sentences is not None
            with open_activations("out") as activations:
                assert [values.shape[1] for values in activations] == [
                    len(s) for s in sentences
                ]
        elif "--skip-errors" in options:
            assert done or is_binary(content)
        elif options != "--use-sentence-keys":
            assert done == (sentences is not None)


@given(content=contents, more=contents)
@example(content=b"\0", more=b"")
def test_any_fasta_is_embedded_or_named(content: bytes, more: bytes) -> None:
    with folder():
        Path("x.fasta").write_bytes(b">" + content + b"\n>" + more)
        arguments = ("embed", "x.fasta", "out", "--model", TINY)
        if not ends_well(*arguments, output="out"):
            done = ends_well(*arguments, "--skip-errors", output="out")
            lines = Path("x.fasta").read_bytes().split(b"\n")
            assert done or any(
                map(binary_type, lines)
            )  # by the first line that is no UTF-8
            if not done:
                return
        with open_activations("out") as activations:
            assert all(record.id for record, _ in activations.records())


@given(content=contents, name=st.sampled_from(["text", "text.gz", "x.fasta.gz"]))
def test_any_bytes_are_no_gzip(content: bytes, name: str) -> None:
    with folder():
        Path(name).write_bytes(b"\x1f\x8b" + content)
        assert not ends_well("embed", name, "out", "--model", TINY, output="out")


@given(content=contents)
def test_any_bytes_as_options_or_weights_are_reported(content: bytes) -> None:
    with folder():
        Path("text").write_text("the cat\n")
        for name in (
            "options.json",
            "weights.hdf5",
            "weights.safetensors",
            "model.zip",
        ):
            Path(name).write_bytes(content)
        for files in (
            ("--options-file", "options.json", "--weight-file", TINY / "weights.hdf5"),
            ("--options-file", TINY / "options.json", "--weight-file", "weights.hdf5"),
            (
                "--options-file",
                TINY / "options.json",
                "--weight-file",
                "weights.safetensors",
            ),
            ("--model", "model.zip"),
        ):
            assert not ends_well("embed", "text", "out", *files, "-q", output="out")


@given(partial=contents, log=contents)
def test_any_bytes_beside_an_output_are_reported_or_no_obstacle(
    partial: bytes, log: bytes
) -> None:
    with folder():
        Path("text").write_text("the cat\n\nsat\n")
        Path("out.partial").write_bytes(partial)
        Path("out.partial.log").write_bytes(log)
        arguments = ("embed", "text", "out", "--model", TINY, "-q")
        if not ends_well(*arguments, output="out"):
            for name in ("out.partial", "out.partial.log"):
                Path(name).unlink(missing_ok=True)
            assert ends_well(*arguments, output="out")
        with open_activations("out") as activations:
            assert [values.shape[1] for values in activations] == [2, 0, 1]
