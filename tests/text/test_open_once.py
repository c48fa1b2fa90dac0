"""An input is opened once, whatever its format is and however often it is looked at."""

import gzip
import json
from pathlib import Path

import pytest
from commands import run_python
from strategies import make_language_model, small_architecture
from table_files import NAMES, write_table

COUNT_OPENINGS = """
import json, sys
from click.testing import CliRunner
from elmo_cli.cli import main

commands, counts = json.loads(sys.argv[1]), []

def count(event, arguments):
    if event == "open" and str(arguments[0]) == path:
        counts[-1] += 1

sys.addaudithook(count)
path = ""
for path, *rest in commands:
    counts.append(0)
    result = CliRunner().invoke(main, ["embed", path, *rest, "--overwrite"])
    assert result.exit_code == 0, result.output
print(json.dumps(counts))
"""
"""Program that prints how often each of some commands opens its input."""


def test_embed_opens_its_input_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("a b\n\nc\n")
    Path("a.gz").write_bytes(gzip.compress(b"a b\nc\n"))
    for name in NAMES:
        write_table(f"a.{name}", [{"id": number, "text": "a b"} for number in range(3)])
    model = make_language_model(small_architecture(), 1, tmp_path).options.parent
    options = small_architecture() | {"training": {"tokenizer": "moses:en"}}
    (model / "options.json").write_text(json.dumps(options))
    commands = [
        *("a.txt text.hdf5", "a.gz gz.hdf5", "a.csv csv.parquet", "a.jsonl jsonl.hdf5"),
        *("a.json json.hdf5", "a.parquet parquet.parquet --keep-columns all"),
        "a.csv kept.parquet --rows tokens --keep-columns all",
        "a.txt moses.hdf5 --tokenizer moses",
    ]
    arguments = json.dumps([[*command.split(), "--model", str(model)] for command in commands])
    result = run_python("-c", COUNT_OPENINGS, arguments)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == [1] * len(commands)
