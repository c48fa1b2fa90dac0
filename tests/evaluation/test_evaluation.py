"""The probes of the evaluation find what is planted, and nothing where nothing is."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import bootstrap
import kneser_ney
import numpy as np
import part_of_speech
import pytest
import start_states
import torch
import word_senses
import wordnet_examples
from numpy.typing import NDArray
from wordnet_examples import Example

from elmo_cli.model.vocabulary import Vocabulary


class PlantedEmbedder:
    """Layer 0 is the same everywhere, layer 1 tells tokens apart, layer 2 is noise."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)

    def embed_sentences(self, sentences: Iterable[list[str]]) -> Iterator[NDArray[np.float32]]:
        for sentence in sentences:
            layers = np.ones((3, len(sentence), 16), np.float32)
            for place, token in enumerate(sentence):
                layers[1, place] = np.eye(16)[len(token)]
            layers[2] = self.random.normal(size=layers[2].shape)
            yield layers


# --- bootstrap


def test_the_standard_error_is_that_of_a_mean() -> None:
    scores = np.random.default_rng(1).normal(size=(400, 2))
    estimate = bootstrap.mean_of_groups(scores, np.arange(400))
    assert estimate.values == pytest.approx(scores.mean(axis=0))
    assert estimate.errors == pytest.approx(scores.std(axis=0) / 20, rel=0.1)


def test_what_belongs_together_counts_once() -> None:
    scores = np.random.default_rng(1).normal(size=(100, 1))
    once = bootstrap.mean_of_groups(scores, np.arange(100))
    four_times = bootstrap.mean_of_groups(np.repeat(scores, 4, axis=0), np.arange(400) // 4)
    assert four_times.errors == pytest.approx(once.errors)


def test_a_difference_has_the_error_of_paired_figures() -> None:
    scores = np.random.default_rng(1).normal(size=(100, 1))
    estimate = bootstrap.mean_of_groups(np.hstack([scores + 1, scores]), np.arange(100))
    assert estimate.difference(0, 1) == pytest.approx((1, 0), abs=1e-9)


# --- part of speech


def test_a_line_of_brown_becomes_the_tokens_that_the_model_was_trained_on() -> None:
    line = "\t``/`` I'm/ppss+bem not/* Fulton's/np$-tl-hl can't/md* sine/fw-in+at 1/2/cd"
    sentence = part_of_speech.parse_line(line)
    tokens = ['"', "I", "'m", "not", "Fulton", "'s", "can", "'t", "sine", "1/2"]
    assert sentence.tokens == tokens
    tagged = [tokens[place] for place in sentence.places]
    assert tagged == ['"', "I", "not", "Fulton", "can", "sine", "1/2"]
    assert sentence.tags == ["``", "ppss", "*", "np$", "md", "in", "cd"]


def test_the_probe_is_tested_on_other_documents(tmp_path: Path) -> None:
    for number in range(10):
        text = f"\n\n\tDocument/nn {number}/cd ./.\n" * 3
        (tmp_path / f"ca0{number}").write_text(text, encoding="utf-8")
    documents = part_of_speech.read_brown(tmp_path)
    assert [len(sentences) for sentences in documents.values()] == [3] * 10
    train, test = part_of_speech.split(documents)
    assert (len(train), len(test)) == (24, 6)
    numbers = [{sentence.tokens[1] for sentence in part} for part in (train, test)]
    assert not numbers[0] & numbers[1]


def test_the_probe_finds_the_layer_that_knows() -> None:
    random = np.random.default_rng(0)
    words = {"xx": "nn", "xxx": "vb", "xxxx": "jj"}
    sentences = []
    for _ in range(400):
        tokens = list(random.choice(list(words), size=5))
        places, tags = list(range(5)), [words[token] for token in tokens]
        sentences.append(part_of_speech.Tagged(tokens, places, tags))
    estimate, usual = part_of_speech.probe_layers(
        PlantedEmbedder(),  # type: ignore[arg-type]
        sentences[:300],
        sentences[300:],
    )
    assert usual == 1
    assert estimate.values[1] == 1
    assert estimate.values[[0, 2]] == pytest.approx(1 / 3, abs=0.1)
    assert estimate.difference(1, 2)[1] == pytest.approx(0.021, abs=0.01)  # sqrt(2/9 / 500)


def test_a_probe_is_repeatable() -> None:
    vectors, classes = torch.randn(300, 8), torch.randint(3, (300,))
    once, again = (part_of_speech.fit(vectors, classes, 3) for _ in range(2))
    assert torch.equal(once.weight, again.weight)


# --- senses


@pytest.fixture
def wordnet(tmp_path: Path) -> Path:
    """Two verbs of two senses, in WordNet's form, and empty files for the rest."""
    data = {
        "00000001": 'go fast; "She ran home"; "He is running and running"; "I run."',
        "00000002": 'be in charge of; "Who runs this shop?"; "nothing of it here"',
        "00000003": 'be still; "a lying dog"',
        "00000004": "tell what is not so",
    }
    lines = [f"{offset} 38 v 01 x 0 000 | {gloss}  " for offset, gloss in data.items()]
    index = "run v 2 1 @ 2 1 00000001 00000002\nlie v 2 1 @ 2 1 00000003 00000004\n"
    for pos in wordnet_examples.PARTS_OF_SPEECH:
        for name in (f"data.{pos}", f"index.{pos}", f"{pos}.exc"):
            (tmp_path / name).write_text("  1 A line of the licence\n", encoding="latin-1")
    (tmp_path / "data.verb").write_text("  1 Licence\n" + "\n".join(lines), encoding="latin-1")
    (tmp_path / "index.verb").write_text("  1 Licence\n" + index, encoding="latin-1")
    (tmp_path / "verb.exc").write_text("ran run\nlying lie\n", encoding="latin-1")
    return tmp_path


def test_examples_are_found_in_every_form_of_their_word(wordnet: Path) -> None:
    found = wordnet_examples.read_examples(wordnet)
    assert found == {
        ("run", "verb"): [
            Example(0, ["She", "ran", "home"], 1),
            Example(0, ["I", "run", "."], 1),
            Example(1, ["Who", "runs", "this", "shop", "?"], 1),
        ]
    }


@pytest.mark.parametrize(
    ("form", "word"),
    [("stopped", "stop"), ("tries", "try"), ("making", "make"), ("boxes", "box"), ("big", "big")],
)
def test_regular_forms(form: str, word: str) -> None:
    assert wordnet_examples.is_form(form, word, {})
    assert not wordnet_examples.is_form(form + "x", word, {})


def test_senses_are_found_where_they_are_planted() -> None:
    def sentence(length: int) -> list[str]:
        return ["a", "x" * length]

    senses = [(0, 3), (0, 3), (1, 4), (1, 4), (2, 5)]
    words = [[Example(sense, sentence(length), 1) for sense, length in senses]] * 60
    assert word_senses.random_guess(words) == pytest.approx(1 / 3)
    assert word_senses.first_sense_guess(words) == 0.5
    vectors = word_senses.embed(PlantedEmbedder(), words)  # type: ignore[arg-type]
    nearest = word_senses.nearest_sense(words, vectors)
    assert nearest.values == pytest.approx([1 / 3, 1, 1 / 3], abs=0.1)
    assert nearest.values[0] == pytest.approx(1 / 3)  # ties in shares
    pairs = word_senses.rank_pairs(words, vectors)
    assert pairs.values == pytest.approx([0.5, 1, 0.5], abs=0.1)
    assert pairs.values[0] == 0.5


# --- Kneser-Ney


def test_unknown_words_are_one_word_to_kenlm() -> None:
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "the", "cat", "<s>"])
    sentences = [["the", "cat", "sat"], ["<s>", "the"], [], ["the", "cat", "ate"]]
    lines = list(kneser_ney.mapped_lines(sentences, vocabulary))
    assert lines == ["the cat @unknown@", "@unknown@ the", "the cat @unknown@"]


def test_sentences_that_differ_in_unknown_words_are_distinct() -> None:
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "the"])
    sentences = [["the", "cat"], ["the", "dog"], ["the", "cat"]]
    lines = list(kneser_ney.mapped_lines(sentences, vocabulary, distinct=True))
    assert lines == ["the @unknown@", "the @unknown@"]


def test_the_perplexity_counts_the_end_and_may_leave_unknown_words_out() -> None:
    lines = ["a=b @unknown@", "c"]
    answers = [
        "a=b=5 2 -1\t@unknown@=3 1 -4\t</s>=2 2 -1\tTotal: -6 OOV: 0",
        "c=6 2 -2\t</s>=2 2 -2\tTotal: -4 OOV: 0",
    ]
    assert kneser_ney.perplexities(lines, answers) == {
        "perplexity": pytest.approx(10 ** (10 / 5)),
        "known_words_perplexity": pytest.approx(10 ** (6 / 4)),
        "predictions": 5,
        "unknown": pytest.approx(1 / 3),
    }


def test_an_answer_for_another_word_is_noticed() -> None:
    with pytest.raises(ValueError, match="asked for 'a'"):
        kneser_ney.perplexities(["a"], ["b=5 2 -1\t</s>=2 2 -1\tTotal: -2 OOV: 0"])


# --- starts


def test_lines_that_follow_one_another_are_in_one_place_of_successive_batches() -> None:
    assert start_states.in_order(2, 3) == [0, 3, 1, 4, 2, 5]


def test_perplexities_of_a_uniform_model_are_its_number_of_words() -> None:
    n_predictions = np.array([3, 5, 2, 7])
    log_p = -np.log([[10.0], [20.0]]) * n_predictions
    estimate = start_states.perplexities(log_p, n_predictions, 2)
    assert estimate.values == pytest.approx([10, 20])
    assert estimate.errors == pytest.approx([0, 0], abs=1e-9)
