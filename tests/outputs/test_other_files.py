"""Files of others, which no run reads as its own, replaces or removes."""

import os
import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo_cli import ElmoEmbedder
from elmo_cli.errors.exceptions import OtherInputError, OutputError
from elmo_cli.files import disk
from elmo_cli.outputs.npy import ids_path
from tests.support.commands import TINY, elmo
from tests.support.failing_disk import kills, restore, state_of
from tests.support.golden import GOLDEN

FORMATS: dict[str, dict[str, Any]] = {
    "out.hdf5": {},
    "out.jsonl": {},
    "out.npz": {},
    "out.parquet": {},
    "out.npy": {"pooling": "mean"},
}
MINE = b"my file"
TABLE = "id,text\na,the cat\nb,a bank\n"


@pytest.fixture(autouse=True)
def text_file(folder: Path) -> None:
    """Write a text and a table into the empty current folder."""
    Path("in.txt").write_text("the cat\na bank\n")
    Path("in.csv").write_text(TABLE)


def embed(source: str, output: str, on_progress: Any = None, **options: Any) -> Any:
    """Embed a file with a small model."""
    embedder = ElmoEmbedder(TINY / "options.json", TINY / "weights.hdf5")
    return embedder.embed_file(source, output, on_progress=on_progress, **options)


# Files that are read


@pytest.mark.parametrize(
    "command",
    [
        "embed {v.npy.ids.txt} v.npy --pooling mean --layers top",
        "embed {out.hdf5.partial} out.hdf5",
        "embed {out.hdf5.partial.log} out.hdf5",
        "embed {out.hdf5.partial.lock} out.hdf5",
        "embed {out.hdf5.partial.log.elmo-partial} out.hdf5",
        "occurrences in.txt out.hdf5 --words {out.hdf5.partial.log}",
        "word-vectors --words {out.vec.elmo-partial} out.vec",
        "word-vectors --words {out.metadata.tsv} out.tsv",
        "word-vectors {out.metadata.tsv.elmo-partial} out.tsv",
        "convert {m.hdf5.elmo-partial} m.hdf5",
    ],
)
@pytest.mark.parametrize("overwrite", ["", " --overwrite"])
def test_a_file_that_is_read_is_not_used_beside_the_output(
    command: str, overwrite: str
) -> None:
    start, _, rest = command.partition("{")
    source, _, end = rest.partition("}")
    Path(source).write_bytes(b"the cat\nbank\n")
    before = state_of(Path())
    result = elmo(*f"{start}{source}{end}{overwrite}".split())
    assert result.exit_code == 1
    assert state_of(Path()) == before
    last = result.stderr.splitlines()[-1]
    if overwrite:
        is_read = "the output is also an input."
        replaced = f"a run with this output would replace its input {source}."
        assert is_read in last or replaced in last


@pytest.mark.parametrize(
    "name",
    [
        *("token_embedder.pkl", "char.dic", "word.dic", "encoder.pkl", "config.json"),
        "cnn.json",
    ],
)
def test_no_file_of_a_model_of_many_langs_is_overwritten(name: str) -> None:
    shutil.copytree(GOLDEN / "many-langs" / "both", "m")
    names = [path.name for path in Path("m").glob("*.json")]
    if name == "cnn.json":
        [name] = set(names) - {"config.json"}
    before = state_of(Path())
    output = f"m/{name}"
    options = ["--format", "hdf5", "--model", "m", "--overwrite"]
    result = elmo("embed", "in.txt", output, *options)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == (
        f"Error: {output}: the output is also an input. Choose another output."
    )
    assert state_of(Path()) == before


def test_the_zip_file_of_a_model_is_not_overwritten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ELMO_CACHE", os.path.abspath("cache"))
    with zipfile.ZipFile("m.zip", "w") as archive:
        for name in ("options.json", "weights.hdf5"):
            archive.write(TINY / name, name)
    content = Path("m.zip").read_bytes()
    options = ["--format", "hdf5", "--model", "m.zip", "--overwrite"]
    result = elmo("embed", "in.txt", "m.zip", *options)
    assert result.exit_code == 1
    assert "m.zip: the output is also an input." in result.stderr
    assert Path("m.zip").read_bytes() == content


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """Collect the names of the files that Python opens below the current folder."""
    names: list[str] = []
    is_watching = True

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if is_watching and event == "open" and isinstance(arguments[0], (str, Path)):
            path = os.path.abspath(arguments[0])
            if path.startswith(os.getcwd() + os.sep) and os.path.isfile(path):
                names.append(os.path.relpath(path))

    sys.addaudithook(note)  # A hook cannot be removed.
    yield names
    is_watching = False


@pytest.mark.parametrize(
    "command",
    [
        "embed in.csv {} --format hdf5 --model m",
        "embed in.csv {} --format npz --model m.zip",
        "embed in.csv {} --format jsonl --options-file t/options.json "
        "--weight-file t/weights.hdf5",
        "occurrences in.csv {} --format hdf5 --words w.txt --model m",
        "convert t/weights.hdf5 {}",
        "word-vectors --words w.txt {} --model t",
    ],
)
def test_whatever_a_command_opens_is_no_output(
    command: str, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_CACHE", os.path.abspath("cache"))
    shutil.copytree(GOLDEN / "many-langs" / "both", "m")
    shutil.copytree(TINY, "t")
    Path("w.txt").write_text("cat\nbank\n")
    with zipfile.ZipFile("m.zip", "w") as archive:
        for name in ("options.json", "weights.hdf5"):
            archive.write(TINY / name, name)
    output = "out.vec" if command.startswith("word") else "out.hdf5"
    assert elmo(*command.format(output).split()).exit_code == 0
    read = {name for name in opened if not name.startswith("out")}
    read = {name for name in read if not name.endswith((".lock", ".elmo-partial"))}
    assert len(read) > 1 or command.startswith("convert")
    before = state_of(Path())
    for name in read:
        result = elmo(*command.format(name).split(), "--overwrite")
        assert result.exit_code in (1, 2), name
        assert state_of(Path()) == before, name


# Files of somebody else


def test_a_lock_that_is_another_file_is_kept() -> None:
    Path("out.hdf5.partial.lock").write_bytes(MINE)
    before = state_of(Path())
    with pytest.raises(OutputError, match=r"^out\.hdf5\.partial\.lock: not a lock of"):
        embed("in.txt", "out.hdf5")
    assert Path("out.hdf5.partial.lock").read_bytes() == MINE
    assert state_of(Path()) == before


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_appears_during_the_run_is_kept(name: str) -> None:
    embed("in.csv", f"whole-{name}", **FORMATS[name])
    output = Path(name)
    unfinished = Path(f"{name}.partial")
    with pytest.raises(OutputError) as caught:
        embed(
            "in.csv",
            name,
            on_progress=lambda _: output.write_bytes(MINE),
            **FORMATS[name],
        )
    assert str(caught.value) == (
        f"{name}: another program created this file during the run. The finished "
        f"output is {unfinished}. Rename one of the two."
    )
    assert output.read_bytes() == MINE
    assert unfinished.read_bytes() == Path(f"whole-{name}").read_bytes()
    if name == "out.npy":
        assert ids_path(unfinished).read_text() == "a\nb\n"
        assert not ids_path(output).exists()
    # The same command gives the output its name once that is free.
    output.unlink()
    inode = unfinished.stat().st_ino
    Path("in.csv").write_text("id,text\na,The cat sat\nb,another bank\n")
    with pytest.raises(OtherInputError, match="made from another input"):
        embed("in.csv", name, **FORMATS[name])
    Path("in.csv").write_text(TABLE)
    with pytest.raises(OutputError, match=rf"^{unfinished}: an unfinished run with"):
        embed("in.csv", name, **{**FORMATS[name], "dtype": "float16"})
    assert embed("in.csv", name, **FORMATS[name]).was_complete
    assert output.stat().st_ino == inode
    assert output.read_bytes() == Path(f"whole-{name}").read_bytes()
    left = {path.name for path in Path().glob(f"{name}*")} - {name}
    if name == "out.npy":
        assert ids_path(output).read_text() == "a\nb\n"
        left.remove(ids_path(output).name)
    assert not left


@pytest.mark.parametrize("suffix", ["vec", "bin", "npz", "tsv", "hdf5"])
def test_word_vectors_keep_a_file_that_appears(
    suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("words.txt").write_text("cat\nbank\n")
    output = Path(f"out.{suffix}")
    sync = disk.sync

    def appear(path: Any) -> None:
        output.write_bytes(MINE)
        sync(path)

    monkeypatch.setattr(disk, "sync", appear)
    result = elmo("word-vectors", "--words", "words.txt", output)
    assert result.exit_code == 1
    last = result.stderr.splitlines()[-1]
    assert "created this file during the run. The finished output is out." in last
    assert output.read_bytes() == MINE
    assert Path(f"{output}.elmo-partial").stat().st_size > 0


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("is_second_run", [False, True])
def test_only_the_file_that_was_written_gets_the_name(
    name: str, is_second_run: bool
) -> None:
    unfinished = Path(f"{name}.partial")

    def replace(_: Any) -> None:
        for path in Path().glob(f"{name}.partial*"):
            path.unlink()
        if is_second_run:
            for end in ("", ".log", ".lock"):
                Path(f"{unfinished}{end}").write_bytes(MINE)

    with pytest.raises(OutputError, match="another program has removed or replaced"):
        embed("in.txt", name, on_progress=replace, **FORMATS[name])
    assert not Path(name).exists()
    for path in Path().glob(f"{name}.partial*"):
        assert path.read_bytes() == MINE
    assert unfinished.exists() == is_second_run


def test_a_picture_of_another_program_is_not_renamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("words.txt").write_text("cat\nbank\n")
    identity = disk.identity

    def replace(file: Any) -> disk.FileIdentity:
        own = identity(file)
        Path("out.vec.elmo-partial").unlink()
        Path("out.vec.elmo-partial").write_bytes(MINE)
        return own

    monkeypatch.setattr(disk, "identity", replace)
    result = elmo("word-vectors", "--words", "words.txt", "out.vec")
    assert "another program has removed or replaced" in result.stderr
    assert not Path("out.vec").exists()
    assert Path("out.vec.elmo-partial").read_bytes() == MINE


# Pairs


def pair_of(folder: Path) -> tuple[int, str] | None:
    """Return the number of rows of an array and its ids; None without an array."""
    output = folder / "out.npy"
    if not output.exists():
        return None
    ids = ids_path(output)
    return len(np.load(output)), ids.read_text() if ids.exists() else ""


@pytest.mark.parametrize("old", ["", "text,id", "text,name"])
@pytest.mark.parametrize("new", ["text,id", "text,name"])
def test_an_array_and_its_ids_change_together(old: str, new: str) -> None:
    """Kill a run before each of its calls, and repeat its command."""
    work = Path("work")
    work.mkdir()
    if old:
        Path("old.csv").write_text(f"{old}\nthe cat,x\n")
        embed("old.csv", "work/out.npy", pooling="mean")
    Path("new.csv").write_text(f"{new}\nthe cat,a\na bank,b\n")
    before = pair_of(work)
    overwrite = bool(old)
    with kills(work) as states:
        embed("new.csv", "work/out.npy", pooling="mean", overwrite=overwrite)
    after = pair_of(work)
    assert after == (2, "a\nb\n" if new == "text,id" else "")
    names = {path.name for path in work.iterdir()}
    for number, state in enumerate(states):
        folder = Path(str(number))
        restore(state, folder)
        rows_and_ids = pair_of(folder)
        # Ids never lie next to other vectors.
        if rows_and_ids is not None and rows_and_ids[1]:
            assert rows_and_ids in (before, after)
        # The same command completes or takes back what was killed.
        shutil.copytree(folder, f"{folder}-again", copy_function=os.link)
        if rows_and_ids is None or overwrite:
            embed("new.csv", f"{folder}/out.npy", pooling="mean", overwrite=overwrite)
            assert pair_of(folder) == after
            assert {path.name for path in folder.iterdir()} == names
        # So does any other one that looks at the output first.
        again = Path(f"{folder}-again")
        if overwrite:
            with pytest.raises(OutputError, match="already exists"):
                embed("new.csv", f"{again}/out.npy", pooling="mean")
            assert pair_of(again) in (before, after)


def test_an_error_keeps_the_old_array_and_its_ids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    embed("in.csv", "out.npy", pooling="mean")
    before = pair_of(Path())
    replace = disk.replace

    def fail(source: Any, target: Any) -> None:
        if str(target).endswith("out.npy"):
            raise OSError(5, "Input/output error")
        replace(source, target)

    monkeypatch.setattr(disk, "replace", fail)
    Path("in.csv").write_text("id,text\nz,the cat\n")
    with pytest.raises(OutputError, match="Input/output error"):
        embed("in.csv", "out.npy", pooling="mean", overwrite=True)
    assert pair_of(Path()) == before
    assert not list(Path().glob("*.elmo-*"))
