"""Surprisals of tokens, words and regions against the slow reference; frequencies."""

import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from elmo_cli import LanguageModel, iter_surprisal, measure_surprisal, tokenize
from elmo_cli.errors.exceptions import InputError
from elmo_cli.language_model import frequencies
from elmo_cli.language_model.frequencies import estimate_frequencies
from elmo_cli.language_model.frequency_file import read_frequencies
from elmo_cli.language_model.surprisal_run import run_surprisal
from elmo_cli.language_model.surprisal_table import SurprisalTable
from elmo_cli.language_model.units import Unit, find_units
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.options.surprisal import UNIT_KINDS, UnitKind
from elmo_cli.options.text import TextSettings
from elmo_cli.records.open_input import open_input
from elmo_cli.records.open_records import open_records
from elmo_cli.records.record import Record
from elmo_cli.text.tokenizers import normalize
from tests.support import reference
from tests.support.strategies import (
    WORDS,
    batches,
    make_language_model,
    odd_tokens,
    seeds,
    small_architecture,
)


def expected_bits(folder: Path, sentence: Sequence[str]) -> Any:
    """Return the reference's surprisals and entropies per direction, (2, 2, T)."""
    (forward, backward), _ = reference.model_predictions(folder, sentence, WORDS)
    log_p = np.stack([forward[:-1], backward[1:]])  # (2, T, V)
    surprisals = np.zeros((2, len(sentence)))
    for position, token in enumerate(sentence):
        word = WORDS.index(token if token in WORDS else "<UNK>")
        surprisals[:, position] = -log_p[:, position, word]
    entropies = -(np.exp(log_p) * log_p).sum(axis=2)
    return np.stack([surprisals, entropies], axis=1) / np.log(2)


@given(seeds, batches(), st.booleans())
def test_surprisals_and_entropies_equal_the_reference(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    sentences: list[list[str]],
    backward: bool,
) -> None:
    folder = tmp_path_factory.mktemp("model")
    make_language_model(small_architecture(), seed, folder)
    model = LanguageModel(model=folder)
    measured = measure_surprisal(
        model,
        sentences,
        direction="backward" if backward else "forward",
        entropy=True,
    )
    for units, sentence in zip(measured, sentences, strict=True):
        known = [token in WORDS and token != "<UNK>" for token in sentence]
        assert [unit.text for unit in units] == sentence
        assert [unit.number for unit in units] == list(range(1, len(sentence) + 1))
        assert [unit.known for unit in units] == known
        expected = expected_bits(folder, sentence)[int(backward)]
        actual: Any = [[unit.surprisal, unit.entropy] for unit in units]
        if sentence:
            assert_allclose(np.transpose(actual), expected, atol=5e-5)


def test_a_text_is_measured_by_word_region_or_token(model_folder: Path) -> None:
    model = LanguageModel(model_folder)
    text = "the cat | sat."
    by = {
        kind: measure_surprisal(model, text, kind)
        for kind in UNIT_KINDS
        if kind != "token"
    }
    assert [unit.text for unit in by["region"]] == ["the cat", "sat."]
    tokens = measure_surprisal(model, "the cat sat.")
    assert [unit.text for unit in tokens] == ["the", "cat", "sat", "."]
    assert by["region"][1].surprisal == pytest.approx(
        sum(unit.surprisal or 0 for unit in tokens[2:])
    )
    assert measure_surprisal(model, [text], "region") == [by["region"]]
    assert list(iter_surprisal(model, [text], "region")) == [by["region"]]


def test_the_surprisal_of_both_directions_is_their_average(model_folder: Path) -> None:
    model = LanguageModel(model_folder)
    both = measure_surprisal(model, "the cat", direction="both", entropy=True)
    one_by_one = zip(
        measure_surprisal(model, "the cat", entropy=True),
        measure_surprisal(model, "the cat", direction="backward", entropy=True),
        strict=True,
    )
    for unit, (forward, backward) in zip(both, one_by_one, strict=True):
        assert unit.surprisals == [forward.surprisal, backward.surprisal]
        assert unit.entropies == [forward.entropy, backward.entropy]
        assert unit.surprisal == pytest.approx(sum(filter(None, unit.surprisals)) / 2)


def test_wrong_calls_are_errors_before_the_first_result(model_folder: Path) -> None:
    model: Any = LanguageModel(model_folder)
    cases: list[tuple[Any, str]] = [
        (
            ("the", model),
            "model: expected a LanguageModel, found the string 'the'. Give the model "
            "first, such as LanguageModel().",
        ),
        (
            (model, ["the"], "words"),
            "by: expected token, word, region or sentence, found 'words'. "
            "Did you mean 'word'?",
        ),
    ]
    for wrong, message in cases:
        for function in (measure_surprisal, iter_surprisal):
            with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
                function(*wrong)
    number: Any = 3
    with pytest.raises(InputError, match="texts: expected a string or a list, found 3"):
        measure_surprisal(model, number)
    with pytest.raises(InputError, match="texts: expected a list, found 3"):
        iter_surprisal(model, number)


def measure_rows(
    folder: Path, record: Record, **settings: Any
) -> tuple[list[str], Any]:
    """Measure the columns and rows of a table whose rows begin with record names."""
    table = SurprisalTable(**settings)
    [scored] = table.measure(LanguageModel(model=folder), [record])
    rows = [[*scored.names, *table.row(unit)] for unit in scored.result]
    return table.columns, rows


def is_visible(token: str) -> bool:
    """Return whether a token may be a part of a word or of a region."""
    has_space = any(character.isspace() for character in token)
    return token.isprintable() and "|" not in token and not has_space


words_of_tokens = st.lists(
    st.lists(odd_tokens.filter(is_visible), min_size=1, max_size=3),
    min_size=1,
    max_size=4,
)
MARKS: dict[UnitKind, str] = {"word": " ", "region": " | "}
"""What stands between two units in a text."""


@given(seeds, words_of_tokens, st.sampled_from(["word", "region"]))
def test_sums_of_words_are_those_of_the_reference(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    words: list[list[str]],
    unit: UnitKind,
) -> None:
    model_folder = tmp_path_factory.mktemp("model")
    make_language_model(small_architecture(), seed, model_folder)
    sentence = list(chain.from_iterable(words))
    text = MARKS[unit].join("".join(tokens) for tokens in words)
    columns, rows = measure_rows(
        model_folder,
        Record(text, sentence, "s1"),
        unit=unit,
        direction="both",
        entropy=True,
    )
    assert columns == [
        f"{unit}_number",
        unit,
        "tokens",
        "surprisal_forward",
        "surprisal_backward",
        "surprisal_average",
        "entropy_forward",
        "entropy_backward",
        "log_frequency_by_rank",
        "length",
        "known",
    ]
    forward, backward = expected_bits(model_folder, sentence)
    assert len(rows) == len(words)
    start = 0
    for number, tokens in enumerate(words, start=1):
        row = dict(zip(["id", *columns], rows[number - 1], strict=True))
        end = start + len(tokens)
        of_forward = sum(forward[0, start:end])
        of_backward = sum(backward[0, start:end])
        assert row[f"{unit}_number"] == number
        assert row[unit] == "".join(tokens)
        assert row["tokens"] == len(tokens)
        average = (of_forward + of_backward) / 2
        assert_allclose(row["surprisal_forward"], of_forward, atol=2e-4)
        assert_allclose(row["surprisal_backward"], of_backward, atol=2e-4)
        assert_allclose(row["surprisal_average"], average, atol=2e-4)
        # Each direction has the entropy of the prediction that meets the word first.
        assert_allclose(row["entropy_forward"], forward[1, start], atol=5e-5)
        assert_allclose(row["entropy_backward"], backward[1, end - 1], atol=5e-5)
        are_known = [token in WORDS and token != "<UNK>" for token in tokens]
        assert row["known"] == all(are_known)
        start = end


def test_tokens_of_another_text_are_an_error_with_the_record(
    model_folder: Path,
) -> None:
    with pytest.raises(InputError, match=r"^record s7: the tokens are not those of "):
        measure_rows(model_folder, Record("the cat", ["the"], "s7"), unit="word")


def test_words_of_one_token_have_its_surprisal_each(model_folder: Path) -> None:
    _, [whole] = measure_rows(model_folder, Record("thecat", ["thecat"]), unit="word")
    _, rows = measure_rows(model_folder, Record("the cat", ["thecat"]), unit="word")
    assert [row[2] for row in rows] == ["the", "cat"]
    assert {row[4] for row in rows} == {whole[4]}
    first, second = find_units("word", "the cat", ["thecat"])
    assert first.tokens == slice(0, 1)
    assert first.is_whole is False
    assert second.tokens == slice(0, 1)
    assert second.is_whole is False


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("word", "I didn't  see.", "I: I; didn't: didn 't; see.: see ."),
        ("word", "isn’t — “never”…", 'isn’t: isn \'t; —: --; “never”…: " never " ...'),
        (
            "region",
            "The horse | raced|fell.",
            "The horse: The horse; raced: raced; fell.: fell .",
        ),
    ],
)
def test_units_have_their_texts_and_tokens(
    kind: UnitKind, text: str, expected: str
) -> None:
    tokens = tokenize(text.replace("|", " "))
    shown = []
    for unit in find_units(kind, text, tokens):
        unit_tokens = " ".join(tokens[unit.tokens])
        shown.append(f"{unit.text}: {unit_tokens}")
    assert "; ".join(shown) == expected


def test_units_have_numbers_and_tokens_positions() -> None:
    a = Unit(1, "a", slice(0, 1))
    b = Unit(2, "b", slice(1, 2))
    assert find_units("token", "a b", ["a", "b"]) == [a, b]
    # An empty region keeps its number.
    regions = find_units("region", "The horse | | fell", ["The", "horse", "fell"])
    assert regions == [
        Unit(1, "The horse", slice(0, 2)),
        Unit(3, "fell", slice(2, 3)),
    ]
    # Tokens may have typographic marks too.
    words = ["isn’t", "here—“never”…"]
    assert [unit.text for unit in find_units("word", " ".join(words), words)] == words


@given(st.lists(st.text("ab'.,\"-$%0é東‘’“„—…", min_size=1), max_size=8))
def test_words_partition_the_tokens_of_moses(words: list[str]) -> None:
    text = " ".join(words)
    tokens = tokenize(text, tokenizer="moses")
    units = find_units("word", text, tokens)
    assert [unit.text for unit in units] == words
    found = []
    for unit in units:
        unit_tokens = tokens[unit.tokens]
        visible = "".join(normalize(unit.text).split())
        assert "".join(unit_tokens) == visible
        found += unit_tokens
    assert found == tokens


def test_estimated_frequencies_sum_to_one() -> None:
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "the", "cat", "sat"])
    frequencies = estimate_frequencies(vocabulary)
    assert list(frequencies) == ["the", "cat", "sat"]
    special = math.log(4 / 1) / math.log(7)  # the share of the ranks 0 to 2
    shares = [2**value for value in frequencies.values()]
    assert sum(shares) == pytest.approx(1 - special)
    share_of_the = math.log(5 / 4) / math.log(7)
    assert frequencies["the"] == pytest.approx(math.log2(share_of_the))
    assert frequencies["the"] > frequencies["cat"] > frequencies["sat"]


@pytest.mark.parametrize(
    "content",
    [
        'word\tcount\nthe\t6\n"\t1\nthe\t1\nrare\t0\n',
        'the 7\n" 1\nrare 0\n',
        'Word,Count,Per million\nthe,7,9\n"""",1,9\nrare,0,0\n',
    ],
)
def test_counts_of_a_file_are_log_shares(content: str, tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_text(content)
    assert read_frequencies(path).log_frequencies == {
        "the": math.log2(7 / 8),
        '"': -3.0,
    }


def test_frequencies_are_counts_in_a_mapping_or_in_a_file(
    model_folder: Path, tmp_path: Path
) -> None:
    model = LanguageModel(model_folder)
    path = tmp_path / "counts.tsv"
    path.write_text("the\t6\ncat\t2\n")
    for counts in (
        {"the": 6, "cat": 2},
        Counter({"the": 6, "cat": 2}),
        path,
        str(path),
    ):
        units = measure_surprisal(model, "the cat dog", frequencies=counts)
        log_frequencies = [unit.log_frequency for unit in units]
        assert log_frequencies == [math.log2(6 / 8), -2, None]


@pytest.mark.parametrize("by", ["region", "sentence"])
def test_several_words_have_the_sum_of_their_frequencies(
    by: UnitKind, model_folder: Path
) -> None:
    # "didn't" has two tokens, and neither of them has a count.
    [unit] = measure_surprisal(
        LanguageModel(model_folder),
        "She didn't.",
        by=by,
        frequencies={"she": 2, "didn't": 2},
    )
    assert unit.n_tokens == 4
    assert unit.log_frequency == -2


@pytest.mark.parametrize(
    ("frequencies", "message"),
    [
        ({"the": -1.2}, "frequencies: expected the counts of words, found 'the': -1.2"),
        ({"the": "6"}, "frequencies: expected the counts of words, found 'the': '6'"),
        ({1: 6}, "frequencies: expected the counts of words, found 1: 6"),
        ({"the": 0}, "frequencies: no words with counts"),
        (
            ["the"],
            "frequencies: expected counts of words or a file of them, found a value ",
        ),
        ("missing.tsv", "missing.tsv: no such file"),
    ],
)
def test_other_frequencies_are_an_error(
    frequencies: Any, message: str, model_folder: Path
) -> None:
    model = LanguageModel(model_folder)
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        measure_surprisal(model, "the cat", frequencies=frequencies)


def test_counts_that_are_added_are_a_warning(
    model_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "counts.tsv"
    path.write_text("the\t6\nthe\t4\ncat\t2\n")
    measure_surprisal(LanguageModel(model_folder), "the", frequencies=path)
    assert caplog.messages == [
        f"1 word, such as 'the', has several rows with different counts in {path}. "
        "They were added."
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "the\t7\ncat\tmany\n",
            "line 2: expected a word and its count, found 'cat\\\\tmany'",
        ),
        (
            "word\tcount\nthe\t-1\n",
            "line 2: expected a word and its count, found 'the\\\\t-1'",
        ),
        ("word\tcount\n", "no words with counts"),
    ],
)
def test_a_file_without_counts_is_an_error(
    content: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "counts.tsv"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_frequencies(path)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(
            "Word\tFREQcount\tCDcount\tSUBTLWF\n"
            "the\t4\t9\t9.5\n"
            "dog\t3\t8\t7\n"
            "ill\t1\t1\t2",
            id="SUBTLEX-US",
        ),
        pytest.param(
            "Spelling,FreqCount,LogFreq(Zipf)\nthe,4,7.7\ndog,3,5.1\nill,1,3.2",
            id="SUBTLEX-UK",
        ),
        pytest.param(
            "Word\tWFfreqcount\tspell\nthe\t4,0\t1\ndog\t3,0\t1\nill\t1,0\t1",
            id="SUBTLEX-DE",
        ),
        pytest.param(
            "rank\tlemma\tPoS\tfreq\n1\tthe\ta\t4\n2\tdog\tn\t3\n3\till\tj\t1\n",
            id="COCA lemmas",
        ),
        pytest.param(
            "rank,lemma,lemFreq,wordFreq,word\n1,a,9,4,the\n2,b,9,3,dog\n3,c,9,1,ill",
            id="COCA words",
        ),
        pytest.param("1\tthe\ta\t4\n2\tdog\tn\t3\n3\till\tj\t1\n", id="no header"),
        pytest.param(
            "1.1.word\t1\tthe\t4\n1.2.word\t1\tdog\t3\n1.3.word\t1\till\t1\n",
            id="n-grams",
        ),
        pytest.param("      4 the\n      3 dog\n     17\n      1 ill\n", id="uniq -c"),
        pytest.param(
            "the;400000,5\ndog;300000,375\nill;100000,125\n", id="decimal commas"
        ),
        pytest.param(
            "the\t4.000.000\ndog\t3.000.000\nill\t1.000.000\n", id="European thousands"
        ),
        pytest.param(
            "the\t4,000,000\ndog\t3,000,000.0\nill\t1,000,000\n", id="thousands"
        ),
        pytest.param(
            'word,count\nthe,"4,000"\ndog,"3,000"\nill,"1,000"\n', id="quoted thousands"
        ),
        pytest.param(
            "the;4 000\ndog;3\xa0000\nill;1\u202f000\n", id="spaces in numbers"
        ),
        pytest.param("the 4,0\ndog 3,0\nill 1,0\n", id="spaces and decimal commas"),
        pytest.param("count;word\n4;the\n3;dog\n1;ill\n", id="count first"),
        pytest.param(
            "the;4000,5;1\ndog;3000,375;2\nill;1000,125;9\n", id="first of two counts"
        ),
        pytest.param("the 4\ndog 3\nill 1\n— 0\n", id="marks"),
    ],
)
def test_columns_of_published_lists_are_found(content: str, tmp_path: Path) -> None:
    path = tmp_path / "counts"
    path.write_text(content, encoding="utf-8")
    expected = {
        "the": math.log2(4 / 8),
        "dog": math.log2(3 / 8),
        "ill": math.log2(1 / 8),
    }
    assert read_frequencies(path).log_frequencies == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    "header",
    [
        "item,word,freq_per_million",
        "Length,Word,Freq_HAL",
        "Age,Word,Freq_pm",
        "Syllables,word,SUBTLWF",
        "Log_Freq_HAL,Word,Freq_HAL",
        "zipf,word,fpm",
        "AoA,word,instances_per_million",
        "letters,mot,Fréquence",
        "id,word,count_spoken",
        "freqlemlivres,ortho,freqlivres",
        "freq_rank,word,KF-freq",
    ],
)
def test_the_column_of_counts_is_found_by_its_name(header: str, tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(f"{header}\n3,the,60\n7,old,20\n5,cat,20\n", encoding="utf-8")
    read = read_frequencies(path)
    assert read.log_frequencies["the"] == pytest.approx(math.log2(0.6))
    _, word_column, count_column = header.split(",")
    assert read.word_column == word_column
    assert read.count_column == count_column


def test_a_table_without_a_column_of_counts_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("Word,Length,Log_Freq_HAL\nthe,3,16.9\ncat,3,9.3\n")
    problem = (
        r"counts\.csv: no column of counts, found Word, Length and Log_Freq_HAL\. "
        r"Rename the column with the counts to count\."
    )
    with pytest.raises(InputError, match=problem):
        read_frequencies(path)


def test_columns_without_a_header_have_numbers(tmp_path: Path) -> None:
    path = tmp_path / "counts.tsv"
    path.write_text("1\tthe\ta\t4\n2\tdog\tn\t3\n3\till\tj\t1\n")
    read = read_frequencies(path)
    assert read.word_column == "2"
    assert read.count_column == "4"


def test_a_word_in_several_rows_is_counted_once_per_count(tmp_path: Path) -> None:
    path = tmp_path / "counts.tsv"
    path.write_text("the\t100\ncat\t10\nthe\t100\nlike\t5\nthe\t100\nlike\t15\n")
    read = read_frequencies(path)
    assert read.added_words == ["like"]
    assert read.log_frequencies == pytest.approx(
        {
            "the": math.log2(100 / 130),
            "cat": math.log2(10 / 130),
            "like": math.log2(20 / 130),
        }
    )
    # Two marks that become one are two words.
    path.write_text("the\t10\n“\t5\n”\t5\n", encoding="utf-8")
    read = read_frequencies(path)
    assert read.log_frequencies == {"the": -1.0, '"': -1.0}
    assert read.added_words == []


def test_columns_are_found_in_the_first_lines_of_a_long_list(tmp_path: Path) -> None:
    letters = string.ascii_lowercase
    words = [one + other for one in letters for other in letters][:500]
    lines = []
    for rank, word in enumerate(words, start=1):
        lines.append(f"{word}\t{1.234 / rank:.3f}\n")
    path = tmp_path / "counts.txt"
    path.write_text("".join(lines))
    frequencies = read_frequencies(path).log_frequencies
    assert list(frequencies) == words
    assert frequencies["aa"] - frequencies["ab"] == 1


COUNTS = {
    "the": -1.0,
    "dog": -2.0,
    "isn't": -3.0,
    "isn": -4.0,
    "t": -5.0,
    "Dr.": -6.0,
    ",": -7.0,
}


@pytest.mark.parametrize(
    ("word", "tokens", "expected"),
    [
        ("the", "the", -1),
        ("The", "The", -1),
        ("dog,", "dog ,", -2),
        ("“Dog”…", '" Dog " ...', -2),
        ("dog.", "dog.", -2),
        ("isn’t", "isn 't", -3),
        ("ISN'T?", "ISN 'T ?", -3),
        ("the-dog.", "the - dog .", -3),
        ("t'isn", "t 'isn", -9),
        ("(Dr.", "( Dr.", -6),
        (",", ",", -7),
        (",,", ", ,", -14),
        ("—", "-", None),
        ("cat,", "cat ,", None),
        ("the-cat", "the - cat", None),
    ],
)
def test_frequency_of_a_word_is_not_that_of_its_punctuation(
    word: str, tokens: str, expected: float | None
) -> None:
    total = frequencies.sum_frequencies([(word, tokens.split())], COUNTS)
    assert total == expected


def test_a_run_writes_the_rows_of_a_text_and_counts_them(model_folder: Path) -> None:
    written = []
    text = open_input(StringIO("the cat xyzzy\n\nthe cat\n"), TextSettings())
    with open_records(text) as records:
        summary = run_surprisal(
            SurprisalTable(log_frequencies={"the": -3.0}),
            LanguageModel(model_folder),
            records,
            write=lambda rows, _columns, names: written.append((*names, len([*rows]))),
            n_first=1,
        )
    # Number of the record, and of its rows.
    assert written == [(1, 3), (2, 0), (3, 2)]
    assert summary.n_tokens == 5
    assert summary.n_unknown == 1
    assert summary.n_rows == 5
    assert summary.n_without_frequency == 3
    assert summary.few_have_frequencies
    assert [each.record.text for each in summary.first_records] == ["the cat xyzzy"]


def test_frequencies_in_parquet_are_an_error_that_says_what_to_give(
    folder: Path,
) -> None:
    table = pyarrow.table({"word": ["the"], "count": [3]})
    pyarrow.parquet.write_table(table, "counts.parquet")
    with pytest.raises(InputError) as error:
        read_frequencies("counts.parquet")
    assert str(error.value) == (
        "counts.parquet: Parquet, not UTF-8 text. Give the name of a file with a word "
        "and its count per line."
    )
