"""What stops a run at its start, or in the folder of another run: one line (`errors.txt`)."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from commands import elmo
from training_runs import content, write_run_files
from transcripts import Transcript, read_transcripts

RUN = "train --options-file options.json --batch-tokens 40 --max-length 12 --negative-samples 6"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two texts, options, and `model`, a run that can be resumed."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_run_files()
        run = f"{RUN} text.txt --output model --steps 1 --keep-checkpoint"
        assert elmo(*run.split()).exit_code == 0
    shutil.copytree(folder / "model", folder / "other")
    return folder


@pytest.mark.parametrize(
    "transcript", read_transcripts(Path(__file__).with_name("errors.txt")), ids=str
)
def test_what_stops_a_run_changes_nothing(
    transcript: Transcript, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs)
    before = content("model")
    replace(transcript, command=transcript.command.replace("RUN", RUN)).check()
    assert content("model") == before
