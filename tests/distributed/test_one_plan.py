"""A folder belongs to one plan: equal runs share it, other runs are refused by name."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import TINY, elmo
from conftest import LINES
from distributed_runs import WARM, ZERO, assert_equal_to_embed, distribute, parts_there
from pyarrow import parquet

from elmo_cli import open_activations
from elmo_cli.distributed.inputs import Part
from elmo_cli.distributed.part import PartResult, embed_part, key_of
from elmo_cli.distributed.plan import CorpusSettings, open_plan
from elmo_cli.distributed.workers import run_parts
from elmo_cli.errors import InputError, OtherInputError, OutputError, WeightsError
from elmo_cli.outputs.parts import PLAN, Folder
from elmo_cli.settings import Selection, TextSettings

RUN = ("distribute", "text.txt", "out", "--engine", "none", "--part-size", "0.002", "--model", TINY)
AGAIN = "Give the `elmo distribute` command of the folder again"
REMEDY = "Choose another folder."


pytestmark = pytest.mark.usefixtures("corpus_folder")


def at_part(number: int, action: Callable[[], object]) -> Callable[[Part], None]:
    """Return a function that does something before a part."""

    def act(part: Part) -> None:
        if part.number == number:
            action()

    return act


def read_out() -> None:
    """Read all records of the folder."""
    with open_activations("out") as activations:
        list(activations.records())


def refusal_of(*options: str) -> str:
    """Run the command, which fails, and return its error."""
    result = elmo(*RUN, *options)
    assert result.exit_code == 1
    return result.stderr.splitlines()[-1]


@pytest.mark.parametrize("is_complete", [True, False])
def test_another_run_is_refused_and_changes_nothing(folder: Path, is_complete: bool) -> None:
    assert elmo(*RUN, *(() if is_complete else ("--shard", "1/2"))).exit_code == 0
    before = parts_there()
    start = f"Error: {folder}/out belongs to another run. These differ:"
    differences = "--dtype (float32, not float16), --layers (all, not top)"
    assert refusal_of("--layers", "top", "--dtype", "float16") == f"{start} {differences}. {REMEDY}"
    assert "--part-size (0.002, not 1.0)" in refusal_of("--part-size", "1")
    Path("text.txt").write_text("else")
    assert refusal_of() == f"{start} the content of {folder}/text.txt. {REMEDY}"
    Path("text.txt").write_text(LINES)
    Path("b.txt").write_text("b")
    result = elmo("distribute", "b.txt", *RUN[1:])
    assert f"input 1 ({folder}/text.txt, not {folder}/b.txt), input 2 (none" in result.stderr
    assert parts_there() == before
    assert elmo(*RUN).exit_code == 0
    assert_equal_to_embed()


def change_input(*, keeps_time: bool) -> None:
    """Change the content of the text, and not its size."""
    times = Path("text.txt").stat()
    Path("other.txt").write_text(LINES.replace("cat", "dog"))
    if keeps_time:
        os.utime("other.txt", ns=(times.st_atime_ns, times.st_mtime_ns))
    Path("other.txt").rename("text.txt")


@pytest.mark.parametrize("n_parts", [0, 4, 10])
def test_an_input_of_equal_size_and_time_is_another_input(n_parts: int) -> None:
    plan = open_plan(Folder("out"), ("text.txt",), ZERO, part_mb=0.002)
    for part in plan.parts[:n_parts]:
        embed_part("out", key_of(plan), ZERO, part)
    change_input(keeps_time=True)
    with pytest.raises(OutputError, match=r"differ: the content of .*/text.txt. Choose another"):
        distribute()
    Path("text.txt").write_text(LINES)
    os.utime("text.txt", (0, 0))
    distribute()
    assert_equal_to_embed()


@pytest.mark.parametrize("n_before", [6, 10])
@pytest.mark.parametrize("keeps_time", [False, True])
def test_an_input_that_changes_during_the_run_is_refused(n_before: int, keeps_time: bool) -> None:
    def engine(parts: Sequence[Part], embed: Callable[..., PartResult]) -> Iterator[PartResult]:
        yield from map(embed, parts[:n_before])
        change_input(keeps_time=keeps_time)
        yield from map(embed, parts[n_before:])

    there = Folder("out")
    plan = open_plan(there, ("text.txt",), ZERO, part_mb=0.002)
    with pytest.raises(OtherInputError, match=r"text.txt: the file has changed"):
        run_parts(there, plan, ZERO, engine)
    assert not there.has("_SUCCESS")
    problem = "its run has not ended" if n_before == 10 else "4 of 10 parts are missing"
    with pytest.raises(InputError, match=problem):
        open_activations("out")
    if n_before == 10:
        status = elmo("distribute", "--status", "out")
        missing = "Missing: _SUCCESS, which the same command writes"
        assert (status.exit_code, status.stdout) == (1, f"out: 10 of 10 parts\n{missing}\n")


def test_a_pattern_that_matches_the_folder_resumes(caplog: pytest.LogCaptureFixture) -> None:
    Path("data").mkdir()
    for name in ("a", "b"):
        rows = [{"id": f"{name}{i}", "text": f"The cat {i}"} for i in range(20)]
        Path("data", f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    command = ("distribute", "data/**/*", "data/out", *RUN[3:], "--input-format", "jsonl")
    assert elmo(*command, "--shard", "1/2").exit_code == 0
    result = elmo(*command)
    assert result.exit_code == 0
    assert "data/**/*: skipped 24 files in the output folder" in caplog.text
    with open_activations("data/out") as activations:
        assert len(activations) == 40
    result = elmo(*command)
    assert (result.exit_code, "0 tokens" in result.stderr) == (0, True)


def test_of_two_new_plans_one_is_created(monkeypatch: pytest.MonkeyPatch) -> None:
    create = Folder.create

    def lose(self: Folder, name: str, content: bytes) -> None:
        monkeypatch.setattr(Folder, "create", create)
        open_plan(self, ("text.txt",), WARM)
        create(self, name, content)

    monkeypatch.setattr(Folder, "create", lose)
    with pytest.raises(OutputError, match=r"These differ: --state \(warm, not zero\)"):
        open_plan(Folder("out"), ("text.txt",), ZERO)


def test_a_run_that_completes_first_does_not_stop_its_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    publish = Folder.publish

    def publish_late(self: Folder, name: str, write: Any, *, replaces: bool = True) -> Any:
        def write_late(file: Any) -> Any:
            monkeypatch.setattr(Folder, "publish", publish)
            distribute()  # It removes the temporary file of this run.
            return write(file)

        return publish(self, name, write_late, replaces=replaces)

    plan = open_plan(Folder("out"), ("text.txt",), ZERO, part_mb=0.002)
    monkeypatch.setattr(Folder, "publish", publish_late)
    assert embed_part("out", key_of(plan), ZERO, plan.parts[3]).error is None
    assert_equal_to_embed()


def test_a_folder_that_is_moved_during_the_run_is_said() -> None:
    with pytest.raises(OutputError, match="the plan of this run is missing"):
        distribute(before_part=at_part(3, lambda: Path("out").rename("moved")))
    assert not Path("out").exists()


def test_another_model_is_refused_by_a_worker() -> None:
    plan = open_plan(Folder("out"), ("text.txt",), ZERO)
    key = key_of(plan)
    key = key._replace(attributes={**key.attributes, "model_sha256": "0" * 64})
    with pytest.raises(WeightsError, match=r"not the weights of the plan \(SHA-256 00+\.\.\."):
        embed_part("out", key, ZERO, plan.parts[0])


def test_a_complete_folder_is_read_with_nothing_but_its_parts() -> None:
    distribute()
    shutil.rmtree("out/_elmo")
    assert_equal_to_embed()
    Path("out/_SUCCESS").unlink()
    assert_equal_to_embed()
    Path("out/part-00000003.parquet").unlink()
    with pytest.raises(InputError, match=r"1 of 10 parts are missing \(3\)"):
        open_activations("out")
    assert "not an `elmo distribute` folder, and not empty" in refusal_of()


@pytest.mark.parametrize(
    "settings",
    [
        ZERO,
        replace(ZERO, selection=Selection(pooling="max"), dtype="float16"),
        replace(ZERO, text=TextSettings(split_sentences=True)),
    ],
)
def test_the_plan_has_the_columns_of_the_parts(settings: CorpusSettings) -> None:
    if settings.text.split_sentences:
        pytest.importorskip("sentencex")
    distribute(settings)
    plan, part = (parquet.read_schema(f"out/{name}") for name in (PLAN, "part-00000000.parquet"))
    assert plan.equals(part)


@pytest.mark.parametrize("kind", ["part", "plan", "folder", "pipe", "link"])
def test_a_wrong_file_under_the_name_of_a_part_is_named(kind: str) -> None:
    path = Path("out/part-00000003.parquet").resolve()
    distribute(WARM, location="other")
    distribute()
    path.unlink()
    if kind in ("part", "plan"):
        source = "out/part-00000005.parquet" if kind == "part" else f"other/{path.name}"
        path.write_bytes(Path(source).read_bytes())
        found = "part 5" if kind == "part" else "a part of another plan"
        with pytest.raises(InputError) as caught:
            read_out()
        assert str(caught.value) == f"{path}: expected part 3 of the plan, found {found}. {AGAIN}."
    elif kind == "folder":
        path.mkdir()
        assert refusal_of() == f"Error: {path}: cannot write the output: Is a directory"
        path.rmdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    distribute()
    assert_equal_to_embed()


@pytest.mark.parametrize("damage", [b"", b"{", "cut", "hash"])
def test_a_damaged_plan_is_one_line(damage: bytes | str) -> None:
    distribute()
    path = Path("out", PLAN)
    content = path.read_bytes()
    if damage == "hash":
        schema = parquet.read_schema(path)
        plan = schema.metadata[b"plan"].replace(b'"zero"', b'"warm"')
        parquet.write_table(
            schema.with_metadata({**schema.metadata, b"plan": plan}).empty_table(), path
        )
    else:
        path.write_bytes(content[:-9] if isinstance(damage, str) else damage)
    for arguments in (("distribute", "--status", "out"), RUN):
        result = elmo(*arguments)
        error = result.stderr.splitlines()[-1]
        assert result.exit_code == 1
        assert error.startswith(f"Error: {path.resolve()}: the file is damaged: ")
        assert error.endswith(REMEDY)
