"""Tests of the functions that change files, and of their use everywhere else."""

import ast
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import elmo_cli
from elmo_cli.files import disk

PACKAGE = Path(elmo_cli.__file__).parent

# Calls that change files

IN_OS = {
    *("chmod", "fdatasync", "fsync", "ftruncate", "link", "makedirs", "mkdir"),
    *("mkfifo", "remove", "removedirs", "rename", "renames", "replace", "rmdir"),
    *("symlink", "truncate", "unlink", "utime", "write"),
}
OF_PATHS = {
    *("hardlink_to", "mkdir", "rename", "rmdir", "symlink_to", "touch", "unlink"),
    *("write_bytes", "write_text"),
}
READING_IN_SHUTIL = {"copyfileobj", "disk_usage", "get_terminal_size", "which"}


def changes(source: str) -> Iterator[ast.Call]:
    """Yield the calls in a source that change files."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _changes_files(node):
            yield node


def _changes_files(call: ast.Call) -> bool:
    function = ast.unparse(call.func)
    owner, _, name = function.rpartition(".")
    if owner in ("disk", "archive"):  # A file in an archive is no file on the disk.
        return False
    if function == "formatter.write_text":  # click's, which writes the text of a help
        return False
    if owner == "os":
        reads = "O_RDONLY" in ast.unparse(call)
        return name in IN_OS or (name == "open" and not reads)
    if owner == "shutil":
        return name not in READING_IN_SHUTIL
    if owner == "tempfile" or function in ("TemporaryDirectory", "NamedTemporaryFile"):
        return True
    if name in ("open", "FileIO"):
        is_null = [ast.unparse(each) for each in call.args[:1]] == ["os.devnull"]
        return bool(set("wxa+") & set(_mode_of(call))) and not is_null
    if name == "replace":  # `str.replace` takes two arguments.
        return bool(owner) and len(call.args) == 1 and not call.keywords
    return bool(owner) and name in OF_PATHS


def _mode_of(call: ast.Call) -> str:
    """Return the mode in which a call opens a file, or no letters."""
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    texts = [each.value for each in values if isinstance(each, ast.Constant)]
    modes = [each for each in texts if isinstance(each, str) and len(each) <= 3]
    return modes[0] if modes else ""


@pytest.mark.parametrize(
    "line",
    [
        "os.replace(a, b)",
        "os.open(path, os.O_WRONLY)",
        "path.unlink(missing_ok=True)",
        "path.replace(other)",
        "shutil.rmtree(folder)",
        "open(path, 'w')",
        "path.open('ab')",
        "gzip.open(path, mode='xb')",
        "with tempfile.TemporaryDirectory() as folder: pass",
        "FileIO(path, 'r+b')",
    ],
)
def test_a_call_that_changes_files_is_found(line: str) -> None:
    assert len(list(changes(line))) == 1


def test_other_calls_are_not_found() -> None:
    source = (
        "open(path); open(path, 'rb'); os.open(path, os.O_RDONLY); path.exists()\n"
        "rename(); archive.open(name, 'w')\n"
        "text.replace('a', 'b'); dataclasses.replace(value, a=1); disk.replace(a, b)\n"
        "open(os.devnull, 'w'); shutil.which(name)"
    )
    assert list(changes(source)) == []


def test_only_one_module_changes_files() -> None:
    found = []
    for path in PACKAGE.rglob("*.py"):
        if path != PACKAGE / "files" / "disk.py":
            for call in changes(path.read_text(encoding="utf-8")):
                name = path.relative_to(PACKAGE)
                found.append(f"{name}:{call.lineno}: {ast.unparse(call)}")
    assert found == []


# The functions


def test_create_never_opens_what_exists(folder: Path) -> None:
    Path("mine").write_text("mine")
    Path("link").symlink_to("missing")
    for name in ("mine", "link"):
        with pytest.raises(FileExistsError):
            disk.create(name)
    assert Path("mine").read_text() == "mine"
    assert not Path("missing").exists()


def test_identity_tells_a_file_from_another_of_its_name(folder: Path) -> None:
    with disk.create("a") as file:
        own = disk.identity(file)
        assert disk.identity_at("a") == own
        Path("link").symlink_to("a")
        assert disk.identity_at("link") != own
        Path("a").rename("b")
        assert disk.identity_at("b") == own
        assert disk.identity_at("a") is None
        Path("a").write_text("another one")
        assert disk.identity_at("a") != own


def test_link_keeps_what_exists(folder: Path) -> None:
    Path("new").write_text("new")
    Path("old").write_text("old")
    with pytest.raises(FileExistsError):
        disk.link("new", "old")
    disk.link("new", "other")
    assert [Path(name).read_text() for name in ("new", "old", "other")] == [
        "new",
        "old",
        "new",
    ]


def test_link_renames_where_there_are_no_hard_links(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(os, "link", refuse)
    Path("new").write_text("new")
    Path("old").write_text("old")
    with pytest.raises(FileExistsError):
        disk.link("new", "old")
    disk.link("new", "other")
    assert sorted(os.listdir()) == ["old", "other"]
    assert Path("other").read_text() == "new"


def test_copy_writes_a_new_file(folder: Path) -> None:
    content = os.urandom(600_000)
    Path("old").write_bytes(content)
    disk.copy("old", "new")
    assert Path("new").read_bytes() == content
    with pytest.raises(FileExistsError):
        disk.copy("old", "new")
