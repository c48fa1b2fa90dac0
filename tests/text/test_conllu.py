"""CoNLL-U: its words, its ids, and what is refused."""

import gzip
from pathlib import Path

import h5py
import numpy as np
import pytest
from commands import TINY, assert_fails, assert_misused, elmo
from hypothesis import given
from hypothesis import strategies as st
from runs import assert_equal, embed

from elmo_cli import ElmoEmbedder, open_activations
from elmo_cli.errors import InputError
from elmo_cli.text.entries import conllu_entries
from elmo_cli.text.lines import Record
from elmo_cli.text.records import checked_records
from elmo_cli.text.tokenizers import WHITESPACE

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


def read(text: str, *, skip_errors: bool = False) -> list[Record]:
    lines = (line.strip() for line in text.split("\n"))
    return list(checked_records(conllu_entries(lines, WHITESPACE), "a.conllu", skip_errors))


def test_words_are_tokens_and_ranges_and_empty_nodes_are_left_out() -> None:
    assert {record.key: record.tokens for record in read(TREEBANK)} == SENTENCES


words = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=5)


@given(st.lists(st.lists(words, min_size=1, max_size=5), max_size=5), st.booleans())
def test_what_is_written_is_read(sentences: list[list[str]], has_ids: bool) -> None:
    lines: list[str] = []
    for number, sentence in enumerate(sentences):
        lines += [f"# sent_id = s{number}"] if has_ids else []
        lines += [f"{place}\t{word}\t_" for place, word in enumerate(sentence, start=1)]
        lines.append("")
    records = read("\n".join(lines))
    assert [record.tokens for record in records] == sentences
    keys = [f"s{number}" if has_ids else None for number in range(len(sentences))]
    assert [record.key for record in records] == keys


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "# sent_id = a\nThe cat\n",
            "line 2: expected 10 fields with tabs between, found 'The cat'; --input-format text "
            "reads a sentence a line",
        ),
        (
            "1\ta\nx\tb\n",
            "line 2: field 1 (ID): expected a number such as 3, 3-4 or 3.1, found 'x'",
        ),
        ("1\ta\n2\t\t_\n", "line 2: field 2 (FORM): expected a word, found none"),
        (
            "# sent_id = a\n1\ta\n\n1\tb\n\n# sent_id = a\n1\tc\n",
            "line 4: expected an id, as before, found none",
        ),
        ("1\ta\n\n# sent_id = b\n1\tb\n", "line 3: expected no id, as before, found 'b'"),
        (
            "# sent_id = a/b\n1\ta\n",
            "line 1: the id 'a/b' cannot name a dataset of HDF5; leave out / and zero bytes",
        ),
    ],
)
def test_an_error_is_one_line_that_names_the_line_and_the_field(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    assert str(caught.value) == f"a.conllu, {message}"


def test_a_sentence_in_error_may_be_skipped() -> None:
    records = read("# sent_id = a\n1\n\n# sent_id = b\n1\tb\n", skip_errors=True)
    assert [(record.key, record.tokens) for record in records] == [(None, []), ("b", ["b"])]
    assert str(records[0].error).startswith("a.conllu, line 2: expected 10 fields")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a treebank, where commands run."""
    monkeypatch.delenv("ELMO_MODEL", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("a.conllu").write_text(TREEBANK, encoding="utf-8")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_datasets_are_named_by_sentence_ids(layout: str) -> None:
    Path("b.CoNLLU.gz").write_bytes(gzip.compress(TREEBANK.encode()))
    result = elmo("embed", "b.CoNLLU.gz", "out.hdf5", *TINY_MODEL, "--layout", layout)
    assert "out.hdf5: 2 sentences, 7 tokens" in result.stderr
    embedder = ElmoEmbedder(TINY / "options.json", TINY / "weights.hdf5")
    with open_activations("out.hdf5") as activations:
        assert activations.has_keys
        for key, tokens in SENTENCES.items():
            number = activations.number_of(key)
            assert activations.tokens(number) == tokens
            expected = embedder.embed_sentence(tokens)
            np.testing.assert_allclose(activations[key], expected, atol=2e-6)
    with h5py.File("out.hdf5") as file:
        assert ("fr-1" in file) == (layout == "allennlp")
        assert "sentence_to_index" not in file


@pytest.mark.usefixtures("folder")
def test_a_treebank_without_ids_is_numbered() -> None:
    text = TREEBANK.replace("sent_id", "number")
    arguments = ("embed", "-", "out.hdf5", *TINY_MODEL, "--input-format", "conllu")
    assert elmo(*arguments, stdin=text).exit_code == 0
    with open_activations("out.hdf5") as activations:
        assert not activations.has_keys
        assert [activations.tokens(number) for number in (0, 1)] == list(SENTENCES.values())
        assert activations.number_of("Oui") == 1


@pytest.mark.usefixtures("folder")
def test_a_run_of_a_treebank_that_was_stopped_resumes() -> None:
    Path("bad.conllu").write_text(f"{TREEBANK}\n# sent_id = fr-3\n1\n")
    with pytest.raises(InputError, match=r"bad\.conllu, line 19: expected 10 fields"):
        embed("bad.conllu", "out.hdf5")
    Path("bad.conllu").write_text(f"{TREEBANK}\n# sent_id = fr-3\n1\tNon\n")
    assert embed("bad.conllu", "out.hdf5").resumed_from == 2
    assert embed("bad.conllu", "whole.hdf5").resumed_from == 0
    assert_equal("out.hdf5", "whole.hdf5")
    with h5py.File("out.hdf5") as file:
        assert sorted(file) == ["fr-1", "fr-2", "fr-3"]
        assert file["fr-2"].attrs["tokens"] == '["Oui"]'


@pytest.mark.usefixtures("folder")
def test_options_that_do_nothing_with_a_treebank_are_wrong_usage() -> None:
    arguments = ("embed", "a.conllu", "out.hdf5")
    result = elmo(*arguments, "--tokenizer", "moses")
    assert_misused(result, "--tokenizer has no effect with conllu, which has tokens")
    result = elmo(*arguments, "--use-sentence-keys")
    assert_misused(result, "--use-sentence-keys has no effect with conllu, which has ids")
    Path("a.conllu").write_text("Oui .\n")
    message = (
        "a.conllu, line 1: expected 10 fields with tabs between, found 'Oui .'; --input-format "
        "text reads a sentence a line"
    )
    assert_fails(elmo(*arguments, *TINY_MODEL), message, loads=True)
    assert [path.name for path in Path().iterdir()] == ["a.conllu"]
