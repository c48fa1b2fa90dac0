"""A folder belongs to one plan, which equal runs share, on disks and stores."""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import torch
from click.testing import Result
from pyarrow import parquet
from pyarrow.fs import FSSpecHandler, PyFileSystem

from elmo_cli import open_activations
from elmo_cli.distributed.input_part import Part
from elmo_cli.distributed.part import (
    PartResult,
    embed_part,
    summarize,
    worker_name,
)
from elmo_cli.distributed.plan import CorpusSettings, open_plan
from elmo_cli.distributed.workers import run_parts
from elmo_cli.errors.exceptions import (
    DeviceError,
    InputError,
    OtherInputError,
    OutputError,
    WeightsError,
)
from elmo_cli.files import shared_folder
from elmo_cli.files.shared_folder import Folder, find_file_system
from elmo_cli.inference.device import CPU
from elmo_cli.inference.precision import find_arithmetic
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.selection import SelectionSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.outputs.part_files import PLAN, PLAN_SHA256
from tests.support.commands import TINY, elmo
from tests.support.distributed_runs import (
    LINES,
    RUN,
    SMALL_PARTS,
    WARM,
    ZERO,
    assert_equal_to_embed,
    distribute,
    parts_there,
)
from tests.support.processors import other_arithmetic

REMEDY = "Choose another folder."

pytestmark = pytest.mark.usefixtures("corpus_folder")


def refusal_of(*options: str) -> str:
    """Run the command, which fails, and return its error."""
    result = elmo(*RUN, *options)
    assert result.exit_code == 1
    return result.stderr.splitlines()[-1]


def change_input(*, keeps_time: bool) -> None:
    """Change the content of the text, and not its size."""
    times = Path("text.txt").stat()
    Path("text.txt").write_text(LINES.replace("cat", "dog"))
    if keeps_time:
        os.utime("text.txt", ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("shard", [(), ("--shard", "1/2")])
def test_another_run_is_refused_and_changes_nothing(
    folder: Path, shard: tuple[str, ...]
) -> None:
    assert elmo(*RUN, *shard).exit_code == 0
    before = parts_there()
    start = f"Error: {folder}/out belongs to another run. These differ:"
    differences = (
        "--dtype (it has float32, this run has float16), "
        "--layers (it has all, this run has top)"
    )
    refusal = refusal_of("--layers", "top", "--dtype", "float16")
    assert refusal == f"{start} {differences}. {REMEDY}"
    assert "--part-size (it has 0.002, this run has 1.0)" in refusal_of(
        "--part-size", "1"
    )
    change_input(keeps_time=True)
    assert refusal_of() == f"{start} the content of {folder}/text.txt. {REMEDY}"
    Path("text.txt").write_text(LINES)  # Its time has changed, but not its content.
    Path("b.txt").write_text("b")
    result = elmo("distribute", "b.txt", "text.txt", "out", *SMALL_PARTS)
    inputs = f"input 1 ({folder}/text.txt, not {folder}/b.txt), input 2 (none"
    assert inputs in result.stderr
    assert parts_there() == before
    assert elmo(*RUN).exit_code == 0
    assert_equal_to_embed()


@pytest.mark.parametrize("n_before", [6, 10])
@pytest.mark.parametrize("keeps_time", [False, True])
def test_an_input_that_changes_during_the_run_is_refused(
    n_before: int, keeps_time: bool
) -> None:
    def run_on_workers(
        parts: Sequence[Part], embed: Callable[..., PartResult]
    ) -> Iterator[PartResult]:
        yield from map(embed, parts[:n_before])
        change_input(keeps_time=keeps_time)
        yield from map(embed, parts[n_before:])

    plan = open_plan(there := Folder("out"), ("text.txt",), ZERO, part_mb=0.002)
    with pytest.raises(OtherInputError, match=r"text.txt: the file has changed"):
        run_parts(there, plan, ZERO, run_on_workers)
    assert not there.has("_SUCCESS")
    problem = "its run has not ended" if n_before == 10 else "4 of 10 parts are missing"
    with pytest.raises(InputError, match=problem):
        open_activations("out")
    if n_before == 10:
        status = elmo("distribute", "--status", "out")
        assert status.exit_code == 1
        missing = "Missing: _SUCCESS, which the same command writes"
        assert status.stdout == f"out: 10 of 10 parts\n{missing}\n"


def test_a_pattern_that_matches_the_folder_resumes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Path("data").mkdir()
    for name in ("a.txt", "b.txt"):
        Path("data", name).write_text(LINES)

    def run(*options: str) -> Result:
        command = "distribute data/**/* data/out --input-format text"
        return elmo(*command.split(), *SMALL_PARTS, *options)

    assert run("--shard", "1/2").exit_code == 0
    assert run().exit_code == 0
    assert "data/**/*: skipped 14 files in the output folder" in caplog.text
    result = run()
    assert result.exit_code == 0
    assert "is complete already: 20 parts" in result.stderr
    with open_activations("data/out") as activations:
        assert len(activations) == 80


def test_of_two_new_plans_one_is_created(monkeypatch: pytest.MonkeyPatch) -> None:
    create = Folder.create

    def lose(self: Folder, name: str, content: bytes) -> None:
        monkeypatch.setattr(Folder, "create", create)
        open_plan(self, ("text.txt",), WARM)
        create(self, name, content)

    monkeypatch.setattr(Folder, "create", lose)
    with pytest.raises(
        OutputError, match=r"These differ: state \(it has warm, this run has zero\)"
    ):
        open_plan(Folder("out"), ("text.txt",), ZERO)


def test_a_run_that_completes_first_does_not_stop_its_twin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publish = Folder.publish

    def publish_late(
        self: Folder, name: str, write: Any, *, replaces: bool = True
    ) -> Any:
        def write_late(file: Any) -> Any:
            monkeypatch.setattr(Folder, "publish", publish)
            distribute()  # It removes the temporary file of this run.
            return write(file)

        return publish(self, name, write_late, replaces=replaces)

    plan = open_plan(Folder("out"), ("text.txt",), ZERO, part_mb=0.002)
    monkeypatch.setattr(Folder, "publish", publish_late)
    assert embed_part("out", summarize(plan), ZERO, plan.parts[3]).error is None
    assert_equal_to_embed()


def test_a_folder_that_is_moved_during_the_run_is_said() -> None:
    def move(part: Part) -> None:
        if part.number == 3:
            Path("out").rename("moved")

    with pytest.raises(OutputError, match="the plan of this run is missing"):
        distribute(before_part=move)
    assert not Path("out").exists()


def test_another_model_is_refused_by_a_worker() -> None:
    plan = open_plan(Folder("out"), ("text.txt",), ZERO)
    summary = summarize(plan)
    summary = summary._replace(
        attributes={**summary.attributes, "model_sha256": "0" * 64}
    )
    with pytest.raises(
        WeightsError, match=r"not the weights of the plan \(SHA-256 00+\.\.\."
    ):
        embed_part("out", summary, ZERO, plan.parts[0])


def test_a_worker_of_another_arithmetic_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = CorpusSettings(ModelSettings(str(TINY), precision="bfloat16"))
    arithmetic = find_arithmetic("bfloat16", CPU)
    plan = open_plan(Folder("out"), ("text.txt",), settings)
    assert plan.settings["precision"] == arithmetic
    elsewhere = other_arithmetic()
    monkeypatch.setattr(
        "elmo_cli.engine.find_arithmetic", lambda precision, device: elsewhere
    )
    message = (
        f"out: its parts are {arithmetic}, and {worker_name()} would compute "
        f"{elsewhere}. Use workers with one kind of processor."
    )
    with pytest.raises(DeviceError, match=f"{re.escape(message)}$"):
        run_parts(Folder("out"), plan, settings)
    assert parts_there() == {}
    # Another process on the other processor finds out before it loads the model.
    monkeypatch.setattr(
        "elmo_cli.distributed.plan.find_arithmetic",
        lambda precision, device: elsewhere,
    )
    message = (
        "These differ: precision (it has "
        f"{arithmetic}, this run has {elsewhere}). {REMEDY}"
    )
    with pytest.raises(OutputError, match=re.escape(message)):
        open_plan(Folder("out"), ("text.txt",), settings)


def test_a_plan_for_gpus_has_their_arithmetic() -> None:
    settings = CorpusSettings(ModelSettings(str(TINY), precision="bfloat16"))
    plan = open_plan(
        Folder("out"), ("text.txt",), settings, device=torch.device("cuda")
    )
    assert plan.settings["precision"] == "bfloat16"


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
        replace(ZERO, selection=SelectionSettings(pooling="max"), dtype="float16"),
        replace(ZERO, text=TextSettings(split_sentences=True)),
    ],
)
def test_the_plan_has_the_columns_of_the_parts(settings: CorpusSettings) -> None:
    if settings.text.split_sentences:
        pytest.importorskip("sentencex")
    distribute(settings)
    plan, part = (
        parquet.read_schema(f"out/{name}") for name in (PLAN, "part-00000000.parquet")
    )
    assert plan.equals(part)


def test_a_wrong_file_under_the_name_of_a_part_is_named() -> None:
    path = Path("out/part-00000003.parquet").resolve()
    distribute(WARM, location="other")
    distribute()
    parquet.write_table(pyarrow.table({"a": [1]}), "foreign.parquet")
    others = {
        "foreign.parquet": "a part of another plan",
        "out/part-00000005.parquet": "part 5",
        f"other/{path.name}": "a part of another plan",
    }
    for source, found in others.items():
        path.write_bytes(Path(source).read_bytes())
        with (
            pytest.raises(InputError) as caught,
            open_activations("out") as activations,
        ):
            list(activations.records())
        problem = f"{path}: expected part 3 of the plan, found {found}. "
        remedy = "Give the `elmo distribute` command of the folder again."
        assert str(caught.value) == problem + remedy
        distribute()
        assert_equal_to_embed()


@pytest.mark.parametrize("n_after", [0, 900])
def test_a_part_that_the_plan_lacks_is_named(n_after: int) -> None:
    distribute()
    n_parts = len(list(Path("out").glob("part-*")))
    extra = Path(f"out/part-{n_parts + n_after:08d}.parquet").resolve()
    extra.write_bytes(Path("out/part-00000000.parquet").read_bytes())
    with pytest.raises(InputError) as caught, open_activations("out"):
        pass
    last = f"part-{n_parts - 1:08d}.parquet"
    problem = f"the plan has {n_parts} parts, up to {last}"
    assert str(caught.value) == f"{extra}: {problem}. Remove it."
    extra.unlink()
    assert_equal_to_embed()


def test_what_is_no_file_under_the_name_of_a_part_is_replaced() -> None:
    path = Path("out/part-00000003.parquet").resolve()
    distribute()
    for make in (os.mkfifo, partial(os.symlink, "/dev/zero")):
        path.unlink()
        make(path)
        distribute()
        assert_equal_to_embed()
    path.unlink()
    path.mkdir()
    assert refusal_of() == f"Error: {path}: cannot write the output: Is a directory"


def test_a_damaged_plan_is_one_line() -> None:
    open_plan(Folder("out"), ("text.txt",), ZERO)
    path = Path("out", PLAN)
    content = path.read_bytes()
    schema = parquet.read_schema(path)
    plan = schema.metadata[b"plan"].replace(b'"zero"', b'"warm"')  # Its hash stays.
    table = schema.with_metadata({**schema.metadata, b"plan": plan}).empty_table()
    parquet.write_table(table, "changed")
    for damaged in (b"", b"{", content[:-9], Path("changed").read_bytes()):
        path.write_bytes(damaged)
        for arguments in (("distribute", "--status", "out"), RUN):
            result = elmo(*arguments)
            error = result.stderr.splitlines()[-1]
            assert result.exit_code == 1
            assert error.startswith(f"Error: {path.resolve()}: the file is damaged: ")
            assert error.endswith(REMEDY)


@pytest.mark.parametrize("first", [-1, 7, 2**63 - 1])
def test_a_plan_whose_parts_do_not_follow_one_another_is_refused(first: int) -> None:
    plan = open_plan(Folder("out"), ("text.txt",), ZERO)
    path = Path("out", PLAN)
    parts = [plan.parts[0]._replace(first=first), *plan.parts[1:]]
    forged = replace(plan, parts=parts)
    metadata = {PLAN_SHA256: forged.sha256, "plan": forged.encode()}
    table = parquet.read_schema(path).with_metadata(metadata).empty_table()
    parquet.write_table(table, path)
    result = elmo(*RUN)
    problem = "the file is damaged: its parts do not follow one another"
    assert result.stderr.endswith(f"Error: {path.resolve()}: {problem}. {REMEDY}\n")
    assert result.exit_code == 1


# Object stores

OUT = "memory://bucket/out"
distribute_there = partial(distribute, location=OUT)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make an empty store in memory, without renames, links and locks."""
    memory = pytest.importorskip("fsspec.implementations.memory")
    filesystem = memory.MemoryFileSystem()

    def open_in_memory(location: str) -> tuple[Any, str]:
        if location.startswith("memory://"):
            return PyFileSystem(FSSpecHandler(filesystem)), location.removeprefix(
                "memory:/"
            )
        return find_file_system(location)

    monkeypatch.setattr(shared_folder, "find_file_system", open_in_memory)
    yield
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]


@pytest.mark.usefixtures("store")
def test_a_run_on_a_store_resumes_and_completes() -> None:
    def stop(part: Part) -> None:
        if part.number == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distribute_there(ZERO, stop)
    done: list[int] = []
    distribute_there(ZERO, lambda part: done.append(part.number))
    assert done == [4, 5, 6, 7, 8, 9]
    assert_equal_to_embed(location=OUT)
    with pytest.raises(
        OutputError, match=r"These differ: state \(it has zero, this run has warm\)"
    ):
        distribute_there(WARM)
    assert "_SUCCESS" in Folder(OUT).names()
    assert Folder(f"{OUT}/_elmo").names() == ["plan.parquet"]


@pytest.mark.usefixtures("store")
def test_equal_runs_on_a_store_both_end_well() -> None:
    distribute_there(
        ZERO, lambda part: distribute_there(ZERO) if part.number == 3 else None
    )
    assert_equal_to_embed(location=OUT)


@pytest.mark.usefixtures("store")
def test_of_two_plans_on_a_store_the_last_one_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def create_another(part: Part) -> None:
        if part.number == 3:
            # The other run has looked for a plan before this run created its own.
            with monkeypatch.context() as patch:
                patch.setattr(
                    "elmo_cli.distributed.plan.read_plan", lambda folder: None
                )
                patch.setattr(Folder, "has", lambda self, name: False)
                patch.setattr(Folder, "names", lambda self, name="": [])
                open_plan(Folder(OUT), ("text.txt",), WARM, part_mb=0.002)

    with pytest.raises(OutputError, match="the plan of this run is missing"):
        distribute_there(ZERO, create_another)
    distribute_there(WARM)
    assert_equal_to_embed("--state", "warm", location=OUT)
