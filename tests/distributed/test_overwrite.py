"""Two runs on one folder: the folder holds the parts of one plan, or a run is refused by name."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from commands import TINY, elmo
from distributed_runs import WARM, ZERO, assert_equal_to_embed, distribute, parts_there

from elmo_cli import open_activations
from elmo_cli.distributed import finish
from elmo_cli.distributed.part import PartResult, embed_part, key_of
from elmo_cli.distributed.plan import open_plan
from elmo_cli.distributed.workers import run_parts
from elmo_cli.errors import InputError, OtherInputError, OutputError
from elmo_cli.outputs.parts import PLAN, SEAL, Folder, Part, find_done, read_plan, read_seal

LINES = "".join(f"The cat {i} sat\n\n" for i in range(20))
RUN = ("distribute", "text.txt", "out", "--engine", "none", "--part-size", "0.002", "--model", TINY)
AGAIN = "Give the `elmo distribute` command of the folder again"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an empty folder with a text, where commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(LINES)
    return tmp_path


def at_part(number: int, action: Callable[[], object]) -> Callable[[Part], None]:
    """Return a function that does something before a part."""

    def act(part: Part) -> None:
        if part.number == number:
            action()

    return act


def stop() -> None:
    """Stop a run as a kill does."""
    raise KeyboardInterrupt


def initial_state() -> str:
    """Return the initial state of the folder's activations."""
    with open_activations("out") as activations:
        list(activations.records())
        return str(activations.attributes["state"])


def test_of_two_new_plans_one_is_created(monkeypatch: pytest.MonkeyPatch) -> None:
    create = Folder.create

    def lose(self: Folder, name: str, content: bytes) -> bool:
        monkeypatch.setattr(Folder, "create", create)
        open_plan(self, ("text.txt",), WARM)
        return create(self, name, content)

    monkeypatch.setattr(Folder, "create", lose)
    with pytest.raises(OutputError, match=r"differs in state \(warm there, zero here\)"):
        open_plan(Folder("out"), ("text.txt",), ZERO)
    monkeypatch.setattr(Folder, "create", lose)
    plan = open_plan(Folder("out"), ("text.txt",), ZERO, overwrite=True)
    assert plan.is_next
    assert plan.settings["state"] == "zero"


def test_overwrite_keeps_the_old_result_until_the_end() -> None:
    distribute()
    with pytest.raises(KeyboardInterrupt):
        distribute(WARM, at_part(7, stop), overwrite=True)
    assert initial_state() == "zero"
    assert_equal_to_embed()
    status = elmo("distribute", "--status", "out")
    assert status.exit_code == 0
    assert "Replacement: 7 of 10 parts" in status.stdout
    done: list[int] = []
    distribute(WARM, lambda part: done.append(part.number), overwrite=True)
    assert done == [7, 8, 9]
    assert_equal_to_embed("--state", "warm")
    names = {path.name for path in Path("out/_elmo").iterdir()}
    assert names == {"plan.json", "complete.parquet"}


def test_a_shorter_plan_leaves_no_parts_of_the_longer_one() -> None:
    distribute()
    assert elmo(*RUN, "--part-size", "1", "--overwrite").exit_code == 0
    assert len(parts_there()) == 1
    assert_equal_to_embed()


@pytest.mark.parametrize("n_moves", [0, 4, 10])
def test_a_swap_that_is_killed_is_read_and_finished(
    monkeypatch: pytest.MonkeyPatch, n_moves: int
) -> None:
    distribute()
    move, n_done = Folder.move, 0

    def move_some(self: Folder, source: str, target: str) -> None:
        nonlocal n_done
        if n_done == n_moves:
            stop()
        n_done += 1
        move(self, source, target)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "move", move_some)
        if n_moves == 10:
            patch.setattr(finish, "_remove_abandoned", lambda folder: stop())
        with pytest.raises(KeyboardInterrupt):
            distribute(WARM, overwrite=True)
    assert_equal_to_embed("--state", "warm")
    done: list[int] = []
    distribute(WARM, lambda part: done.append(part.number))
    assert done == []
    assert len(parts_there()) == 10
    assert not list(Path("out/_elmo").glob("next-*"))
    assert_equal_to_embed("--state", "warm")


def replace_without_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace a plan, and end before its parts have their names."""
    distribute()
    with monkeypatch.context() as patch:
        patch.setattr(finish, "_settle", lambda *_: stop())
        with pytest.raises(KeyboardInterrupt):
            distribute(WARM, overwrite=True)


@pytest.mark.parametrize("n_calls", [1, 2])
def test_parts_that_move_while_they_are_counted_are_found(
    monkeypatch: pytest.MonkeyPatch, n_calls: int
) -> None:
    replace_without_moves(monkeypatch)
    names, calls = Folder.names, 0

    def names_and_move(self: Folder, folder: str = "") -> list[str]:
        nonlocal calls
        files = names(self, folder)
        calls += 1
        if calls == n_calls:
            distribute(WARM)
        return files

    monkeypatch.setattr(Folder, "names", names_and_move)
    folder = Folder("out")
    plan = read_plan(folder)
    assert plan is not None
    assert len(find_done(folder, plan)) == 10


def test_a_folder_whose_parts_move_while_it_is_opened_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replace_without_moves(monkeypatch)
    names = Folder.names

    def names_and_move(self: Folder, folder: str = "") -> list[str]:
        files = names(self, folder)
        monkeypatch.setattr(Folder, "names", names)
        distribute(WARM)
        return files

    monkeypatch.setattr(Folder, "names", names_and_move)
    assert initial_state() == "warm"


def test_a_run_whose_plan_is_replaced_is_refused() -> None:
    replace_plan = at_part(4, lambda: distribute(WARM, overwrite=True))
    with pytest.raises(OutputError, match="another run has replaced the plan of this run"):
        distribute(ZERO, replace_plan)
    assert_equal_to_embed("--state", "warm")


def test_a_part_that_comes_too_late_replaces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder("out")
    plan = open_plan(folder, ("text.txt",), ZERO, part_mb=0.002)
    name = Folder._name

    def name_late(self: Folder, partial: str, target: str, *, replaces: bool) -> bool:
        monkeypatch.setattr(Folder, "_name", name)
        distribute(WARM, overwrite=True)
        return name(self, partial, target, replaces=replaces)

    monkeypatch.setattr(Folder, "_name", name_late)
    with pytest.raises(OutputError, match="another run has replaced the plan of this run"):
        embed_part("out", key_of(plan), ZERO, plan.parts[3])
    assert_equal_to_embed("--state", "warm")


def test_two_runs_that_overwrite_end_one_after_the_other() -> None:
    top = replace(ZERO, dtype="float16")
    distribute()
    distribute(WARM, at_part(5, lambda: distribute(top, overwrite=True)), overwrite=True)
    assert_equal_to_embed("--state", "warm")
    assert not list(Path("out/_elmo").glob("next-*"))


def test_a_run_that_ends_after_its_plan_was_replaced_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    top = replace(ZERO, dtype="float16")
    distribute()
    locked = Folder.locked

    def lock_late(self: Folder, name: str) -> AbstractContextManager[None]:
        monkeypatch.setattr(Folder, "locked", locked)
        distribute(WARM, overwrite=True)
        distribute(top, overwrite=True)
        return locked(self, name)

    monkeypatch.setattr(Folder, "locked", lock_late)
    with pytest.raises(OutputError, match="another run has replaced the plan of this run"):
        distribute(WARM, overwrite=True)
    assert_equal_to_embed("--dtype", "float16")


def test_tasks_of_a_job_array_may_all_overwrite() -> None:
    distribute()
    warm = (*RUN, "--state", "warm", "--overwrite")
    for _ in range(2):
        for shard in ("2/3", "1/3", "3/3"):
            assert elmo(*warm, "--shard", shard).exit_code == 0
    assert_equal_to_embed("--state", "warm")
    before = parts_there()
    assert elmo(*warm).exit_code == 0
    assert parts_there() == before


def test_overwrite_works_by_a_uri(folder: Path) -> None:
    uri = f"file://{folder}/out"
    command = (*RUN[:2], uri, *RUN[3:])
    assert elmo(*command).exit_code == 0
    assert "differs in state (zero there, warm here)" in elmo(*command, "--state", "warm").stderr
    warm = (*command, "--state", "warm", "--overwrite")
    assert elmo(*warm, "--shard", "1/2").exit_code == 0
    assert_equal_to_embed()
    assert elmo(*warm, "--shard", "2/2").exit_code == 0
    assert_equal_to_embed("--state", "warm")
    names = {path.name for path in Path("out/_elmo").iterdir()}
    assert names == {"plan.json", "complete.parquet"}


@pytest.mark.parametrize("is_found", [False, True])
def test_an_abandoned_replacement_is_removed(is_found: bool) -> None:
    with pytest.raises(KeyboardInterrupt):
        distribute(WARM, at_part(2, stop))
    with pytest.raises(KeyboardInterrupt):
        distribute(ZERO, at_part(2, stop), overwrite=True)
    for path in Path("out/_elmo").glob("next-*/*"):
        os.utime(path, None if is_found else (0, 0))
    distribute(WARM)
    assert len(list(Path("out/_elmo").glob("next-*"))) == is_found


def test_a_part_under_another_name_is_refused_and_written_again() -> None:
    distribute()
    Path("out/part-00000003.parquet").write_bytes(Path("out/part-00000005.parquet").read_bytes())
    with pytest.raises(InputError) as caught:
        initial_state()
    path = Path("out/part-00000003.parquet").resolve()
    assert str(caught.value) == f"{path}: expected part 3 of the plan, found part 5. {AGAIN}."
    distribute()
    assert_equal_to_embed()


def test_a_part_of_another_plan_is_refused_and_written_again() -> None:
    distribute(WARM)
    other = Path("out/part-00000003.parquet").read_bytes()
    distribute(ZERO, overwrite=True)
    Path("out/part-00000003.parquet").write_bytes(other)
    with pytest.raises(InputError, match="expected part 3 of the plan, found a part of another"):
        initial_state()
    distribute()
    assert_equal_to_embed()


def test_a_complete_folder_that_lost_a_part_is_refused() -> None:
    distribute()
    Path("out/part-00000003.parquet").unlink()
    with pytest.raises(InputError, match=r"1 of 10 parts are missing \(3\)"):
        open_activations("out")
    assert elmo("distribute", "--status", "out").exit_code == 1


@pytest.mark.parametrize("keeps_time", [False, True])
def test_an_input_that_changes_during_the_run_is_refused(keeps_time: bool) -> None:
    def change() -> None:
        times = Path("text.txt").stat()
        Path("other.txt").write_text(LINES.replace("cat", "dog"))
        if keeps_time:
            os.utime("other.txt", ns=(times.st_atime_ns, times.st_mtime_ns))
        Path("other.txt").rename("text.txt")

    changed = "the lines of part 6" if keeps_time else "the file has changed"
    with pytest.raises(OtherInputError, match=f"text.txt: {changed}.*Use --overwrite"):
        distribute(before_part=at_part(6, change))
    with pytest.raises(InputError, match="4 of 10 parts are missing"):
        open_activations("out")


def test_an_input_that_changes_after_the_last_part_is_refused() -> None:
    def engine(parts: Sequence[Part], embed: Callable[..., PartResult]) -> Iterator[PartResult]:
        yield from map(embed, parts)
        Path("text.txt").write_text(LINES + "more")

    there = Folder("out")
    plan = open_plan(there, ("text.txt",), ZERO, part_mb=0.002)
    with pytest.raises(OtherInputError, match=r"text.txt: the file has changed"):
        run_parts(there, plan, ZERO, engine)
    with pytest.raises(InputError, match="its run has not ended"):
        open_activations("out")


@pytest.mark.parametrize("damage", ["", "{", "null", '{"settings": {}, "parts": null}', "hash"])
def test_a_damaged_plan_is_one_line_and_can_be_overwritten(damage: str) -> None:
    distribute()
    path = Path("out", PLAN)
    content = read_seal(Folder("out"), PLAN).decode()
    if damage == "":  # The plan of a complete folder is elsewhere.
        Path("out", SEAL).unlink()
    path.write_text(content.replace('"zero"', '"warm"') if damage == "hash" else damage)
    for arguments in (("distribute", "--status", "out"), RUN):
        result = elmo(*arguments)
        assert result.exit_code == 1
        assert result.stderr.splitlines()[-1].startswith(
            f"Error: {path.resolve()}: the file is damaged: "
        )
    with pytest.raises(InputError, match=r"the file is damaged: .*Use --overwrite to start"):
        open_activations("out")
    distribute(overwrite=True)
    assert_equal_to_embed()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"time": "now", "is_at_work": true}'])
def test_a_damaged_note_stops_nothing(content: bytes) -> None:
    distribute()
    for name in ("run.json", "run-1-2.json", "complete.json"):
        Path("out/_elmo", name).write_bytes(content)
    assert elmo("distribute", "--status", "out").exit_code == 0
    assert elmo(*RUN).exit_code == 0
    assert_equal_to_embed()


def test_a_folder_of_version_0_1_is_read_and_not_resumed() -> None:
    distribute()
    as_version_0_1(Path("out"))
    with open_activations("out") as activations:
        assert len(activations) == 40
        assert activations.attributes["records"] == 40
    assert_equal_to_embed()
    assert elmo("distribute", "--status", "out").stdout.startswith("out: 10 of 10 parts\n")
    assert "differs in form (that of version 0.1 there)" in elmo(*RUN).stderr
    distribute(overwrite=True)
    assert_equal_to_embed()
    assert read_plan(Folder("out")) is not None


def test_a_part_of_version_0_1_under_another_name_is_refused() -> None:
    distribute()
    as_version_0_1(Path("out"))
    Path("out/part-00000003.parquet").write_bytes(Path("out/part-00000005.parquet").read_bytes())
    with pytest.raises(InputError, match=r"found a part that begins with record \d"):
        initial_state()


def as_version_0_1(folder: Path) -> None:
    """Write the JSON files and metadata that version 0.1 wrote, without hashes."""
    from pyarrow import parquet

    plan = json.loads(read_seal(Folder(str(folder)), PLAN))
    (folder / SEAL).unlink()
    for part in plan["parts"]:
        del part["fingerprint"], part["sha256"]
    (folder / PLAN).write_text(json.dumps({"settings": plan["settings"], "parts": plan["parts"]}))
    totals = {"parts": str(len(plan["parts"])), "records": "40"}
    (folder / "_elmo/complete.json").write_text(json.dumps(plan["settings"] | totals))
    note = {"time": 1.0, "is_at_work": False, "text": "1 tokens/s", "failed": []}
    (folder / "_elmo/run.json").write_text(json.dumps(note))
    for path in folder.glob("part-*"):
        table = parquet.read_table(path)
        attributes = json.loads(table.schema.metadata[b"elmo"])
        del attributes["plan_sha256"], attributes["part"]
        metadata = {"elmo": json.dumps(attributes)}
        parquet.write_table(table.replace_schema_metadata(metadata), path)
