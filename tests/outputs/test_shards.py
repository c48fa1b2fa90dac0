"""Shards of an input, read as one file."""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import runs
from hypothesis import given
from hypothesis import strategies as st
from layouts import layouts, line_record

from elmo_cli import open_activations
from elmo_cli.errors import InputError, StoppedError
from elmo_cli.text.records import Shard, ShardReader

embed = partial(runs.embed, skip_errors=True, checkpoint_tokens=1)

TEXT = (
    "The cat sat\n\na bank\nthe river bank\na bank\nbirds sang\n\na bank\nwhile the cat sat\nx y\n"
)
FASTA = b">a 1\nMV\n>b 2\nM\n>c 3\n\n>a 4\nM\n>e 5\nKK\xff\n>f 6\nMKV\n>g 7\nM\n"


@pytest.fixture(autouse=True)
def texts(folder: Path) -> None:
    """Write a text and FASTA into the current folder."""
    Path("text").write_text(TEXT)
    Path("text.fasta").write_bytes(FASTA)


def embed_shards(source: str, total: int, **settings: Any) -> list[str]:
    for number in range(1, total + 1):
        embed(source, f"shard-{number}", shard=f"{number}/{total}", **settings)
    return [f"shard-{number}" for number in range(1, total + 1)]


@given(n_lines=st.integers(0, 40), total=st.integers(1, 9))
def test_every_record_is_in_one_shard(n_lines: int, total: int) -> None:
    lines = [str(number) for number in range(n_lines)]
    numbers = []
    for number in range(1, total + 1):
        shard = Shard(number, total)
        records = ShardReader(map(line_record, lines), shard)
        for index, (record, _, _) in enumerate(records.read()):
            assert record.text == str(shard.number_in_input(index))
            numbers.append(int(record.text))
        whole = ShardReader(map(line_record, lines))
        list(whole.read())
        assert records.progress == whole.progress  # the hash is of the whole input
    assert sorted(numbers) == list(range(n_lines))


@layouts
@pytest.mark.parametrize(("source", "total"), [("text", 11), ("text.fasta", 3)])
def test_shards_read_as_one_equal_the_output_of_one_run(
    layout: str, source: str, total: int
) -> None:
    settings: dict[str, Any] = {"shard": f"2/{total}", "layout": layout}
    with pytest.raises(StoppedError, match=r"Stopped after (line|sequence) 2\. .* after \w+ 2\.$"):
        embed(source, "shard-2", should_stop=runs.stop_after(1), **settings)
    shards = embed_shards(source, total, layout=layout)[::-1]
    embed(source, "whole", layout=layout)
    with open_activations(*shards) as shared, open_activations("whole") as whole:
        assert len(shared) == len(whole)
        in_order = layout == "packed" or source == "text"
        for number, (record, values) in enumerate(whole.records()):
            index = number if in_order else shared.number_of(record.id or "")
            np.testing.assert_allclose(shared[index], values, atol=1e-6)
            assert shared.key(index) == record.id
            assert (shared.sentence(index) == record.text) or (layout, source) != ("packed", "text")
            if in_order and (name := record.id or record.text):
                assert shared.number_of(name) == whole.number_of(name)
        if in_order:
            for values, expected in zip(shared, whole, strict=True):
                np.testing.assert_allclose(values, expected, atol=1e-6)


@layouts
def test_a_shard_that_has_lost_records_is_refused(layout: str) -> None:
    shards = embed_shards("text", 3, layout=layout)
    with h5py.File("shard-3", "r+") as file:
        if layout == "packed":
            file["offsets"].resize(3, axis=0)
        else:
            del file["8"]
    with pytest.raises(InputError, match=r"^shard-3: the file is damaged: "):
        open_activations(*shards)


MIXED = "shard-1 and shard-2 cannot be read together: "
STOP = {"should_stop": lambda: True}


@pytest.mark.parametrize(
    ("read", "text", "options", "message"),
    [
        ("13", TEXT, {}, "shard-1: expected all 3 shards, each once, found 1/3, 3/3"),
        ("221", TEXT, {}, "shard-2: expected all 3 shards, each once, found 1/3, 2/3, 2/3"),
        ("123", TEXT, {"output_format": "top"}, f"{MIXED}--layers is all in shard-1 and top"),
        ("123", TEXT + "x\n", {}, f"{MIXED}number of input records is 10 in shard-1 and 11"),
        ("123", TEXT, STOP, "shard-2: the run is not finished. Run its command again."),
    ],
)
def test_shards_that_do_not_make_one_output_are_refused(
    read: str, text: str, options: dict[str, Any], message: str
) -> None:
    embed_shards("text", 3)
    Path("text").write_text(text)
    Path("shard-2").unlink()
    with suppress(StoppedError):
        embed("text", "shard-2", shard="2/3", **options)
    with pytest.raises(InputError, match=rf"^{message}"):
        open_activations(*(f"shard-{number}" for number in read))


def test_datasets_of_a_shard_have_the_numbers_of_the_input() -> None:
    for layout in ("allennlp", "packed"):
        embed("text", layout, shard="2/3", layout=layout)
        with open_activations(layout) as activations:
            assert [activations[n].shape[1] for n in range(len(activations))] == [0, 2, 2]
            assert activations.number_of("a bank") == 2
    with h5py.File("allennlp") as file:
        assert set(file) == {"1", "4", "7", "sentence_to_index"}
