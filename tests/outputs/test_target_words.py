"""`elmo embed --words`: the uses of some words alone, in every form that holds them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import TINY, assert_fails, assert_misused, elmo
from layouts import layouts
from numpy.testing import assert_allclose, assert_array_equal
from runs import embed

from elmo_cli import ElmoEmbedder, ElmoError, open_activations
from elmo_cli.analysis.uses import find_uses

TEXT = "The bank lent\nno word\n\nbanks and a bank\nThe bank lent\nit saw\nthe end of banks\n"
WORDS = {"bank": "bank", "banks": "bank", "saw": "see", "fish": "fish"}
POSITIONS = [[1], [], [], [0, 3], [1], [1], [3]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT)
    Path("targets.txt").write_text("bank,banks\nsee,saw\nfish\n")


@layouts
def test_the_file_has_the_uses_with_line_and_position(layout: str) -> None:
    embed("text.txt", "all.hdf5", layout=layout)
    embed("text.txt", "uses.hdf5", layout=layout, words=WORDS)
    with open_activations("all.hdf5") as everything, open_activations("uses.hdf5") as uses:
        assert len(uses) == 7
        found = list(uses.records())
        for (record, values), whole, positions, line in zip(
            found, everything, POSITIONS, TEXT.splitlines(), strict=True
        ):
            assert_allclose(values, whole[:, positions], atol=2e-6)
            assert record.tokens == (line.split() if positions else [])
            assert record.attributes.get("positions", "") == ",".join(map(str, positions))
        # The same uses are found in both, also those of lines that are there twice.
        one, other = find_uses(uses, WORDS), find_uses(everything, WORDS)
        assert [use.record for use in one["bank"]] == [0, 3, 3, 4, 6]
        assert one["bank"][0].occurrence.marked == "The [bank] lent"
        assert one.keys() == {"bank", "see", "fish"}
        last = {(use.record, use.occurrence.index): use.vector for use in other["bank"]}
        for use in one["bank"]:
            if use.record or layout == "packed":
                assert_allclose(use.vector, last[use.record, use.occurrence.index], atol=2e-6)


def test_only_sentences_with_a_word_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = ElmoEmbedder(model=TINY)
    compute, computed = embedder.embed_window, list[list[str]]()

    def noted(window: list[list[str]], *rest: Any) -> Any:
        computed.extend(filter(None, window))
        return compute(window, *rest)

    monkeypatch.setattr(embedder, "embed_window", noted)
    embedder.embed_file("text.txt", "uses.hdf5", words=WORDS)
    lines = [line.split() for line in TEXT.splitlines()]
    assert computed == [line for line, at in zip(lines, POSITIONS, strict=True) if at]


def test_a_file_of_other_words_is_refused() -> None:
    embed("text.txt", "uses.hdf5", words=WORDS)
    with pytest.raises(ElmoError, match=r"differs in words \("):
        embed("text.txt", "uses.hdf5", words={"bank": "bank"})


@pytest.mark.parametrize(("layers", "n_axes"), [("top", 2), ("all", 3)])
def test_npz_has_a_matrix_a_word(layers: str, n_axes: int) -> None:
    embed("text.txt", "uses.npz", output_format=layers, words=WORDS)
    embed("text.txt", "all.hdf5", output_format=layers, layout="packed")
    with np.load("uses.npz") as arrays, open_activations("all.hdf5") as everything:
        assert list(arrays) == ["bank", "see", "fish"]
        rows = [
            np.swapaxes(values, 0, -2)[positions]
            for values, positions in zip(everything, POSITIONS, strict=True)
        ]
        assert arrays["bank"].ndim == n_axes
        assert_allclose(arrays["bank"], np.concatenate([*rows[:5], rows[6]]), atol=2e-6)
        assert_allclose(arrays["see"], rows[5], atol=2e-6)
        assert arrays["fish"].shape == (0, *arrays["bank"].shape[1:])
    first = Path("uses.npz").read_bytes()
    embed("text.txt", "uses.npz", output_format=layers, words=WORDS, overwrite=True)
    assert Path("uses.npz").read_bytes() == first


def test_change_is_the_same_from_all_forms() -> None:
    Path("new.txt").write_text(TEXT.replace("bank", "big bank"))
    model = ("--model", TINY, "--layers", "top", "-q")
    words = ("--words", "targets.txt")
    for name in ("text", "new"):
        for output in (f"{name}.npz", f"{name}.hdf5"):
            assert elmo("embed", f"{name}.txt", output, *words, *model).exit_code == 0
        elmo("embed", f"{name}.txt", f"{name}.all.hdf5", "--layout", "packed", *model)
    answers = [
        elmo("change", f"text{form}", f"new{form}", *more, "--json")
        for form, more in ((".npz", ()), (".hdf5", ()), (".all.hdf5", words))
    ]
    found = [json.loads(answer.stdout) for answer in answers]
    assert {(each["word"], each["n_old"], each["n_new"]) for each in found} == {("bank", 5, 5)}
    assert_allclose([each["change"] for each in found], found[0]["change"], rtol=1e-5)
    left_out = "fish is left out: 0 uses and 0, and 3 are needed in each\n"
    assert left_out in answers[0].stderr


@pytest.mark.parametrize("tokenizer", ["whitespace", "moses"])
def test_the_tokens_of_any_tokenizer_are_searched(tokenizer: str) -> None:
    Path("raw.txt").write_text("We saw the bank.\n")
    embed("raw.txt", "uses.hdf5", words=WORDS, tokenizer=tokenizer)
    with open_activations("uses.hdf5") as uses:
        ((record, values),) = uses.records()
    assert record.attributes["positions"] == ("1" if tokenizer == "whitespace" else "1,3")
    assert_array_equal(values.shape[1], len(record.attributes["positions"].split(",")))


def test_what_does_not_go_together_is_refused() -> None:
    command = ("embed", "text.txt", "out.hdf5", "--model", TINY, "--words", "targets.txt")
    assert_misused(elmo(*command, "--pooling", "max"), "choose one of --words and --pooling")
    assert_misused(elmo(*command, "--state", "carry"), "choose one of --words and --state carry")
    jsonl = elmo(*command, "--format", "jsonl")
    assert_misused(jsonl, "--words requires HDF5 or npz, found jsonl")
    missing = elmo("embed", "text.txt", "out.hdf5", "--words", "no.txt")
    assert_fails(missing, "no.txt: cannot read the input: No such file or directory")
    for options in ({"pooling": "max"}, {"forget_sentences": True}, {"use_sentence_keys": True}):
        with pytest.raises(ElmoError, match=r"^--words requires "):
            embed("text.txt", "out.hdf5", words=WORDS, **options)
    with pytest.raises(ElmoError, match=r"^--words requires --state zero or warm"):
        embed("text.txt", "out.hdf5", "carry", words=WORDS)
    assert not Path("out.hdf5").exists()
