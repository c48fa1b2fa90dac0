"""Lines of a text as bytes, from files, gzip and standard input, and joined to paragraphs."""

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.errors import InputError
from elmo_cli.text.input_formats import open_input, open_records
from elmo_cli.text.records import Record, TextSettings
from elmo_cli.text.sources import LineReader, Source, read_text
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer, make_tokenizer


def lines_of(content: bytes, name: str = "input.txt") -> list[str]:
    return list(LineReader(name, io.BytesIO(content)).lines())


def read_sentences(path: str | Path) -> list[list[str]]:
    """Return the tokens of each line of a file."""
    with Source(path) as source:
        return [WHITESPACE.tokenize(line) for line in source.lines()[0]]


def test_a_line_is_split_into_tokens_at_white_space(tmp_path: Path) -> None:
    path = tmp_path / "input.txt"
    path.write_text("The cat\tsat .\n\n  naïve \u3000 東京  \n  \n", encoding="utf-8")
    assert read_sentences(path) == [["The", "cat", "sat", "."], [], ["naïve", "東京"], []]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_lf_ends_a_line_of_a_file_with_lf(separator: str) -> None:
    lines = [f"a{separator}b", f"c{separator}d"]
    assert lines_of("".join(f"{line}\n" for line in lines).encode()) == lines


@pytest.mark.parametrize("content", [b"a\r\rb", b"a\r\rb\r"])
def test_cr_ends_the_lines_of_a_file_without_lf(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "input.txt"
    for stored in (content, gzip.compress(content)):
        path.write_bytes(stored)
        assert read_sentences(path) == [["a"], [], ["b"]]
    path.write_bytes(content)
    with path.open() as file, Source(file) as source:
        assert list(source.lines()[0]) == ["a", "", "b"]
    assert read_text(path).splitlines() == ["a", "", "b"]


def test_long_files_with_cr_are_read_in_pieces() -> None:
    lines = [f"{'ab' * (i % 7)}{i}" for i in range(40_000)] + ["x" * 300_000, "end"]
    for end in ("\r", "\r\n"):
        content = end.join(lines).encode()
        reader = LineReader("x", io.BytesIO(content), splits_at_cr=True)
        assert list(reader.lines()) == lines


def test_a_reader_may_begin_in_the_middle() -> None:
    for content, expected in ((b"a\nb\rc", ["b\rc"]), (b"a\rb\rc", ["b", "c"])):
        reader = LineReader("x", io.BytesIO(content), first=2)
        reader.seek(2)
        assert list(reader.lines()) == expected


def test_byte_order_marks_are_no_part_of_first_tokens() -> None:
    text = "\ufeffa b\n\ufeff\ufeffc\n"
    assert lines_of(text.encode()) == ["a b", "c"]
    with Source(io.StringIO(text)) as source:
        assert list(source.lines()[0]) == ["a b", "c"]


@given(st.lists(st.text("ab é東\t", max_size=8), max_size=8))
def test_lines_are_read_back_as_they_were_written(lines: list[str]) -> None:
    content = "".join(f"{line}\n" for line in lines).encode()
    assert lines_of(content) == [line.strip() for line in lines]
    assert lines_of(gzip.compress(content), "input.txt.gz") == [line.strip() for line in lines]


# gzip


def noise(n_lines: int) -> bytes:
    """Return lines that hardly compress, so that their file is longer than any buffer."""
    return b"".join(b"%x\n" % pow(3, 1000 + i, 2**256 - 189) for i in range(n_lines))


def test_a_truncated_gzip_file_is_reported_after_its_good_lines() -> None:
    content = gzip.compress(noise(8000))
    lines = LineReader("input.gz", io.BytesIO(content[: len(content) * 3 // 4])).lines()
    read: list[str] = []
    with pytest.raises(InputError, match=r"^input\.gz, line \d+: reading failed: ") as caught:
        read.extend(lines)
    assert "ended before the end-of-stream marker" in str(caught.value)
    assert 0 < len(read) < 8000
    assert f"line {len(read) + 1}:" in str(caught.value)


def test_what_is_no_gzip_is_reported() -> None:
    for content, message in (
        (gzip.compress(noise(100))[:20] + b"\xff" * 40, "line 1: reading failed: Error -3 while "),
        (gzip.compress(b"a\n")[:-8] + bytes(8), "line 2: reading failed: CRC check failed"),
    ):
        with pytest.raises(InputError, match=f"^input.gz, {message}"):
            lines_of(content, "input.gz")


# Standard input


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_dash_is_standard_input_which_stays_open(
    compress: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(compress(b"a b\n\xc3\xa9\n"))))
    monkeypatch.setattr("sys.stdin", stdin)
    assert read_sentences("-") == [["a", "b"], ["é"]]
    assert not stdin.buffer.closed


# Hard-wrapped text


def read_paragraphs(path: Path, tokenizer: Tokenizer | None = None) -> list[Record]:
    settings = TextSettings("text", skip_errors=True, paragraphs=True)
    with open_records(open_input(path, settings, tokenizer)) as (records, *_):
        return list(records)


def test_lines_until_a_blank_line_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_bytes(b"\n\nThe river\nrose .\n\n\n\xff\nThe\nend .")
    records = read_paragraphs(path)
    assert [record.text for record in records] == ["The river rose .", "", "The end ."]
    assert [record.error is None for record in records] == [True, False, True]


def test_sentences_of_paragraphs_know_their_line(tmp_path: Path) -> None:
    pytest.importorskip("sentencex")
    path = tmp_path / "book.txt"
    path.write_text("\nOne two\nthree. Four\nfive.\n\n\nSix.\n")
    records = read_paragraphs(path, make_tokenizer("whitespace", "en", split_sentences=True))
    assert [record.text for record in records] == ["One two three.", "Four five.", "Six."]
    assert [record.attributes["line"] for record in records] == [1, 1, 6]
