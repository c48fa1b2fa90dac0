"""`elmo embed` of CoNLL-U, JSON lines and FASTA."""

import gzip
import json
from pathlib import Path
from typing import Any

import h5py
import pytest
from commands import TINY, elmo
from numpy.testing import assert_allclose
from runs import assert_same_file, embed

from elmo_cli import ElmoEmbedder, open_activations
from elmo_cli.errors import InputError

TINY_MODEL = ("--model", str(TINY))
TREEBANK = """\
# newdoc id = d

# sent_id = fr-1
# text = Du vin de New York !
1-2\tDu\t_\t_\t_\t_\t_\t_\t_\t_
1\tDe\tde\tADP\t_\t_\t_\t_\t_\t_
2\tle\tle\tDET\t_\t_\t_\t_\t_\t_
3\tvin\tvin\tNOUN\t_\t_\t_\t_\t_\t_
3.1\tbon\tbon\tADJ\t_\t_\t_\t_\t_\t_
4\tde\tde\tADP\t_\t_\t_\t_\t_\t_
5\tNew York\tNew York\tPROPN\t_\t_\t_\t_\t_\t_
6\t!\t!\tPUNCT\t_\t_\t_\t_\t_\t_


# sent_id=fr-2
1\tOui\toui\tINTJ\t_\t_\t_\t_\t_\t_
"""
SENTENCES = {"fr-1": ["De", "le", "vin", "de", "New York", "!"], "fr-2": ["Oui"]}
PROTEINS = """\
>sp|P1|ONE First protein OS=Homo sapiens
MKV L
agh*

>two
>three a/b
SEQWENCE
"""


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    """Create a folder with a treebank and proteins, where commands run."""
    Path("a.conllu").write_text(TREEBANK, encoding="utf-8")
    Path("p.fasta").write_text(PROTEINS, encoding="utf-8")


# CoNLL-U


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_datasets_are_named_by_sentence_ids(layout: str) -> None:
    Path("b.CoNLLU.gz").write_bytes(gzip.compress(TREEBANK.encode()))
    result = elmo("embed", "b.CoNLLU.gz", "out.hdf5", *TINY_MODEL, "--layout", layout)
    assert "Wrote out.hdf5: 2 sentences, 7 tokens" in result.stderr
    embedder = ElmoEmbedder(model=TINY)
    with open_activations("out.hdf5") as activations:
        assert activations.has_keys
        for key, tokens in SENTENCES.items():
            number = activations.number_of(key)
            assert activations.tokens(number) == tokens
            assert_allclose(activations[key], embedder.embed_sentence(tokens), atol=2e-6)
    with h5py.File("out.hdf5") as file:
        assert ("fr-1" in file) == (layout == "allennlp")
        assert "sentence_to_index" not in file


def test_a_run_that_an_error_ended_resumes() -> None:
    Path("bad.conllu").write_text(f"{TREEBANK}\n# sent_id = fr-3\n1\n")
    often: dict[str, Any] = {"checkpoint_tokens": 1}
    with pytest.raises(InputError, match=r"bad\.conllu, line 19: expected 10 fields"):
        embed("bad.conllu", "out.hdf5", **often)
    Path("bad.conllu").write_text(f"{TREEBANK}\n# sent_id = fr-3\n1\tNon\n")
    assert embed("bad.conllu", "out.hdf5", **often).resumed_from == 2
    assert embed("bad.conllu", "whole.hdf5", **often).resumed_from == 0
    assert_same_file("out.hdf5", "whole.hdf5")
    with h5py.File("out.hdf5") as file:
        assert sorted(file) == ["fr-1", "fr-2", "fr-3"]
        assert file["fr-2"].attrs["tokens"] == '["Oui"]'


# JSON lines


def test_a_skipped_record_keeps_its_number_but_not_its_id() -> None:
    arguments = ("embed", "-", *TINY_MODEL, "--input-format", "jsonl", "--skip-errors")
    elmo(*arguments, "out.hdf5", stdin='{\n{"text": "a b"}\n{}\n{"text": "c"}\n')
    with open_activations("out.hdf5") as activations:
        assert [len(values[0]) for values in activations] == [0, 2, 0, 1]
        assert json.loads(activations.attributes["skipped"]).keys() == {"0", "2"}
    elmo(*arguments, "keys.hdf5", stdin='{\n{"id": "x", "text": "a b"}\n{"id": "y"}\n')
    with open_activations("keys.hdf5") as activations:
        assert [activations.key(number) for number in range(len(activations))] == ["x"]
        assert json.loads(activations.attributes["skipped"]).keys() == {"record 1", "record 3"}


# FASTA


def test_a_residue_is_a_token_and_the_first_word_the_key() -> None:
    result = elmo("embed", "p.fasta", "out.h5", *TINY_MODEL)
    assert result.exit_code == 0, result.stderr
    expected = ElmoEmbedder(model=TINY).embed_batch([list("MKVLAGH*"), [], list("SEQWENCE")])
    ids = ["sp|P1|ONE First protein OS=Homo sapiens", "two", "three a/b"]
    with h5py.File("out.h5") as file:
        assert file.attrs["format"] == "fasta"
        assert len(file) == 3
        for name, array in zip(ids, expected, strict=True):
            dataset = file[name.split()[0]]
            assert (dataset.attrs["original_id"], dataset.shape) == (name, array.shape)
            assert_allclose(dataset[()], array, atol=1e-5)
    # The mean of the sum of the layers is SeqVec's vector.
    chosen = ("--layers", "sum", "--pooling", "mean", "--input-format", "fasta")
    elmo("embed", "-", "sum.h5", *chosen, *TINY_MODEL, stdin=PROTEINS)
    with h5py.File("sum.h5") as file:
        assert_allclose(file["three"][()], expected[2].sum(axis=0).mean(axis=0), atol=1e-5)
        assert file["two"][()].tolist() == [0] * 32


def test_proteins_for_a_model_of_english_are_warned_of() -> None:
    Path("q.fasta").write_text(">a\n" + "MKVLAGH" * 5 + "\n")
    message = (
        "Warning: the input seems to be proteins, but the model mini was trained on English text. "
        "--model seqvec was trained on proteins.\n"
    )
    assert elmo("embed", "q.fasta", "out.h5", "--model", "mini").stderr.count(message) == 1
