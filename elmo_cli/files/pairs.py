"""Pairs of files that change together: vectors, and the ids or words next to them.

No system renames two files at once. While new files take the place of old ones, the old
file of the pair has the name `NAME.elmo-old`, so that a killed change can be completed
or taken back:

1. Write the new file as `NAME.elmo-partial`.
2. Rename the old one to `NAME.elmo-old`, or make an empty file if there is none.
3. Rename the vectors.
4. Rename the new file, and remove the old one.

At no moment are ids next to the vectors of others, and both pairs are on the disk until
one is complete.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elmo_cli.files import disk
from elmo_cli.files.atomic import AppearedError, appeared_error
from elmo_cli.files.output_names import old_path, partial_path


@contextmanager
def changed_with_vectors(
    path: Path, content: bytes | None, vectors: Path, *, overwrite: bool
) -> Iterator[None]:
    """Change the file of a pair with its vectors, which get their name in the block.

    After an `AppearedError` of the vectors, the new file is `NAME.elmo-partial`.

    Args:
        path: Name of the file, such as the one of ids.
        content: New content; None if the vectors need no such file.
        vectors: Name of the vectors.
        overwrite: Replace a file of this name, which is else an `AppearedError`.
    """
    new = partial_path(path)
    disk.remove(new, missing_ok=True)
    if content is not None:
        with disk.create(new) as file:
            file.write(content)
            disk.sync_file(file)
    before = disk.identity_at(vectors)
    if before is None:
        with _placed_first(path, content, vectors, overwrite=overwrite):
            yield
        return
    if not overwrite:
        yield  # It raises the error for the vectors that have appeared.
        return
    old = old_path(path)
    if disk.identity_at(path) is None:
        disk.create(old).close()
    else:
        disk.replace(path, old)
    disk.sync(path.parent)
    try:
        yield
    finally:
        _settle(path, is_changed=disk.identity_at(vectors) != before)


@contextmanager
def _placed_first(
    path: Path, content: bytes | None, vectors: Path, *, overwrite: bool
) -> Iterator[None]:
    """Give a new file its name before there are vectors, which get theirs in the block.

    If they do not, the file loses its name.
    """
    new = partial_path(path)
    if content is None:
        if overwrite:
            disk.remove(path, missing_ok=True)
        yield
        return
    # Without the name of the unfinished vectors, the file would belong to nothing.
    disk.sync(path.parent)
    if overwrite:
        disk.replace(new, path)
    else:
        try:
            disk.link(new, path)
        except FileExistsError:
            # A killed run may have done so already.
            if not path.is_file() or path.read_bytes() != content:
                raise appeared_error(path, new) from None
    disk.remove(new, missing_ok=True)
    disk.sync(path.parent)
    try:
        yield
    except BaseException as error:
        if isinstance(error, AppearedError):
            disk.replace(path, new)
        elif disk.identity_at(vectors) is None:
            disk.remove(path)
        raise


def complete_change(path: Path, vectors: Path, partial: Path) -> None:
    """Complete or take back the change of a pair that was killed.

    `partial` is the name of the vectors before they get their own.
    """
    with suppress(OSError):
        if disk.identity_at(old_path(path)) is not None:
            unfinished = disk.identity_at(partial)
            # A rename takes the other name away. A link leaves two names for one file.
            is_renamed = unfinished is None
            is_linked = unfinished == disk.identity_at(vectors)
            _settle(path, is_changed=is_renamed or is_linked)


def _settle(path: Path, *, is_changed: bool) -> None:
    """End a change: with the new file if the vectors have changed, else the old one."""
    new = partial_path(path)
    old = old_path(path)
    if is_changed and disk.identity_at(new) is not None:
        disk.replace(new, path)
        disk.sync(path.parent)
    elif not is_changed and old.stat().st_size > 0:
        disk.replace(old, path)
    disk.remove(old, missing_ok=True)
    disk.remove(new, missing_ok=True)
