"""Reading: corpora are read as they are, and planted effects of surprisal are found."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from elmo_cli import LanguageModel
from evaluation import reading_times
from evaluation.bootstrap import Floats
from evaluation.reading_data import (
    FIRST_TIME_BEFORE_2025,
    Measure,
    ReadingData,
    read_natural_stories,
    read_ucl,
)
from evaluation.reading_times import Regressions, Surprisal
from tests.support.reading import STORY_GPT3, write_stories, write_ucl

N_SENTENCES = 150
SENTENCE = ["Words", "that", "nobody", "has", "read", "."]
N_WORDS = N_SENTENCES * len(SENTENCE)
INSIDE = N_SENTENCES * (len(SENTENCE) - 2)


# Corpora


def test_sentences_have_a_row_for_each_word_but_the_first(tmp_path: Path) -> None:
    path = tmp_path / "all_measures.csv"
    write_ucl(path)
    data = read_ucl(path)
    assert data.sentences == [["A", "cat", "sat."], ["Go", "on."]]
    assert data.texts.tolist() == ["9", "9", "9", "10", "10"]
    assert data.folds.tolist() == [0, 0, 0, 1, 1]
    assert data.positions.tolist() == [0, 1, 2, 0, 1]
    assert_numbers(data.lengths, [np.nan, 3, 3, np.nan, 2])
    assert_numbers(data.log_frequencies, [np.nan, 9.5, np.nan, np.nan, 12])
    self_paced = data.measures["self-paced reading time"]
    assert self_paced.n_previous == 1
    assert_numbers(self_paced.values, [np.nan, 301, 302, np.nan, 303])
    assert data.measures["go-past"].n_previous == 0
    assert_numbers(data.published["GPT-2"], [np.nan, 5, 6, np.nan, 7])


@pytest.fixture
def sentencex() -> None:
    """Skip the test if the package that splits sentences is not installed."""
    pytest.importorskip("sentencex")


@pytest.mark.usefixtures("sentencex")
def test_stories_are_in_the_order_of_their_words(tmp_path: Path) -> None:
    times, frequencies, gpt3 = write_stories(tmp_path)
    data = read_natural_stories(times, frequencies, gpt3)
    assert data.sentences == [["'No,", "owls."], ["They", "sat."], ["Owls", "do", "."]]
    assert data.texts.tolist() == ["1"] * 4 + ["10"] * 3
    assert data.positions.tolist() == [1, 2, 3, 4, 1, 2, 3]
    self_paced = data.measures["self-paced reading time"]
    assert self_paced.n_previous == 2
    assert self_paced.values.tolist() == [401, 402, 403, 404, 501, 502, 503]
    assert data.lengths.tolist() == [4, 5, 4, 4, 4, 2, 1]
    # The last word has no row, the one before it the count 0.
    assert_numbers(data.log_frequencies, [3, 2, 5, 4, 2, np.nan, np.nan])
    # Owls and its full stop are one word, and so are the two tokens of the first word.
    expected = [np.nan, 3 + 0.5, 1, 2, 4, 1, 0.25]
    assert_numbers(data.published["GPT-3"], expected)
    assert read_natural_stories(times, frequencies).published == {}


@pytest.mark.usefixtures("sentencex")
def test_times_of_the_old_stories_move_to_the_next_word(tmp_path: Path) -> None:
    times, frequencies, _ = write_stories(tmp_path, first_time=FIRST_TIME_BEFORE_2025)
    data = read_natural_stories(times, frequencies)
    [self_paced] = data.measures.values()
    expected = [np.nan, FIRST_TIME_BEFORE_2025, 402, 403, np.nan, 501, 502]
    assert_numbers(self_paced.values, expected)
    assert data.remark.startswith("The times are from before May 2025")


@pytest.mark.usefixtures("sentencex")
def test_gpt3_must_have_the_words_of_the_stories(tmp_path: Path) -> None:
    times, frequencies, gpt3 = write_stories(tmp_path)
    for text in (STORY_GPT3 + "x,-1,0,9\n", STORY_GPT3[: STORY_GPT3.rindex(" do")]):
        gpt3.write_text(text)
        with pytest.raises(ValueError, match="expected the words of the reading times"):
            read_natural_stories(times, frequencies, gpt3)


def assert_numbers(values: Floats, expected: list[float]) -> None:
    assert values.tolist() == pytest.approx(expected, nan_ok=True)


# Planted effects


def plant(effect: float, lag: int = 0, n_previous: int = 0) -> ReadingData:
    """Return data of which only the published surprisal called "right" has an effect.

    Frequency, length and position have effects too. The error has the variance 1.
    """
    random = np.random.default_rng(0)
    sentences = np.repeat(np.arange(N_SENTENCES), len(SENTENCE))
    frequencies = random.normal(size=N_WORDS)
    lengths = random.integers(1, 10, N_WORDS).astype(float)
    positions = np.tile(np.arange(len(SENTENCE)), N_SENTENCES).astype(float)
    right = random.normal(size=N_WORDS)
    values = 300 - 2 * frequencies + lengths - frequencies * lengths - positions
    values += effect * np.roll(right, lag) + random.normal(size=N_WORDS)
    return ReadingData(
        name="Reading",
        sentences=[SENTENCE] * N_SENTENCES,
        texts=sentences.astype(str),
        folds=sentences % 10,
        positions=positions,
        log_frequencies=frequencies,
        lengths=lengths,
        measures={"time": Measure(values, n_previous)},
        published={"wrong": random.normal(size=N_WORDS), "right": right},
    )


def all_known(values: Floats) -> Surprisal:
    return Surprisal(values, np.ones(len(values), bool))


def figures_of(data: ReadingData, surprisal: Surprisal) -> list[dict[str, float]]:
    """Return the figures of both tables by column, and check that intervals fit."""
    figures = []
    for table in reading_times.evaluate(data, surprisal):
        [row] = table.rows.values()
        by_column = {}
        for column, cell in zip(table.columns, row, strict=True):
            assert cell is not None
            assert cell.low is not None
            assert cell.high is not None
            assert cell.low <= cell.high
            by_column[column] = cell.value
        figures.append(by_column)
    return figures


def test_the_gain_of_the_right_surprisal_is_found() -> None:
    data = plant(effect=0.5)
    gains, explained = figures_of(data, all_known(data.published["right"]))
    # The variance of the error is 1.25 without and 1 with the surprisal.
    assert gains["this model"] == pytest.approx(500 * np.log(1.25), rel=0.2)
    assert gains["right"] == pytest.approx(gains["this model"])
    assert gains["wrong"] == pytest.approx(0, abs=3)
    difference = gains["this model"] - gains["wrong"]
    assert gains["this model minus wrong"] == pytest.approx(difference)
    # "both" has the wrong surprisal as well, which costs a little.
    assert gains["both minus wrong"] == pytest.approx(difference, abs=3)
    assert explained["this model"] == pytest.approx(explained["right"])
    rest = 100 - explained["base"]
    assert explained["this model"] == pytest.approx(rest * 0.25 / 1.25, rel=0.2)
    assert 0 <= explained["wrong"] < 0.1
    again = figures_of(data, all_known(data.published["right"]))
    assert again == [gains, explained]


def test_a_surprisal_without_effect_does_not_help_on_held_out_words() -> None:
    data = replace(plant(effect=0, n_previous=2), published={})
    noise = np.random.default_rng(1).normal(size=N_WORDS)
    gains, explained = figures_of(data, all_known(noise))
    assert list(gains) == ["this model"]
    assert gains["this model"] < 0 < explained["this model"]


def test_spill_over_is_found_only_where_previous_words_matter() -> None:
    for n_previous, is_found in ((0, False), (1, True), (2, True)):
        data = plant(effect=0.5, lag=1, n_previous=n_previous)
        gains, _ = figures_of(data, all_known(data.published["right"]))
        assert (gains["this model"] > 50) == is_found


def test_words_at_edges_and_unknown_words_do_not_count() -> None:
    data = plant(effect=0.5)
    right = data.published["right"]
    before = figures_of(data, all_known(right))
    [read] = data.measures.values()
    values = read.values.copy()
    values[:: len(SENTENCE)] = 1e6
    values[len(SENTENCE) - 1 :: len(SENTENCE)] = -1e6
    changed = replace(data, measures={"time": Measure(values)})
    assert figures_of(changed, all_known(right)) == before
    # One inner word is not known, and one has no frequency.
    values[[1, 8]] = 1e6
    are_known = np.arange(N_WORDS) != 1
    frequencies = data.log_frequencies.copy()
    frequencies[8] = np.nan
    changed = replace(changed, log_frequencies=frequencies)
    gain, _ = reading_times.evaluate(changed, Surprisal(right, are_known))
    [row] = gain.rows.values()
    assert row[0] is not None
    assert row[0].value == pytest.approx(before[0]["this model"], rel=0.05)
    assert (
        "Of 900 words, 300 are the first or last of a sentence. Of the others, 1 are "
        "not known to the model, and 1 have no frequency. The figures are for "
        f"{INSIDE - 2} (time)."
    ) in gain.note


def test_a_word_does_not_count_if_its_previous_word_is_unknown() -> None:
    data = plant(effect=0.5, n_previous=1)
    [read] = data.measures.values()
    are_known = np.arange(N_WORDS) != 1
    surprisal = Surprisal(data.published["right"], are_known)
    regressions = reading_times.make_regressions(data, surprisal, read)
    assert len(regressions.values) == INSIDE - 2
    assert regressions.sentences[:3].tolist() == [0, 0, 1]


def test_too_few_known_words_give_no_figures() -> None:
    data = plant(effect=0.5)
    are_known = np.arange(N_WORDS) < 60
    surprisal = Surprisal(data.published["right"], are_known)
    for table in reading_times.evaluate(data, surprisal):
        assert table.rows == {"time": [None] * len(table.columns)}


def test_previous_words_are_of_the_same_text() -> None:
    values = np.array([1.0, 2, 3, 4])
    texts = np.array(["a", "a", "a", "b"])
    for lag, expected in (
        (0, [1.0, 2, 3, 4]),
        (1, [np.nan, 1, 2, np.nan]),
        (2, [np.nan, np.nan, 1, np.nan]),
    ):
        assert_numbers(reading_times.look_back(values, texts, lag), expected)


def test_r_squared_is_that_of_drawn_sentences() -> None:
    random = np.random.default_rng(2)
    n_sentences = 12
    sentences = np.repeat(np.arange(n_sentences), 5)
    predictors = random.normal(5, 3, size=(60, 2))
    values = predictors @ [1, 2] + random.normal(size=60)
    regressions = Regressions(values, {"base": predictors}, sentences, sentences)
    r_squared = reading_times.r_squared_of(regressions)["base"]
    assert r_squared[0] == pytest.approx(explained_share(predictors, values))
    # The first draws of `draw_totals`, with its seed.
    generator = np.random.default_rng(0)
    even = np.full(n_sentences, 1 / n_sentences)
    for number, counts in enumerate(generator.multinomial(n_sentences, even, size=3)):
        rows = np.repeat(np.arange(60), counts[sentences])
        expected = explained_share(predictors[rows], values[rows])
        assert r_squared[1 + number] == pytest.approx(expected)


def explained_share(predictors: Floats, values: Floats) -> float:
    columns = np.column_stack([np.ones(len(values)), predictors])
    weights, *_ = np.linalg.lstsq(columns, values)
    return float(1 - (values - columns @ weights).var() / values.var())


def test_a_model_measures_each_word_in_its_sentence() -> None:
    model = LanguageModel(model="mini")
    sentences = [["The", "qwzx", "sat."], ["The", "cat", "sat."]]
    surprisal = reading_times.measure(model, sentences)
    assert surprisal.are_known.tolist() == [True, False, True, True, True, True]
    assert surprisal.values[0] == pytest.approx(surprisal.values[3])
    assert surprisal.values[2] != pytest.approx(surprisal.values[5])
