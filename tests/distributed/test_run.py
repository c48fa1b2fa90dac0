"""`elmo distribute --engine none`: equal to `elmo embed`, whatever ends it."""

import errno
import json
import os
import random
import re
import shutil
import signal
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from numpy.testing import assert_array_equal
from pyarrow import parquet

from elmo_cli import ActivationsDataset, open_activations
from elmo_cli.cli import progress_bar
from elmo_cli.distributed.part import PartResult
from elmo_cli.distributed.plan import open_plan
from elmo_cli.distributed.workers import RunCounts, run_parts
from elmo_cli.errors.exceptions import InputError, OutputError, StoppedError
from elmo_cli.errors.optional_imports import install_command
from elmo_cli.files.shared_folder import Folder
from tests.support.accept import CheckExample
from tests.support.commands import (
    TINY,
    assert_fails,
    elmo,
    run_python,
    start_elmo,
)
from tests.support.distributed_runs import (
    LINES,
    RUN,
    SMALL_PARTS,
    ZERO,
    assert_equal_to_embed,
    end_of,
    parts_there,
    wait_until,
)
from tests.support.failing_disk import Disk, kills, restore, state_of
from tests.support.table_files import write_table
from tests.support.transcripts import Example, each_example

pytestmark = pytest.mark.usefixtures("corpus_folder")


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--layers average --dtype float16",
        "--layers 0,2 --pooling mean",
        "--mix 1,2,3 --gamma 2 --pooling max --state warm",
        "--tokenizer moses --language fr",
    ],
)
def test_a_folder_holds_what_a_file_of_embed_holds(options: str) -> None:
    if "moses" in options:
        Path("text.txt").write_text("L'eau est froide.\n" * 9)
    result = elmo(*RUN, *options.split())
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert len(parts_there()) > 1 or "--pooling" in options
    assert_equal_to_embed(*options.split())
    if "moses" in options:
        with open_activations("out") as activations:
            assert activations.attributes["tokenizer"] == "moses:fr"
            assert activations.tokens(8) == ["L'", "eau", "est", "froide", "."]


def test_record_numbers_continue_across_files() -> None:
    Path("b.txt").write_text("b")
    Path("empty.txt").touch()
    files = "b.txt empty.txt text.txt"
    result = elmo("distribute", *files.split(), "out", *SMALL_PARTS)
    assert result.exit_code == 0
    with open_activations("out") as activations:
        assert activations.sentence(0) == "b"
        assert activations.sentence(1) == "The cat 0 sat"
        assert activations.sentence(3) == "The cat 1 sat"


def test_a_corpus_without_lines_is_an_error() -> None:
    Path("empty.txt").touch()
    result = elmo("distribute", "empty.txt", "out", *SMALL_PARTS)
    assert_fails(
        result,
        "empty.txt: the file is empty. Copy it again, or run the command that "
        "wrote it.",
    )
    assert not Path("out", "_SUCCESS").exists()


def test_a_folder_is_read_by_number_by_sentence_and_by_pyarrow() -> None:
    assert elmo(*RUN).exit_code == 0
    with open_activations("out") as activations:
        assert activations.sentence(4) == "The cat 2 sat"
        assert activations.index_of("The cat 2 sat") == 4
        assert "no such" not in activations
        assert "" not in activations
        record, _ = list(activations.records())[4]
        assert record.tokens == ["The", "cat", "2", "sat"]
        assert activations.attributes["records"] == 40
    assert ActivationsDataset("out")[4].shape == (3, 4, 32)
    table = parquet.read_table("out")
    assert table.column("index").to_pylist() == list(range(40))
    assert table.column_names == ["index", "sentence", "tokens", "activations"]
    assert json.loads(table.schema.metadata[b"elmo"])["model"] == str(TINY)


@pytest.mark.parametrize("options", ["", "--pooling mean"])
def test_the_passages_of_a_table_are_split(options: str) -> None:
    pytest.importorskip("sentencex")
    rows = []
    for i in range(6):
        text = f"The cat sat. It was red {i}." * (i % 3)
        rows.append({"id": f"p{i}", "text": text})
    write_table("rows.jsonl", rows)
    split = ["--split-sentences", *options.split()]
    result = elmo("distribute", "rows.jsonl", "out", *SMALL_PARTS, *split)
    assert result.exit_code == 0
    assert_equal_to_embed(*split, source="rows.jsonl")


def test_lines_and_tables_cannot_be_split_together() -> None:
    pytest.importorskip("sentencex")
    write_table("rows.jsonl", [{"id": "a", "text": "The cat sat. It was red."}])
    command = "distribute rows.jsonl text.txt out --split-sentences"
    result = elmo(*command.split(), *SMALL_PARTS)
    problem = "text.txt: --split-sentences requires text alone, or tables alone."
    assert problem in result.stderr


def test_fasta_cannot_be_split_into_sentences() -> None:
    pytest.importorskip("sentencex")
    Path("a.fasta").write_text(">id\nMV\n")
    command = "distribute text.txt a.fasta out --split-sentences"
    result = elmo(*command.split(), *SMALL_PARTS)
    problem = "a.fasta: --split-sentences requires text or a table, found fasta."
    assert result.exit_code == 2
    assert problem in result.stderr


def test_fasta_keeps_its_ids_and_headers() -> None:
    sequences = [f">id{i} of it\nMV\nls{'k' * i}\n" for i in range(6)]
    Path("text.fasta").write_text("".join(sequences))
    result = elmo("distribute", "text.fasta", "out", *SMALL_PARTS)
    assert result.exit_code == 0
    assert_equal_to_embed(source="text.fasta")
    headers = parquet.read_table("out").column("original_id").to_pylist()
    assert headers == [f"id{i} of it" for i in range(6)]


def test_columns_of_a_table_can_be_named() -> None:
    write_table("rows.jsonl", [{"body": f"The cat {i}", "id": i} for i in range(6)])
    command = "distribute rows.jsonl rows --text-column body --id-column id"
    assert elmo(*command.split(), *SMALL_PARTS).exit_code == 0
    with open_activations("rows") as activations:
        assert activations.id(3) == "3"
        assert activations.sentence(3) == "The cat 3"
        assert_array_equal(activations["3"], activations[3])


def test_the_last_shard_completes_the_folder() -> None:
    assert elmo(*RUN, "--shard", "2/2").exit_code == 0
    problem = "the folder is not complete: 5 of 10 parts are missing"
    with pytest.raises(InputError, match=problem):
        open_activations("out")
    lines = elmo("distribute", "--status", "out").stdout.splitlines()
    text = Path("text.txt").resolve()
    assert lines[0] == "out: 5 of 10 parts"
    assert lines[1] == f"Missing: part 0 ({text}, 5 records from 1)"
    assert len(lines) == 6  # _SUCCESS is missing because they are.

    result = elmo("distribute", "--status", "--json", "out")
    assert result.exit_code == 1
    status = json.loads(result.stdout)
    missing = status.pop("missing")
    assert [part["number"] for part in missing] == [0, 2, 4, 6, 8]
    assert missing[1] == {
        "number": 2,
        "path": str(text),
        "line": 11,
        "n_lines": 5,
        "error": None,
    }
    assert status == {"folder": "out", "parts": 10, "done": 5, "complete": False}
    assert not Path("out/_SUCCESS").exists()

    assert elmo(*RUN, "--shard", "1/2").exit_code == 0
    assert_equal_to_embed()
    result = elmo("distribute", "--status", "--json", "out")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["complete"] is True


def test_a_file_in_place_of_the_folder_is_a_one_line_error() -> None:
    Path("out").touch()
    result = elmo(*RUN)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1


def test_a_limit_on_file_sizes_is_a_one_line_error() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, 6_000)); "
        "from elmo_cli.cli.main import main; main()"
    )
    limited = run_python("-c", code, *RUN, "--part-size", "0.04")
    assert limited.returncode == 1
    assert len(limited.stderr.splitlines()) == 1
    assert "File too large. Raise the limit on the size of files" in limited.stderr
    assert elmo(*RUN, "--part-size", "0.04").exit_code == 0
    assert not Path("out/_elmo/work").exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_is_killed_resumes(number: int) -> None:
    Path("text.txt").write_text(LINES * 5)
    process = start_elmo(*RUN)
    wait_until(lambda: len(parts_there()) >= 3, process)
    process.send_signal(number)
    status, said = end_of(process)
    if number == signal.SIGKILL:
        assert status == -number
    else:
        assert status == 128 + number
        stopped = r"Stopped after [\d,]+ of 46 parts, which are kept"
        assert re.search(stopped, said[-1])
    before = parts_there()
    assert 3 <= len(before) < 46
    assert elmo(*RUN).exit_code == 0
    assert before.items() <= parts_there().items()
    assert_equal_to_embed()
    assert os.listdir("out/_elmo") == ["plan.parquet"]


def test_a_damaged_part_is_reported_with_the_remedy() -> None:
    assert elmo(*RUN).exit_code == 0
    before = parts_there()
    path = Path("out/part-00000004.parquet").resolve()
    content = path.read_bytes()
    half = len(content) // 2
    for damaged in (b"", content[:half], bytes(half) + content[half:]):
        path.write_bytes(damaged)
        with (
            pytest.raises(InputError) as caught,
            open_activations("out") as activations,
        ):
            list(activations.records())
        remedy = "Give the `elmo distribute` command of the folder again, with --verify"
        error = rf"{path}: the part is damaged: [^\n]+[^.\n]\. {remedy}\."
        assert re.fullmatch(error, str(caught.value))
    path.unlink()
    assert elmo(*RUN).exit_code == 0
    after = parts_there()
    assert after.keys() == before.keys()
    written = [name for name in after if after[name] != before[name]]
    assert written == [path.name]
    assert_equal_to_embed()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_flipped_bit_in_a_part_is_found(dtype: str) -> None:
    assert elmo(*RUN, "--dtype", dtype).exit_code == 0
    with open_activations("out") as activations:
        before = [values.tobytes() for values in activations]
    path = Path("out/part-00000004.parquet")
    content = path.read_bytes()
    chosen = random.Random(dtype)
    errors = []
    for _ in range(60):
        damaged = bytearray(content)
        damaged[chosen.randrange(len(content))] ^= 1 << chosen.randrange(8)
        path.write_bytes(damaged)
        try:
            with open_activations("out") as activations:
                # The bit is in none of the values, such as in statistics.
                assert [values.tobytes() for values in activations] == before
        except InputError as error:
            errors.append(str(error))
    assert len(errors) > 50
    problem = "part-00000004.parquet: the part is damaged: "
    assert all(problem in error for error in errors)


def test_verify_finds_damaged_parts_and_embeds_them_again() -> None:
    assert elmo(*RUN).exit_code == 0
    path = Path("out/part-00000004.parquet")
    content = path.read_bytes()
    damaged = bytearray(content)
    damaged[len(content) // 3] ^= 1
    path.write_bytes(damaged)
    status = elmo("distribute", "--status", "--verify", "out")
    assert status.exit_code == 1
    assert status.stdout.startswith("out: 9 of 10 parts\nDamaged: part 4 (")
    assert elmo(*RUN).stderr.endswith("out is complete already: 10 parts\n")
    result = elmo(*RUN, "--verify")
    assert "Damaged: part 4 (" in result.stderr
    assert "Wrote out: 10 of 10 parts" in result.stderr
    assert path.read_bytes() == content
    assert elmo("distribute", "--status", "--verify", "out").exit_code == 0


def test_a_part_without_checksums_is_written_again_by_verify() -> None:
    assert elmo(*RUN).exit_code == 0
    path = Path("out/part-00000002.parquet")
    content = path.read_bytes()
    metadata = parquet.read_metadata(path).metadata
    table = parquet.read_table(path)
    earlier = table.replace_schema_metadata({b"elmo": metadata[b"elmo"]})
    parquet.write_table(earlier, path)
    assert elmo("distribute", "--status", "out").exit_code == 0
    status = elmo("distribute", "--status", "--verify", "out")
    assert "an earlier version wrote it without checksums" in status.stdout
    assert elmo(*RUN, "--verify").exit_code == 0
    assert path.read_bytes() == content


def test_parts_that_this_machine_does_not_see_are_an_error() -> None:
    folder = Folder("out")
    plan = open_plan(folder, ("text.txt",), ZERO)
    elsewhere = [PartResult(0, "elsewhere")]
    problem = "workers wrote 1 part that this machine does not see"
    with pytest.raises(OutputError, match=problem):
        run_parts(folder, plan, ZERO, lambda parts, embed: elsewhere)


def test_a_signal_while_ray_is_imported_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def import_ray(*arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("elmo_cli.distributed.ray_engine.load_ray", import_ray)
    result = elmo(*RUN, "--engine", "ray")
    assert result.exit_code == 143
    assert result.stderr.endswith("\nStopped before the first part\n")
    assert not Path("out").exists()


def test_a_folder_may_be_a_uri(folder: Path) -> None:
    uri = f"file://{folder}/out"
    # A URI of the local disk is synced and linked like a path.
    assert Folder(uri).is_local
    result = elmo("distribute", "text.txt", uri, *SMALL_PARTS)
    assert result.exit_code == 0
    assert not Path("out/_elmo/work").exists()
    with open_activations(uri) as activations, open_activations("out") as local:
        assert len(activations) == 40
        assert len(local) == 40
        assert_array_equal(activations[4], local[4])
    result = elmo("distribute", "text.txt", uri, *SMALL_PARTS)
    assert result.exit_code == 0
    result = elmo("distribute", "text.txt", "nowhere://a/b", *SMALL_PARTS)
    assert "Error: nowhere://a/b: cannot open it: " in result.stderr


def test_repeated_ids_are_counted() -> None:
    write_table("rows.jsonl", [{"id": name, "text": name} for name in "aaac"])
    first = elmo("distribute", "rows.jsonl", "out", *SMALL_PARTS, "--shard", "1/2")
    last = elmo("distribute", "rows.jsonl", "out", *SMALL_PARTS, "--shard", "2/2")
    warning = (
        "Warning: 2 records have the id of an earlier record. Tell them apart by "
        "their line or index.\n"
    )
    assert [result.stderr.count(warning) for result in (first, last)] == [0, 1]
    assert len(parts_there()) > 1
    with open_activations("out") as activations:
        assert [activations.id(number) for number in range(4)] == ["a", "a", "a", "c"]


def test_a_part_of_many_empty_lines_can_be_stopped(
    capfd: pytest.CaptureFixture[str],
) -> None:
    Path("text.txt").write_text("\n" * 40_000)  # three windows
    folder = Folder("out")
    plan = open_plan(folder, ("text.txt",), ZERO)
    n_calls = 0

    def should_stop() -> bool:
        nonlocal n_calls
        n_calls += 1
        return n_calls == 2

    with pytest.raises(StoppedError, match=r"^Stopped after 0 of 1 part, "):
        run_parts(folder, plan, ZERO, should_stop=should_stop)
    assert n_calls == 2
    assert parts_there() == {}
    # An abandoned file of pyarrow would print a traceback.
    assert capfd.readouterr().err == ""
    assert run_parts(folder, plan, ZERO).n_done == 1


BAD_LINES = LINES.encode() + b"bad \xff\n" * 30
BAD_LINE = "text.txt, line 41, column 5: not valid UTF-8"


def test_lines_that_are_not_utf8_fail_their_part() -> None:
    Path("text.txt").write_bytes(BAD_LINES)
    result = elmo(*RUN)
    assert result.exit_code == 1
    assert BAD_LINE in result.stderr
    assert result.stderr.endswith(
        " missing. Give the same command to try again, or repair the input for another "
        "folder.\n"
    )
    status = elmo("distribute", "--status", "out")
    assert status.exit_code == 1
    assert status.stderr == ""
    assert BAD_LINE in status.stdout


def test_parts_are_written_where_there_are_no_hard_links(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert elmo(*RUN).exit_code == 0
    with_links = state_of(Path("out"))
    shutil.rmtree("out")

    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "link", refuse)
    assert elmo(*RUN).exit_code == 0
    assert state_of(Path("out")) == with_links
    again = elmo(*RUN)
    assert again.exit_code == 0
    assert "is complete already" in again.stderr


def test_lines_that_are_not_utf8_can_be_skipped() -> None:
    Path("text.txt").write_bytes(BAD_LINES)
    result = elmo(*RUN, "--skip-errors")
    assert result.exit_code == 0
    lines = [line for line in result.stderr.splitlines() if line.startswith("Skipped")]
    assert len(lines) == 21
    assert BAD_LINE in lines[0]
    assert lines[-1] == "Skipped 30 records in all"
    assert "Warning: 20 records without text\n" in result.stderr
    with open_activations("out") as activations:
        assert activations[40].shape == (3, 0, 32)
        assert activations.attributes["n_skipped"] == 30
        assert activations.attributes["tokens"] == 80
        skipped = json.loads(activations.attributes["skipped"])
        assert skipped["40"] in lines[0]


def test_a_folder_whose_name_is_not_utf8_is_refused() -> None:
    name = os.fsdecode(b"caf\xe9")
    run = elmo("distribute", "text.txt", name, *SMALL_PARTS)
    status = elmo("distribute", "--status", name)
    for result in (run, status):
        assert result.exit_code == 1
        problem = "caf\\xe9: the name of the file is not UTF-8. Rename it."
        assert problem in result.stderr


def test_a_missing_ray_is_an_error_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = elmo("distribute", "text.txt", "out")
    assert result.exit_code == 1
    assert install_command("ray") in result.stderr


def test_an_old_ray_is_an_error_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = ModuleType("ray")
    vars(ray).update(__version__="2.9.3")
    monkeypatch.setitem(sys.modules, "ray", ray)
    result = elmo("distribute", "text.txt", "out")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "Error: --engine ray: requires Ray 2.51 or newer, and Ray 2.9.3 is installed. "
        "Use "
    )
    assert install_command("ray") in result.stderr


def test_progress_is_lines_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress_bar, "LINE_SECONDS", 0.0)
    result = elmo(*RUN)
    lines = [line for line in result.stderr.splitlines() if "failed" in line]
    assert len(lines) > 10  # within parts too
    first = r"out: 0 of 10 parts, [\d,]+ tokens/s, 1 worker, 0 failed"
    assert re.fullmatch(first, lines[0])
    last = first.replace("0 of 10", "10 of 10") + ", less than a minute left"
    assert re.fullmatch(last, lines[-1])
    assert "failed" not in elmo(*RUN, "-q").stderr


@pytest.mark.parametrize(
    ("seconds", "text"), [(60, "1 minute left"), (90_000, "1,500 minutes left")]
)
def test_progress_estimates_the_time_left(seconds: int, text: str) -> None:
    started = time.monotonic() - seconds
    counts = RunCounts(2, 1, n_assigned=2, n_new=1, started=started)
    assert counts.text().endswith(f" tokens/s, 0 workers, 0 failed, {text}")


@each_example(__file__)
def test_an_error_has_this_text(
    example: Example,
    check_example: CheckExample,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ELMO_MODEL", str(TINY))
    check_example(example)


# Failing and killed calls


def run_into(output: str) -> int:
    """Write the parts of a short text, and return the exit status."""
    lines = [f"The cat {i} sat\n\n" for i in range(6)]
    Path("text.txt").write_text("".join(lines))
    result = elmo("distribute", "text.txt", output, *SMALL_PARTS)
    if result.exit_code != 0:
        assert result.stderr.splitlines()[-1].startswith("Error: ")
    return result.exit_code


def assert_ends_like_whole(output: str) -> None:
    """Assert that the same command ends a run as it ended the run into `whole`."""
    assert run_into(output) == 0
    assert state_of(Path(output)).keys() == state_of(Path("whole")).keys()
    with open_activations("whole") as expected, open_activations(output) as activations:
        assert len(expected) == 12
        for one, other in zip(expected, activations, strict=True):
            assert_array_equal(one, other)


def test_a_run_killed_before_any_call_resumes() -> None:
    Path("whole").mkdir()
    with kills(Path("whole")) as states:
        assert run_into("whole") == 0
    assert len(states) > 5
    for index, state in enumerate(states):
        restore(state, Path(str(index)))
        assert_ends_like_whole(str(index))


def test_a_run_resumes_after_any_call_that_failed() -> None:
    counting = Disk()
    with counting.used():
        assert run_into("whole") == 0
    for number in range(1, counting.n_calls + 1):
        with Disk([number]).used():
            status = run_into(str(number))
        if status == 0:
            assert Path(str(number), "_SUCCESS").exists()
        else:
            assert status == 1
        assert_ends_like_whole(str(number))
