"""Records that fail are skipped, where asked, and named."""

import json
import logging
from pathlib import Path
from typing import Any

import h5py
import pytest
from conftest import GOLDEN
from runs import limit_memory

from elmo_cli import ElmoEmbedder, open_activations


def embed(path: Path, output: Path, **settings: Any) -> None:
    ElmoEmbedder(model=GOLDEN / "relu", batch_tokens=8).embed_file(
        path, output, skip_errors=True, **settings
    )


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_skipped_lines_get_an_empty_dataset_and_an_attribute(
    layout: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, output = tmp_path / "text", tmp_path / "out"
    path.write_bytes(b"a b\ncaf\xe9 x\n\nc\n\xff\n")
    embed(path, output, layout=layout)
    faults = {
        "1": f"{path}, line 2, column 4: not valid UTF-8 (byte 0xe9). If it is "
        "Windows-1252 or Latin-1, convert it with `iconv -f windows-1252 -t utf-8`.",
        "4": f"{path}, line 5, column 1: not valid UTF-8 (byte 0xff). If it is "
        "Windows-1252 or Latin-1, convert it with `iconv -f windows-1252 -t utf-8`.",
    }
    with open_activations(output) as activations:
        assert [values.shape[1] for values in activations] == [2, 0, 0, 1, 0]
        assert json.loads(activations.attributes["skipped"]) == faults
    logged = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert logged == [f"Skipped: {fault}" for fault in faults.values()]


def test_a_line_too_long_for_memory_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_memory(monkeypatch, 40)
    path, output = tmp_path / "text", tmp_path / "out"
    path.write_text("a\n" + "b " * 50 + "\nc\n")
    embed(path, output)
    with open_activations(output) as activations:
        assert [values.shape[1] for values in activations] == [1, 0, 1]
        [(name, reason)] = json.loads(activations.attributes["skipped"]).items()
        assert (name, reason) == ("1", "line 2: out of memory: can't allocate memory: 9 bytes")


def test_skipped_sequences_with_a_valid_id_get_a_dataset(tmp_path: Path) -> None:
    path, output = tmp_path / "a.fasta", tmp_path / "out"
    path.write_bytes(b">a\nMV\n>b x\nM\xffL\n>a\nM\n>x/y\nM\n>c\nK\n")
    embed(path, output)
    with h5py.File(output) as file:
        assert {name: file[name].shape for name in file} == {
            **{"a": (3, 2, 32), "b": (3, 0, 32), "c": (3, 1, 32)}
        }
        skipped = json.loads(file.attrs["skipped"])
        assert (file.attrs["records"], file.attrs["input_records"]) == ("3", "5")
    assert set(skipped) == {"b", "sequence 3", "sequence 4"}
    assert skipped["b"].startswith(f"{path}, line 4, column 2: not valid UTF-8")
    repeated = f"{path}, line 5: the id 'a' is also in line 1, but ids name the datasets"
    assert skipped["sequence 3"].startswith(repeated)
    assert skipped["sequence 4"].startswith(f"{path}, line 7: the id 'x/y' cannot name")


def test_only_the_first_skipped_records_are_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, output = tmp_path / "text", tmp_path / "out"
    path.write_bytes(b"\xff\n" * 3000)
    embed(path, output)
    with open_activations(output) as activations:
        assert len(json.loads(activations.attributes["skipped"])) == 3000
    logged = [each.message for each in caplog.records if each.message.startswith("Skipped")]
    assert len(logged) == 21
    assert logged[-1] == "Skipped 3,000 lines in all"
