"""Unfinished outputs whose bytes have changed since the last checkpoint."""

import random
from pathlib import Path
from typing import Any

import pytest
from runs import assert_same_file, embed, stop_after

from elmo_cli.errors import OutputError, StoppedError
from elmo_cli.outputs.resumable_file import PAGE_BYTES, ResumableFile

SETTINGS: list[dict[str, Any]] = [{}, {"layout": "packed"}]
KINDS = ("flip", "zero", "move", "cut", "empty")
N_DAMAGES = 60


def change(path: Path, kind: str, choose: random.Random) -> None:
    """Damage a file: flip some bits, clear a page, move a page, cut it or empty it."""
    content = bytearray(path.read_bytes())
    page = choose.randrange(0, len(content), PAGE_BYTES)
    if kind == "flip":
        for _ in range(choose.randint(1, 3)):
            content[choose.randrange(len(content))] ^= 1 << choose.randrange(8)
    elif kind == "zero":
        content[page : page + PAGE_BYTES] = bytes(len(content[page : page + PAGE_BYTES]))
    elif kind == "move":
        content[page:] = content[:PAGE_BYTES] + content[page + PAGE_BYTES :]
    else:
        del content[0 if kind == "empty" else choose.randrange(len(content)) :]
    path.write_bytes(content)


@pytest.mark.parametrize("settings", SETTINGS)
def test_changed_bytes_are_found_and_overwrite_starts_over(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    text, output = tmp_path / "input.txt", tmp_path / "out.hdf5"
    text.write_text("The cat sat\non the bank\nof a river\n" * 8)
    embed(text, tmp_path / "whole", **settings)
    with pytest.raises(StoppedError):
        embed(text, output, should_stop=stop_after(5), **settings)
    partial, log = Path(f"{output}.partial"), Path(f"{output}.partial.log")
    saved = partial.read_bytes(), log.read_bytes()
    choose, n_found = random.Random(1), 0
    for number in range(N_DAMAGES):
        partial.write_bytes(saved[0])
        log.write_bytes(saved[1])
        change(log if number % 3 == 0 else partial, choose.choice(KINDS), choose)
        try:
            ResumableFile(output).close()
        except OutputError as error:
            n_found += 1
            message = str(error)
            if number % 10 == 0:
                embed(text, output, overwrite=True, **settings)
                assert_same_file(output, tmp_path / "whole")
                output.unlink()
        else:  # The log has repaired the page, or the page was zero before.
            assert (partial.read_bytes(), log.read_bytes()) == saved
            continue
        assert "\n" not in message
        assert message.endswith("Use --overwrite to start over.")
    assert n_found > N_DAMAGES / 2


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_log_without_its_file_starts_over(tmp_path: Path, settings: dict[str, Any]) -> None:
    text, output = tmp_path / "input.txt", tmp_path / "out.hdf5"
    text.write_text("The cat sat\n" * 20)
    with pytest.raises(StoppedError):
        embed(text, output, should_stop=stop_after(3), **settings)
    Path(f"{output}.partial").unlink()
    assert embed(text, output, **settings).n_sentences == 20
    assert not list(tmp_path.glob("out.hdf5.*"))


def test_a_long_check_of_an_unfinished_file_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo_cli.outputs.resumable_file._BLOCK_BYTES", PAGE_BYTES)
    file = ResumableFile(tmp_path / "a")
    file.write(b"content" * 20 * PAGE_BYTES)
    file.checkpoint({"n": 1})
    file.close()
    with pytest.raises(StoppedError, match=r"a\.partial was checked"):
        ResumableFile(tmp_path / "a", should_stop=lambda: True)
    again = ResumableFile(tmp_path / "a")
    assert again.state == {"n": 1}
    again.close()
