"""Word senses: corpora are read as they are, and planted senses are found."""

from pathlib import Path

import numpy as np
import pytest
import word_senses
from planted import PlantedEmbedder
from sense_data import (
    SenseSentence,
    Target,
    read_semcor,
    read_sense_numbers,
    read_test_sets,
    word_of,
)
from tables import Figure

BANK = ("bank", "n")
RIVER, MONEY = "bank%1:17:01::", "bank%1:14:00::"
NUMBERS = {RIVER: 1, MONEY: 2, "mouse%1:05:00::": 1, "mouse%1:06:00::": 4}


def sentence(before: str, *senses: str, source: str = "SemCor") -> SenseSentence:
    """Return a sentence of two tokens, the second one with senses."""
    word = word_of(senses[0])
    target = Target(range(1, 2), word, senses)
    return SenseSentence([before, word[0]], [target], source)


SEMCOR = [
    *[sentence("a", MONEY)] * 3,
    *[sentence("the", RIVER)] * 2,
    sentence("a", "bank%1:99:00::"),  # a sense that WordNet lacks
]
TESTS = [
    sentence("a", MONEY, source="one"),
    sentence("the", RIVER, source="one"),
    sentence("the", RIVER, MONEY, source="two"),
    sentence("that", "mouse%1:05:00::", source="two"),  # SemCor lacks the mouse.
    sentence("that", "mouse%1:06:00::", source="two"),
]


def f1(fallback: bool) -> dict[str, float]:
    """Return the F1 of each method on all planted tests."""
    guesses = word_senses.guess(PlantedEmbedder(), SEMCOR, TESTS, NUMBERS)
    estimate = guesses.f1(np.ones(len(TESTS), bool), fallback=fallback)
    return dict(zip(guesses.methods, estimate.values.tolist(), strict=True))


def test_planted_senses_are_found_with_and_without_fallback() -> None:
    scores = f1(fallback=True)
    assert scores["layer 1"] == pytest.approx(4 / 5)  # all but the second mouse
    assert scores["WordNet's first sense"] == pytest.approx(3 / 5)
    assert scores["most frequent sense in SemCor"] == pytest.approx(3 / 5)
    # All vectors of layer 0 are equal, so that the most frequent sense wins.
    assert scores["layer 0"] == scores["most frequent sense in SemCor"]
    scores = f1(fallback=False)
    # 3 right of 3 answers to 5 questions: precision 1, recall 3 / 5.
    assert scores["layer 1"] == pytest.approx(2 * 1 * (3 / 5) / (1 + 3 / 5))
    assert scores["most frequent sense in SemCor"] == pytest.approx(4 / 8)
    assert scores["WordNet's first sense"] == pytest.approx(3 / 5)


def test_noise_is_right_by_chance() -> None:
    random = np.random.default_rng(0)
    semcor = [sentence("a", (MONEY, RIVER)[k % 2]) for k in range(40)]
    tests = [sentence("a", (MONEY, RIVER)[random.integers(2)], source="one") for _ in range(800)]
    guesses = word_senses.guess(PlantedEmbedder(), semcor, tests, NUMBERS)
    scores = guesses.f1(np.ones(800, bool), fallback=True)
    noise = guesses.methods.index("layer 2")
    assert scores.values[noise] == pytest.approx(0.5, abs=0.06)
    assert scores.errors[noise] == pytest.approx(np.sqrt(0.25 / 800), rel=0.1)


def test_the_tables_have_a_column_per_data_set() -> None:
    with_fallback, without = word_senses.evaluate(PlantedEmbedder(), SEMCOR, TESTS, NUMBERS)
    assert with_fallback.columns == ["all", "one", "two", "several senses in SemCor"]
    shown = [round(cell.value, 1) for cell in with_fallback.rows["layer 1"] if cell]
    assert shown == [80.0, 100.0, 66.7, 100.0]
    assert "5 words, 60.0 % of them in SemCor, 60.0 % with several" in with_fallback.note
    assert with_fallback.rows["published: biLM, layer 2"] == [Figure(69.0), None, None, None]
    assert (with_fallback.rows["layer 2 minus layer 1"][0] or Figure(1)).value <= 0
    assert without.columns == with_fallback.columns


def test_a_word_of_several_tokens_has_their_mean() -> None:
    layers = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    target = Target(range(0, 2), BANK, (MONEY,))
    features = word_senses._features(layers, target)
    assert features.tolist() == [[1, 2], [7, 8], [8, 9]]


# Files.


def test_original_semcor_is_read(tmp_path: Path) -> None:
    path = tmp_path / "br-a01"
    path.write_text(
        '<contextfile concordance="brown">\n<context filename="br-a01" paras="yes">\n'
        '<p pnum="1">\n<s snum="1">\n'
        '<wf cmd="done" rdf="group" pos="NNP" lemma="group" wnsn="1" lexsn="1:03:00::" '
        'pn="group">Fulton_County</wf>\n'
        '<wf cmd="ignore" pos="DT">ca</wf>\n<wf cmd="tag" pos="RB">n\'t</wf>\n'
        "<punc>``</punc>\n"
        "<wf cmd=done pos=VB lemma=be wnsn=1;2 lexsn=2:42:03::;2:42:06::>be</wf>\n"
        '<wf cmd="done" pos="JJ" lemma="several" lexsn="5:00:00:some(a):00">several</wf>\n'
        '<wf cmd="done" pos="VBD" ot="notag">was</wf>\n<punc>&amp;</punc>\n</s>\n</p>\n'
        '<p pnum="2">\n<s snum="2">\n<punc>.</punc>\n</s>\n</p>\n</context>\n</contextfile>\n'
    )
    first, second = read_semcor([path])
    tokens = ["Fulton", "County", "can", "'t", '"', "be", "several", "was", "&"]
    assert first == SenseSentence(
        tokens,
        [
            Target(range(0, 2), ("group", "n"), ("group%1:03:00::",)),
            Target(range(5, 6), ("be", "v"), ("be%2:42:03::", "be%2:42:06::")),
            Target(range(6, 7), ("several", "a"), ("several%5:00:00:some:00",)),
        ],
        "SemCor",
    )
    assert second == SenseSentence(["."], [], "SemCor")


def test_original_test_sets_are_read(tmp_path: Path) -> None:
    path = tmp_path / "ALL.data.xml"
    path.write_text(
        '<?xml version="1.0" encoding="UTF-8" ?>\n<corpus lang="en">\n<text id="senseval2.d000">\n'
        '<sentence id="senseval2.d000.s000">\n<wf lemma="do" pos="VERB">does</wf>\n'
        '<wf lemma="n&apos;t" pos="ADV">n&apos;t</wf>\n'
        '<instance id="senseval2.d000.s000.t000" lemma="belong_to" pos="VERB">'
        "belong to</instance>\n"
        "</sentence>\n</text>\n</corpus>\n"
    )
    (tmp_path / "ALL.gold.key.txt").write_text(
        "senseval2.d000.s000.t000 belong_to%2:42:00:: belong_to%2:42:01::\n"
    )
    senses = ("belong_to%2:42:00::", "belong_to%2:42:01::")
    target = Target(range(2, 4), ("belong_to", "v"), senses)
    tokens = ["doesn", "'t", "belong", "to"]
    assert list(read_test_sets(path)) == [SenseSentence(tokens, [target], "senseval2")]


def test_wordnets_index_is_read(tmp_path: Path) -> None:
    path = tmp_path / "index.sense"
    path.write_text("art%1:04:00:: 00933420 2 15\nart%1:06:00:: 02743547 1 49\n")
    assert read_sense_numbers(path) == {"art%1:04:00::": 2, "art%1:06:00::": 1}
    # Adjectives and their satellites are one kind of word.
    assert word_of("long%3:00:02::") == ("long", "a")
    assert word_of("peculiar%5:00:00:specific:00") == ("peculiar", "a")
