"""Files in the folder of a run that are not its own: inputs, and files of others."""

import json
import shutil
from pathlib import Path
from unittest.mock import patch

import pytest

from elmo_cli.training.training_folder import VALIDATION_TOKENS, check_no_other_files
from tests.support.commands import TINY, elmo
from tests.support.failing_disk import state_of

TEXT = "".join(f"the cat {number} sat on a mat\n" for number in range(60))
OPTIONS = {
    "lstm": {"dim": 8, "projection_dim": 6, "n_layers": 1},
    "char_cnn": {
        "embedding": {"dim": 4},
        "filters": [[1, 4], [2, 4]],
        "n_highway": 1,
        "activation": "relu",
    },
    "n_train_tokens": 768648884,
}
WRITTEN = (
    *("options.json", "weights.hdf5", "vocab.txt", "softmax.hdf5", "log.jsonl"),
    *("training.json", "card.md", "validation.txt"),
)


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    """Write a text and an architecture into the empty current folder."""
    Path("t.txt").write_text(TEXT)
    Path("opt.json").write_text(json.dumps(OPTIONS))
    Path("d").mkdir()


def train(*arguments: str, output: str = "d") -> tuple[int, str]:
    """Train for three steps; return the exit status and the last message."""
    words = list(arguments)
    if not {"--options-file", "--init-from"} & set(arguments):
        words += ["--options-file", "opt.json"]
    words += f"--output {output} --steps 3 --batch-tokens 64".split()
    result = elmo("train", *words)
    return result.exit_code, "".join(result.stderr.splitlines()[-1:])


@pytest.mark.parametrize(
    ("name", "source", "arguments"),
    [
        ("validation.txt", "t.txt", "d/validation.txt --validation-share 0.1"),
        ("vocab.txt", "t.txt", "d/vocab.txt"),
        ("card.md", "t.txt", "d/card.md --input-format text"),
        ("log.jsonl", "t.txt", "d/log.jsonl --input-format text"),
        ("softmax.hdf5", "t.txt", "d/soft*.hdf5 --input-format text"),
        ("options.json", "opt.json", "t.txt --options-file d/options.json"),
        ("card.md", "t.txt", "t.txt --validation-file d/card.md --input-format text"),
        ("vocab.txt", "vocabulary.txt", "t.txt --vocabulary-file d/vocab.txt"),
        ("checkpoint.pt", "t.txt", "d/checkpoint.pt --input-format text"),
        ("card.md.elmo-partial", "t.txt", "d/card.md.elmo-partial --input-format text"),
    ],
)
def test_training_never_replaces_what_it_reads(
    name: str, source: str, arguments: str
) -> None:
    Path("vocabulary.txt").write_text("<S>\n</S>\n<UNK>\nthe\na\n")
    shutil.copy(source, f"d/{name}")
    before = state_of(Path())
    status, message = train(*arguments.split())
    assert status == 1
    assert message.startswith(f"Error: d/{name.removesuffix('.elmo-partial')}: ")
    assert message.endswith(" Choose another output.")
    assert state_of(Path()) == before


def test_training_never_replaces_a_linked_input() -> None:
    Path("d/card.md").symlink_to("../t.txt")
    status, message = train("t.txt")
    assert status == 1
    assert message == (
        "Error: d/card.md: the output is also an input. Choose another output."
    )
    assert Path("t.txt").read_text() == TEXT


def test_training_never_replaces_the_model_it_starts_from() -> None:
    shutil.copytree(TINY, "m")
    Path("m/weights.hdf5").rename("d/weights.hdf5")
    Path("m/weights.hdf5").symlink_to("../d/weights.hdf5")
    before = state_of(Path())
    status, message = train("t.txt", "--init-from", "m")
    assert status == 1
    assert message.startswith("Error: d/weights.hdf5: the output is also an input.")
    assert state_of(Path()) == before


@pytest.mark.parametrize("names", [[name] for name in WRITTEN] + [list(WRITTEN)])
def test_training_keeps_files_of_others(names: list[str]) -> None:
    for name in (*names, "notes.txt"):
        Path("d", name).write_text("mine\n")
    before = state_of(Path())
    status, message = train("t.txt", "--validation-share", "0.1")
    assert status == 1
    assert message.startswith("Error: d: ")
    if "weights.hdf5" not in names:
        assert message == (
            f"Error: d: the folder has no checkpoint, but files that training would "
            f"replace: {names[0]}. Move them away, or choose another folder."
        )
    assert state_of(Path()) == before


def test_a_lock_that_is_another_file_is_kept() -> None:
    Path("d/.lock").write_text("mine")
    status, message = train("t.txt")
    assert (status, message) == (
        1,
        "Error: d/.lock: not a lock of `elmo`. Move it away.",
    )
    assert Path("d/.lock").read_text() == "mine"


def test_other_files_in_the_folder_are_no_obstacle() -> None:
    shutil.copy("t.txt", "d/corpus.txt")
    status, _ = train("d/corpus.txt")
    assert status == 0
    assert Path("d/corpus.txt").read_text() == TEXT
    Path("d", VALIDATION_TOKENS).write_text("mine")
    check_no_other_files(Path("elsewhere"))


def test_a_run_killed_before_its_validation_lines_resumes() -> None:
    target = "elmo_cli.training.train.write_lines"
    with patch(target, side_effect=KeyboardInterrupt):
        status, _ = train("t.txt", "--validation-share", "0.1")
    assert status != 0
    assert [path.name for path in Path("d").iterdir()] == ["checkpoint.pt"]
    status, _ = train("t.txt", "--validation-share", "0.1")
    assert status == 0
    assert Path("d/validation.txt").read_text()
