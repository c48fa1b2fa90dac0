"""Corpora are read as they are, and layers that know senses or tags are found."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation import part_of_speech, sense_data, sense_lists, tagged_data, word_senses
from evaluation.sense_data import SenseSentence, Target, word_of
from evaluation.tables import Figure
from evaluation.tagged_data import Split, Tagged


class Planted:
    """Model that computes the layers of a sentence by a function."""

    def __init__(self, layers: Callable[[list[str]], Any]) -> None:
        self.layers = layers

    def embed_sentences(self, sentences: Iterable[list[str]], /) -> Iterator[Any]:
        return map(self.layers, sentences)


def planted() -> Planted:
    """Return a model with the previous token's length as layer 1, noise as 2."""
    random = np.random.default_rng(0)

    def layers(sentence: list[str]) -> Any:
        shape = (len(sentence), 16)
        equal = np.ones(shape)
        lengths = np.zeros(shape)
        for position in range(len(sentence)):
            length = len(sentence[position - 1]) if position > 0 else 0
            lengths[position, length] = 1
        noise = random.normal(size=shape)
        return np.array([equal, lengths, noise], np.float32)

    return Planted(layers)


# Word senses

RIVER = "bank%1:17:01::"
MONEY = "bank%1:14:00::"
NUMBERS = {
    RIVER: 1,
    MONEY: 2,
    "mouse%1:05:00::": 1,
    "mouse%1:06:00::": 4,
}


def sentence(before: str, *senses: str, source: str = "SemCor") -> SenseSentence:
    """Return a sentence of two tokens, the second one with senses."""
    word = word_of(senses[0])
    lemma, _ = word
    target = Target(range(1, 2), word, senses)
    return SenseSentence([before, lemma], [target], source)


SEMCOR = [
    sentence("a", MONEY),
    sentence("a", MONEY),
    sentence("a", MONEY),
    sentence("the", RIVER),
    sentence("the", RIVER),
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
    guesses = word_senses.guess(planted(), SEMCOR, TESTS, NUMBERS)
    is_counted = np.ones(len(TESTS), bool)
    estimate = guesses.f1(is_counted, fallback=fallback)
    return dict(zip(guesses.methods, estimate.values.tolist(), strict=True))


def test_planted_senses_are_found_with_and_without_fallback() -> None:
    scores = f1(fallback=True)
    assert scores["layer 1"] == pytest.approx(4 / 5)  # all but the second mouse
    assert scores["WordNet's first sense"] == pytest.approx(3 / 5)
    assert scores["most frequent sense in SemCor"] == pytest.approx(3 / 5)
    # All vectors of layer 0 are equal, so that the most frequent sense wins.
    assert scores["layer 0"] == scores["most frequent sense in SemCor"]
    scores = f1(fallback=False)
    # 3 right of 3 answers to 5 questions.
    precision = 1
    recall = 3 / 5
    harmonic_mean = 2 * precision * recall / (precision + recall)
    assert scores["layer 1"] == pytest.approx(harmonic_mean)
    assert scores["most frequent sense in SemCor"] == pytest.approx(4 / 8)
    assert scores["WordNet's first sense"] == pytest.approx(3 / 5)


def test_noise_is_right_by_chance() -> None:
    random = np.random.default_rng(0)
    semcor = [sentence("a", MONEY), sentence("a", RIVER)] * 20
    senses = random.choice([MONEY, RIVER], size=800)
    tests = [sentence("a", str(sense), source="one") for sense in senses]
    guesses = word_senses.guess(planted(), semcor, tests, NUMBERS)
    scores = guesses.f1(np.ones(800, bool), fallback=True)
    noise = guesses.methods.index("layer 2")
    expected_error = np.sqrt(0.25 / 800)
    assert scores.values[noise] == pytest.approx(0.5, abs=0.06)
    assert scores.errors[noise] == pytest.approx(expected_error, rel=0.1)


def test_the_tables_have_a_column_per_data_set() -> None:
    with_fallback, without = word_senses.evaluate(planted(), SEMCOR, TESTS, NUMBERS)
    assert with_fallback.columns == ["all", "one", "two", "several senses in SemCor"]
    layer_1 = with_fallback.rows["layer 1"]
    shown = [round(cell.value, 1) for cell in layer_1 if cell]
    assert shown == [80.0, 100.0, 66.7, 100.0]
    shares = "5 words, 60.0 % of them in SemCor, 60.0 % with several"
    assert shares in with_fallback.note
    published = with_fallback.rows["published: biLM, layer 2"]
    assert published == [Figure(69.0), None, None, None]
    difference, *_ = with_fallback.rows["layer 2 minus layer 1"]
    assert difference is not None
    assert difference.value <= 0
    assert without.columns == with_fallback.columns


def test_a_word_of_several_tokens_has_their_mean() -> None:
    layers = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    target = Target(range(0, 2), ("bank", "n"), (MONEY,))
    features = word_senses._features(layers, target)
    assert features.tolist() == [[1, 2], [7, 8], [8, 9]]


def test_original_semcor_is_read(tmp_path: Path) -> None:
    path = tmp_path / "br-a01"
    path.write_text(
        '<contextfile concordance="brown">\n'
        '<context filename="br-a01" paras="yes">\n'
        '<p pnum="1">\n'
        '<s snum="1">\n'
        '<wf cmd="done" rdf="group" pos="NNP" lemma="group" wnsn="1" '
        'lexsn="1:03:00::" pn="group">Fulton_County</wf>\n'
        '<wf cmd="ignore" pos="DT">ca</wf>\n'
        '<wf cmd="tag" pos="RB">n\'t</wf>\n'
        "<punc>``</punc>\n"
        "<wf cmd=done pos=VB lemma=be wnsn=1;2 lexsn=2:42:03::;2:42:06::>be</wf>\n"
        '<wf cmd="done" pos="JJ" lemma="several" '
        'lexsn="5:00:00:some(a):00">several</wf>\n'
        '<wf cmd="done" pos="VBD" ot="notag">was</wf>\n'
        "<punc>&amp;</punc>\n"
        "</s>\n"
        "</p>\n"
        '<p pnum="2">\n'
        '<s snum="2">\n'
        "<punc>.</punc>\n"
        "</s>\n"
        "</p>\n"
        "</context>\n"
        "</contextfile>\n"
    )
    first, second = sense_data.read_semcor([path])
    tokens = ["Fulton", "County", "can", "'t", '"', "be", "several", "was", "&"]
    targets = [
        Target(range(0, 2), ("group", "n"), ("group%1:03:00::",)),
        Target(range(5, 6), ("be", "v"), ("be%2:42:03::", "be%2:42:06::")),
        Target(range(6, 7), ("several", "a"), ("several%5:00:00:some:00",)),
    ]
    assert first == SenseSentence(tokens, targets, "SemCor")
    assert second == SenseSentence(["."], [], "SemCor")


def test_original_test_sets_are_read(tmp_path: Path) -> None:
    path = tmp_path / "ALL.data.xml"
    path.write_text(
        '<?xml version="1.0" encoding="UTF-8" ?>\n'
        '<corpus lang="en">\n'
        '<text id="senseval2.d000">\n'
        '<sentence id="senseval2.d000.s000">\n'
        '<wf lemma="do" pos="VERB">does</wf>\n'
        '<wf lemma="n&apos;t" pos="ADV">n&apos;t</wf>\n'
        '<instance id="senseval2.d000.s000.t000" lemma="belong_to" pos="VERB">'
        "belong to</instance>\n"
        "</sentence>\n"
        "</text>\n"
        "</corpus>\n"
    )
    senses = ("belong_to%2:42:00::", "belong_to%2:42:01::")
    keys = tmp_path / "ALL.gold.key.txt"
    keys.write_text(" ".join(["senseval2.d000.s000.t000", *senses]))
    [sentence] = sense_data.read_test_sets(path)
    tokens = ["doesn", "'t", "belong", "to"]
    target = Target(range(2, 4), ("belong_to", "v"), senses)
    assert sentence == SenseSentence(tokens, [target], "senseval2")


def test_wordnets_index_is_read(tmp_path: Path) -> None:
    path = tmp_path / "index.sense"
    path.write_text("art%1:04:00:: 00933420 2 15\nart%1:06:00:: 02743547 1 49\n")
    assert sense_data.read_sense_numbers(path) == {
        "art%1:04:00::": 2,
        "art%1:06:00::": 1,
    }
    # Adjectives and their satellites are one kind of word.
    assert word_of("long%3:00:02::") == ("long", "a")
    assert word_of("peculiar%5:00:00:specific:00") == ("peculiar", "a")


def test_random_vectors_are_at_chance() -> None:
    random = np.random.default_rng(0)
    noise = Planted(lambda sentence: random.normal(size=(3, len(sentence), 16)))
    table = sense_lists.evaluate(noise)
    for row in table.rows.values():
        shares = [cell.value for cell in row if cell]
        assert shares[:5] == pytest.approx([50] * 5, abs=10)


def test_sentences_of_one_structure_are_not_compared() -> None:
    def layers(sentence: list[str]) -> Any:
        """Return one layer, of which every vector says the length of the sentence."""
        values = np.zeros((1, len(sentence), 4))
        values[:, :, len(sentence)] = 1
        return values

    rows = [
        ("one", ["x"]),
        ("one", ["x", "y"]),
        ("two", ["x"]),
        ("two", ["x", "y"]),
    ]
    # The nearest sentences have one structure and different senses.
    shares = sense_lists.rank_pairs(Planted(layers), "x", rows, balanced=False)
    assert shares == pytest.approx([0.25] * 3)
    shares = sense_lists.rank_pairs(Planted(layers), "x", rows, balanced=True)
    assert shares == pytest.approx([0.5] * 3)


# Parts of speech


def test_brown_lines_become_the_tokens_of_elmos_text() -> None:
    line = (
        "\t``/`` I'm/ppss+bem not/* Fulton's/np$-tl-hl can't/md* sine/fw-in+at 1/2/cd"
    )
    sentence = tagged_data.parse_brown(line)
    tokens = "\" I 'm not Fulton 's can 't sine 1/2"
    assert sentence.tokens == tokens.split(" ")
    tagged = []
    for position, tag in zip(sentence.positions, sentence.tags, strict=True):
        tagged.append((sentence.tokens[position], tag))
    assert tagged == [
        ('"', "``"),
        ("I", "ppss"),
        ("not", "*"),
        ("Fulton", "np$"),
        ("can", "md"),
        ("sine", "in"),
        ("1/2", "cd"),
    ]


def test_brown_is_tested_on_other_documents_than_it_is_trained_on(
    tmp_path: Path,
) -> None:
    for number in range(10):
        line = f"\n\n\tDocument/nn {number}/cd ./.\n"
        (tmp_path / f"ca0{number}").write_text(line * 3)
    assert_split(list(tmp_path.iterdir()), n_train=24, n_test=6)


def test_brown_in_one_file_is_tested_on_other_stretches_than_it_is_trained_on(
    tmp_path: Path,
) -> None:
    path = tmp_path / "brown.tagged"
    stretches = [f"Line/nn {number}/cd ./.\n" * 100 for number in range(5)]
    path.write_text("".join(stretches))
    assert_split([path], n_train=400, n_test=100)


def assert_split(paths: list[Path], n_train: int, n_test: int) -> None:
    """Assert the sizes of both parts, and that no second token is in both of them."""
    train, test = tagged_data.read_brown(paths)
    assert len(train) == n_train
    assert len(test) == n_test
    seen = {sentence.tokens[1] for sentence in train}
    for sentence in test:
        assert sentence.tokens[1] not in seen


def test_treebanks_are_read_without_ranges_and_empty_nodes(tmp_path: Path) -> None:
    path = tmp_path / "x-ud-train.conllu"
    path.write_text(
        "# text = du a b\n"
        "1-2\tdu\t_\t_\n"
        "1\tde\tde\tADP\n"
        "2\tle\tle\tDET\n"
        "2.1\tx\t_\tVERB\n"
        "3\ta b\t_\tX\n"
        "\n"
        "1\tOui\toui\tINTJ",
        encoding="utf-8",
    )
    split = tagged_data.read_treebank(path, path)
    expected = [
        Tagged(["de", "le", "a_b"], [0, 1, 2], ["ADP", "DET", "X"]),
        Tagged(["Oui"], [0], ["INTJ"]),
    ]
    assert split == Split(expected, expected)


def test_the_classifier_finds_the_layer_that_knows() -> None:
    random = np.random.default_rng(0)
    tag_after = {"xx": "nn", "xxx": "vb", "xxxx": "jj"}
    tagged = []
    for _ in range(400):
        tokens = random.choice(list(tag_after), size=6).tolist()
        tags = [tag_after[token] for token in tokens[:-1]]
        tagged.append(Tagged(tokens, positions=[1, 2, 3, 4, 5], tags=tags))
    split = Split(tagged[:300], tagged[300:])
    estimate = part_of_speech.classify_layers(planted(), split)
    usual, layer0, layer1, layer2, difference = estimate.values
    assert layer1 == 1
    assert [usual, layer0, layer2] == pytest.approx([1 / 3] * 3, abs=0.1)
    assert difference == pytest.approx(layer2 - layer1)
    assert estimate.errors[4] == pytest.approx(0.021, abs=0.01)  # sqrt(2/9 / 500)
    table = part_of_speech.evaluate(planted(), {"planted": split})
    assert table.columns == ["planted", "published: biLM, Penn Treebank"]
    assert list(table.rows) == [
        part_of_speech.USUAL,
        "layer 0",
        "layer 1",
        "layer 2",
        "top layer minus layer 1",
    ]
    figures = [cell.value for cell in table.rows["layer 1"] if cell]
    assert figures == [100, 97.3]


def test_the_usual_tag_is_the_most_frequent_one() -> None:
    positions = [0, 1, 2, 3]
    train = Tagged(["a", "a", "b", "a"], positions, tags=["x", "x", "y", "z"])
    test = Tagged(["a", "b", "c", "c"], positions, tags=["x", "z", "x", "y"])
    scores = part_of_speech.most_frequent_tag(Split([train], [test]))
    assert scores.tolist() == [1, 0, 1, 0]
