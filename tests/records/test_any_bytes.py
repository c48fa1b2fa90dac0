"""`elmo embed` over any bytes: an output, or one line of error and no output."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elmo_cli import open_activations
from elmo_cli.files.file_types import binary_type
from tests.support.commands import TINY, elmo

PIECES = st.one_of(
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
contents = st.lists(PIECES, max_size=12).map(b"".join)
"""Bytes of a file that is called a text: many line ends, much that is no UTF-8."""

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


_NO_ERRORS = ("Skipped: ", "Warning: ", "Tokenizer: ", f"Model: {TINY}")


def ends_well(*arguments: str | Path, output: str | None = None) -> bool:
    """Return whether a command succeeds.

    If it fails, then with status 1 or 2, one line of error and no output.
    """
    result = elmo(*arguments)
    shown = (arguments, result.stderr, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), shown
    assert result.exit_code in (0, 1, 2), shown
    if result.exit_code:
        errors = result.stderr
        lines: list[str] = []
        for line in errors.split("\n"):
            if not line.startswith(_NO_ERRORS):
                lines.append(line)
        assert lines[-1] == "", shown
        assert lines[-2].startswith("Error: "), shown
        assert result.exit_code == 2 or len(lines) == 2, shown
    if output:
        assert Path(output).exists() == (result.exit_code == 0), shown
    return result.exit_code == 0


def sentences_of(content: bytes) -> list[list[str]] | None:
    """Find the sentences of a text in another way. Return None if it is not UTF-8."""
    has_only_cr = b"\r" in content and b"\n" not in content
    # Old Macs ended lines with a carriage return alone.
    end = b"\r" if has_only_cr else b"\n"
    lines = content.split(end)
    if not lines[-1]:
        lines.pop()
    try:
        texts = [line.decode().lstrip("\ufeff") for line in lines]
    except UnicodeDecodeError:
        return None
    return [text.split() for text in texts]


def is_binary(content: bytes) -> bool:
    """Return whether a file, or its first line, begins like data."""
    first_line = content[: content.find(b"\n") + 1]
    return bool(binary_type(content) or binary_type(first_line))


@given(content=contents, options=st.sampled_from(OPTIONS))
@example(content=b"\0\n\n", options="--skip-errors")
@example(content=b"\xef\xbb\xbf", options="")
@example(content=b"\xef\xbb\xbf\n\xef\xbb\xbfa", options="")
@example(content=b"\0", options="--use-sentence-keys")
@example(content=b"\r\r", options="")
def test_any_text_is_embedded_or_an_error(content: bytes, options: str) -> None:
    sentences = None if is_binary(content) else sentences_of(content)
    with folder():
        Path("text").write_bytes(content)
        command = f"embed text out --input-format text --tokenizer whitespace {options}"
        done = ends_well(*command.split(), "--model", TINY, output="out")
        if done and options in ("", "--layout packed"):
            assert sentences is not None
            with open_activations("out") as activations:
                found = [values.shape[1] for values in activations]
            assert found == [len(sentence) for sentence in sentences]
        elif "--skip-errors" in options:
            lacks_tokens = sentences is not None and not any(sentences)
            assert done or is_binary(content) or lacks_tokens
        elif options != "--use-sentence-keys":
            assert done == (sentences is not None and any(sentences))


@given(content=contents, more=contents)
@example(content=b"\0", more=b"")
def test_any_fasta_is_embedded_or_an_error(content: bytes, more: bytes) -> None:
    def embed(*options: str) -> bool:
        """Return whether the file is embedded."""
        return ends_well(
            "embed", "x.fasta", "out", "--model", TINY, *options, output="out"
        )

    with folder():
        fasta = b">" + content + b"\n>" + more + b"\n>last\nMKV"
        Path("x.fasta").write_bytes(fasta)
        if not embed() and not embed("--skip-errors"):
            # The first line that is not UTF-8 shows what the file is.
            assert any(binary_type(line) for line in fasta.split(b"\n"))
            return
        with open_activations("out") as activations:
            for record, _ in activations.records():
                assert record.id


@given(content=contents, name=st.sampled_from(["text", "text.gz", "x.fasta.gz"]))
def test_any_bytes_after_the_mark_of_gzip_are_an_error(
    content: bytes, name: str
) -> None:
    with folder():
        Path(name).write_bytes(b"\x1f\x8b" + content)
        assert not ends_well("embed", name, "out", "--model", TINY, output="out")


@given(content=contents)
def test_any_bytes_as_options_or_weights_are_an_error(content: bytes) -> None:
    def embed(*model: str | Path) -> bool:
        """Return whether a text is embedded with this model."""
        return ends_well("embed", "text", "out", *model, "-q", output="out")

    options = TINY / "options.json"
    weights = TINY / "weights.hdf5"
    with folder():
        Path("text").write_text("the cat\n")
        Path("options.json").write_bytes(content)
        assert not embed("--options-file", "options.json", "--weight-file", weights)
        for name in ("weights.hdf5", "weights.safetensors"):
            Path(name).write_bytes(content)
            assert not embed("--options-file", options, "--weight-file", name)
        Path("model.zip").write_bytes(content)
        assert not embed("--model", "model.zip")


@given(partial=contents, log=contents)
def test_any_bytes_beside_an_output_are_reported_or_no_obstacle(
    partial: bytes, log: bytes
) -> None:
    def embed() -> bool:
        """Return whether the text is embedded."""
        return ends_well("embed", "text", "out", "--model", TINY, "-q", output="out")

    with folder():
        Path("text").write_text("the cat\n\nsat\n")
        Path("out.partial").write_bytes(partial)
        Path("out.partial.log").write_bytes(log)
        if not embed():
            Path("out.partial").unlink(missing_ok=True)
            Path("out.partial.log").unlink(missing_ok=True)
            assert embed()
        with open_activations("out") as activations:
            assert [values.shape[1] for values in activations] == [2, 0, 1]
