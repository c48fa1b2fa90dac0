"""Inputs without tokens."""

from pathlib import Path
from typing import Any

import pytest

from elmo_cli import ElmoEmbedder, open_activations
from elmo_cli.errors.exceptions import InputError


@pytest.mark.parametrize("content", ["", "\n", " \n\n"])
@pytest.mark.parametrize("output", ["out.hdf5", "out.jsonl", "out.npz"])
def test_an_input_without_tokens_is_an_error(
    folder: Path, tiny: ElmoEmbedder, content: str, output: str
) -> None:
    Path("in.txt").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"^in\.txt: (the file is empty|no tokens)"):
        tiny.embed_file("in.txt", output)
    assert not Path(output).exists()


@pytest.mark.parametrize("content", ["", "id,text\na,\n"])
def test_a_table_without_a_header_or_a_text_is_an_error(
    folder: Path, tiny: ElmoEmbedder, content: str
) -> None:
    Path("in.csv").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"^in\.csv: (the file is empty|no tokens)"):
        tiny.embed_file("in.csv", "out.hdf5")


@pytest.mark.parametrize("id_column", [None, "id", ""])
@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_a_table_without_rows_gives_an_output_without_rows(
    folder: Path, tiny: ElmoEmbedder, layout: Any, id_column: str | None
) -> None:
    Path("in.csv").write_text("id,text\n", encoding="utf-8")
    tiny.embed_file("in.csv", "out.hdf5", layout=layout, id_column=id_column)
    with open_activations("out.hdf5") as activations:
        assert len(activations) == 0


@pytest.mark.parametrize(
    ("header", "id_column", "has_ids"),
    [("id,text", None, True), ("text", None, False), ("id,text", "", False)],
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_without_rows_gives_an_output_with_its_column_of_ids(
    folder: Path,
    tiny: ElmoEmbedder,
    header: str,
    id_column: str | None,
    has_ids: bool,
    suffix: str,
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    source = f"in.{suffix}"
    if suffix == "csv":
        Path(source).write_text(f"{header}\n", encoding="utf-8")
    else:
        fields = [(name, pyarrow.string()) for name in header.split(",")]
        parquet.write_table(pyarrow.schema(fields).empty_table(), source)
    tiny.embed_file(source, "out.parquet", id_column=id_column)
    assert ("id" in parquet.read_schema("out.parquet").names) == has_ids


def test_a_shard_without_lines_is_none(folder: Path, tiny: ElmoEmbedder) -> None:
    Path("in.txt").write_text("a cat\n", encoding="utf-8")
    tiny.embed_file("in.txt", "out.hdf5", shard="2/2")
    with open_activations("out.hdf5") as activations:
        assert len(activations) == 0


def test_a_skipped_line_may_have_had_tokens(folder: Path, tiny: ElmoEmbedder) -> None:
    Path("in.txt").write_bytes(b"caf\xe9\n")
    tiny.embed_file("in.txt", "out.hdf5", skip_errors=True)
    with open_activations("out.hdf5") as activations:
        assert activations[0].shape == (3, 0, 32)
