"""Parts of speech: corpora are read as they are, and the layer that knows is found."""

from pathlib import Path

import numpy as np
import part_of_speech
import pytest
import tagged_data
from planted import PlantedEmbedder
from tagged_data import Split, Tagged


def test_brown_lines_become_the_tokens_of_elmos_text() -> None:
    line = "\t``/`` I'm/ppss+bem not/* Fulton's/np$-tl-hl can't/md* sine/fw-in+at 1/2/cd"
    sentence = tagged_data.parse_brown(line)
    tokens = ['"', "I", "'m", "not", "Fulton", "'s", "can", "'t", "sine", "1/2"]
    assert sentence.tokens == tokens
    tagged = [tokens[position] for position in sentence.positions]
    assert tagged == ['"', "I", "not", "Fulton", "can", "sine", "1/2"]
    assert sentence.tags == ["``", "ppss", "*", "np$", "md", "in", "cd"]


def test_brown_is_tested_on_other_documents_or_stretches(tmp_path: Path) -> None:
    for number in range(10):
        text = f"\n\n\tDocument/nn {number}/cd ./.\n" * 3
        (tmp_path / f"ca0{number}").write_text(text)
    lines = [f"Line/nn {number // 100}/cd ./.\n" for number in range(500)]
    paths = list(tmp_path.iterdir())
    (tmp_path / "brown.tagged").write_text("".join(lines))
    for sources, sizes in ((paths, [24, 6]), ([tmp_path / "brown.tagged"], [400, 100])):
        split = tagged_data.read_brown(sources)
        assert [len(part) for part in split] == sizes
        train, test = ({sentence.tokens[1] for sentence in part} for part in split)
        assert not train & test


def test_treebanks_are_read_without_ranges_and_empty_nodes(tmp_path: Path) -> None:
    path = tmp_path / "x-ud-train.conllu"
    rows = ["1-2\tdu\t_\t_", "1\tde\tde\tADP", "2\tle\tle\tDET", "2.1\tx\t_\tVERB", "3\ta b\t_\tX"]
    path.write_text("# text = du a b\n" + "\n".join(rows) + "\n\n1\tOui\toui\tINTJ", "utf-8")
    split = tagged_data.read_treebank(path, path)
    assert (
        split.test
        == split.train
        == [
            Tagged(["de", "le", "a_b"], [0, 1, 2], ["ADP", "DET", "X"]),
            Tagged(["Oui"], [0], ["INTJ"]),
        ]
    )


def planted_split() -> Split:
    """Return sentences whose tags follow from the length of the token before."""
    random = np.random.default_rng(0)
    tags = {2: "nn", 3: "vb", 4: "jj"}
    texts = [list(random.choice(["xx", "xxx", "xxxx"], size=6)) for _ in range(400)]
    positions = list(range(1, 6))
    sentences = [Tagged(t, positions, [tags[len(word)] for word in t[:-1]]) for t in texts]
    return Split(sentences[:300], sentences[300:])


def test_the_classifier_finds_the_layer_that_knows() -> None:
    split = planted_split()
    estimate = part_of_speech.classify_layers(PlantedEmbedder(), split)
    usual, layer0, layer1, layer2, difference = estimate.values
    assert layer1 == 1
    assert [usual, layer0, layer2] == pytest.approx([1 / 3] * 3, abs=0.1)
    assert difference == pytest.approx(layer2 - layer1)
    assert estimate.errors[4] == pytest.approx(0.021, abs=0.01)  # sqrt(2/9 / 500)
    table = part_of_speech.evaluate(PlantedEmbedder(), {"planted": split})
    assert table.columns == ["planted", "published: biLM, Penn Treebank"]
    layers = ("layer 0", "layer 1", "layer 2", "top layer minus layer 1")
    assert [*table.rows] == [part_of_speech.USUAL, *layers]
    assert [cell.value for cell in table.rows["layer 1"] if cell] == [100, 97.3]


def test_the_usual_tag_is_the_most_frequent_one() -> None:
    train = [Tagged(["a", "a", "b", "a"], [0, 1, 2, 3], ["x", "x", "y", "z"])]
    test = [Tagged(["a", "b", "c", "c"], [0, 1, 2, 3], ["x", "z", "x", "y"])]
    assert part_of_speech.most_frequent_tag(Split(train, test)).tolist() == [1, 0, 1, 0]
