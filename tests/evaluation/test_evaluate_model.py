"""The evaluation: the command runs each test that has data; tables; standard errors."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from elmo_cli.language_model.convert_torch import convert_torch_model
from evaluation import bootstrap, data_folder, evaluate_model
from evaluation.tables import Figure, Table, to_json, to_markdown
from tests.support.golden import GOLDEN
from tests.support.reading import draw_ucl_rows, write_stories, write_ucl

pytestmark = pytest.mark.usefixtures("no_wordnet")


@pytest.fixture
def no_wordnet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the WordNet of this machine."""
    monkeypatch.setattr(data_folder, "DEBIANS_INDEX", folder / "none")


def plant(data: Path) -> None:
    """Write a little of each kind of data."""
    files = {
        "semcor/brown1/tagfiles/br-a01": (
            "<s>\n"
            "<wf pos=DT>the</wf>\n"
            "<wf cmd=done pos=NN lemma=bank lexsn=1:17:01::>banks</wf>\n"
            "</s>\n"
        ),
        "wsd/ALL/ALL.data.xml": (
            "<corpus><text><sentence id='senseval2.s'><wf>The</wf>"
            "<instance id='senseval2.t' lemma='bank' pos='NOUN'>bank</instance>"
            "</sentence></text></corpus>"
        ),
        "wsd/ALL/ALL.gold.key.txt": "senseval2.t bank%1:17:01::\n",
        "index.sense": ("bank%1:14:00:: 00000001 1 9\nbank%1:17:01:: 00000002 2 5\n"),
        "blimp/data/set.jsonl": (
            '{"sentence_good": "The cats sleep.", "sentence_bad": '
            '"The cats sleeps.", "linguistics_term": "agreement"}'
        ),
        "other.jsonl": "{}\n",
        "en_x-ud-train.conllu": "1\tcat\tcat\tNOUN\n2\tsleep\tsleep\tVERB\n\n",
        "en_x-ud-test.conllu": "1\tcat\tcat\tNOUN\n\n",
    }
    for number in range(5):
        files[f"brown/ca0{number}"] = "\tThe/at cat/nn sleeps/vbz ./.\n" * 3
    for name, text in files.items():
        path = data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    write_ucl(data / "ucl" / "all_measures.csv", draw_ucl_rows())
    write_stories(data / "stories")


def test_every_test_runs_that_has_data(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sentencex")
    plant(folder / "data")
    evaluate_model.main(["--model", "mini", "--data", "data", "--output", "mini"])
    content = json.loads((folder / "mini.json").read_text("utf-8"))
    assert content["model"] == "mini"
    tests = content["tests"]
    names = [
        "Lists of senses",
        "Word senses",
        "Word senses without fallback",
        "Parts of speech",
        "Minimal pairs",
        "Reading of single sentences: log-likelihood",
        "Reading of single sentences: explained variance",
        "Reading of stories: log-likelihood",
        "Reading of stories: explained variance",
    ]
    assert list(tests) == names
    cells = tests["Lists of senses"]["rows"]["typical"].values()
    layer_0, *others = [cell["value"] for cell in cells]
    # Layer 0 cannot tell senses apart: a token has one vector everywhere. Chance is
    # below 60.
    assert layer_0 == 50
    assert min(others[:4]) > 65
    rows = tests["Word senses"]["rows"]
    first_sense = rows["WordNet's first sense"]["senseval2"]
    assert first_sense == {"value": 0, "low": 0, "high": 0}
    assert rows["layer 1"]["senseval2"]["value"] == 100
    speech = tests["Parts of speech"]["rows"]["layer 1"]
    assert speech["Brown corpus"]["value"] == 100
    assert speech["en_x-ud"]["value"] == 100
    agreement = tests["Minimal pairs"]["rows"]["agreement"]
    assert agreement["both"]["value"] == 100
    assert tests["Minimal pairs"]["unit"] == "percent"
    gains = tests["Reading of single sentences: log-likelihood"]
    assert gains["unit"] == "0.001 nats per word"
    assert gains["rows"]["N400"]["this model"]["value"] < 20  # of random measures
    stories = tests["Reading of stories: log-likelihood"]
    assert stories["note"].startswith("Gain over the base")
    assert stories["rows"] == {"self-paced reading time": {}}  # too few words
    markdown = (folder / "mini.md").read_text("utf-8")
    headings = re.findall(r"^## (.*)$", markdown, re.MULTILINE)
    assert headings == names
    printed = capsys.readouterr()
    for name in names:
        assert f"## {name}\n" in printed.out
    assert printed.err == ""


def test_missing_data_is_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(folder / "data")
    (folder / "data" / "index.sense").unlink()
    (folder / "data" / "ucl" / "all_measures.csv").unlink()
    (folder / "data" / "stories" / "freqs-1.tsv").unlink()
    for path in (*folder.glob("data/*.conllu"), *folder.glob("data/brown/*")):
        path.unlink()
    evaluate_model.main(["--model", str(GOLDEN / "relu"), "--data", "data"])
    content = json.loads((folder / "results.json").read_text("utf-8"))
    assert list(content["tests"]) == ["Lists of senses"]
    *lines, pairs, reading = capsys.readouterr().err.splitlines()
    assert lines == [
        "word senses: skipped. --data has no index.sense.",
        "parts of speech: skipped. --data has no Brown corpus, "
        "no treebank (*-train.conllu).",
    ]
    assert pairs.startswith("minimal pairs: skipped. ")  # The model has no softmax.
    assert reading == (
        "reading: skipped. --data has no UCL sentences (all_measures.csv), no Natural "
        "Stories (processed_wordinfo.tsv, freqs-1.tsv)."
    )
    with pytest.raises(SystemExit, match=r"^nowhere: no such folder"):
        evaluate_model.main(["--model", "mini", "--data", "nowhere"])
    with pytest.raises(SystemExit, match="no-such-model"):
        evaluate_model.main(["--model", "no-such-model"])


def test_a_model_that_only_reads_forward_skips_what_needs_both_directions(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(folder / "data")
    shutil.rmtree(folder / "data" / "stories")
    source = GOLDEN / "torch-lstm"
    convert_torch_model(source / "tied.pt", folder / "lstm", source / "vocab.txt")
    evaluate_model.main(["--model", "lstm", "--data", "data"])
    assert capsys.readouterr().err.splitlines() == [
        "vectors: skipped. The model only reads forward.",
        "minimal pairs: skipped. The model only reads forward.",
    ]
    tests = json.loads((folder / "results.json").read_text("utf-8"))["tests"]
    assert list(tests) == [
        "Reading of single sentences: log-likelihood",
        "Reading of single sentences: explained variance",
    ]


def test_reading_data_is_known_by_its_columns(folder: Path) -> None:
    for path in write_stories(folder / "data"):
        path.rename(path.with_name(f"my-{path.name}"))
    (folder / "data" / "processed_RTs.tsv").write_text("WorkerId\tRT\tmeanItemRT\n")
    (folder / "data" / "freqs-2.tsv").write_text("1.1.whole\t2\tIf\t1\t1\n")
    write_ucl(folder / "data" / "ucl.csv")
    data = data_folder.find_data(folder)
    assert data.ucl == folder / "data" / "ucl.csv"
    assert data.story_times == folder / "data" / "my-processed_wordinfo.tsv"
    assert data.story_frequencies == folder / "data" / "my-freqs-1.tsv"
    assert data.story_gpt3 == folder / "data" / "my-all_stories_gpt3.csv"


def test_results_are_written_after_each_table() -> None:
    markdown_sizes = []
    json_sizes = []

    def yield_tables() -> Iterator[Table]:
        for name in ("one", "two"):
            yield Table(name, "A note.", ["a"], {"b": [None]})
            markdown_sizes.append(Path("results.md").stat().st_size)
            json_sizes.append(Path("results.json").stat().st_size)

    evaluate_model.write_tables({}, yield_tables(), Path("results"))
    for first, second in (markdown_sizes, json_sizes):
        assert first < second


def test_a_table_as_markdown_and_json() -> None:
    rows = {
        "layer 1": [Figure(50.04, -0.01, 61.26), None],
        "published": [Figure(67.4), None],
    }
    table = Table("Senses", "Two words.", ["all", "one"], rows)
    markdown = to_markdown({"model": "mini"}, [table])
    assert "- model: mini\n" in markdown
    assert markdown.endswith(
        "## Senses\n\nTwo words.\n\n|  | all | one |\n|---|--:|--:|\n"
        "| layer 1 | 50.0 (0.0 to 61.3) |  |\n| published | 67.4 |  |\n"
    )
    figures = {
        "layer 1": {"all": {"value": 50.04, "low": -0.01, "high": 61.26}},
        "published": {"all": {"value": 67.4}},
    }
    assert json.loads(to_json({"model": "mini"}, [table])) == {
        "model": "mini",
        "interval": "95 % (bootstrap)",
        "tests": {"Senses": {"note": "Two words.", "unit": "percent", "rows": figures}},
    }
    fine = replace(table, n_decimals=2)
    assert "| layer 1 | 50.04 (-0.01 to 61.26) |  |" in fine.to_markdown()


# Standard errors and intervals


def test_the_error_and_the_interval_of_a_mean() -> None:
    scores = np.random.default_rng(1).normal(size=(400, 2))
    estimate = bootstrap.mean_of_groups(scores, np.arange(400))
    assert estimate.values == pytest.approx(scores.mean(axis=0))
    error = scores.std(axis=0) / 20
    assert estimate.errors == pytest.approx(error, rel=0.1)
    low = estimate.values - 1.96 * error
    high = estimate.values + 1.96 * error
    expected = np.stack([low, high], axis=1)
    assert estimate.intervals == pytest.approx(expected, abs=0.02)
    # The rows of a group count together.
    rows = np.repeat(scores, 4, axis=0)
    groups = np.repeat(np.arange(400), 4)
    of_groups = bootstrap.mean_of_groups(rows, groups)
    assert of_groups.errors == pytest.approx(estimate.errors)


def test_a_difference_is_paired() -> None:
    scores = np.random.default_rng(1).normal(size=(100, 1))
    estimate = bootstrap.mean_of_groups(np.hstack([scores + 1, scores]), np.arange(100))
    difference = estimate.difference(0, 1)
    assert difference.values == pytest.approx([1])
    assert difference.intervals == pytest.approx(np.ones((1, 2)))


def test_a_ratio_divides_sums() -> None:
    right = np.array([[1.0], [1.0], [0.0]])
    answered = np.array([[1.0], [1.0], [2.0]])
    estimate = bootstrap.ratio_of_groups(right, answered, np.array([5, 5, 9]))
    assert estimate.values == pytest.approx([0.5])
    # The first group is drawn twice, once or never: ratios 1, 0.5 and 0.
    assert np.unique(estimate.draws).tolist() == [0, 0.5, 1]
    assert estimate.draws.mean() == pytest.approx(0.5, abs=0.05)
