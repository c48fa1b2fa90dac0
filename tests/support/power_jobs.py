"""Work that a power failure may interrupt, and what must be true afterwards."""

import os
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

from elmo_cli.analysis.word_vectors.file_formats import (
    check_vectors_file,
    write_vectors_file,
)
from elmo_cli.callbacks import ignore
from elmo_cli.distributed.input_part import Part
from elmo_cli.distributed.part import PartResult
from elmo_cli.distributed.plan import open_plan
from elmo_cli.distributed.workers import run_parts
from elmo_cli.errors.exceptions import ElmoError, OutputError
from elmo_cli.files.shared_folder import Folder
from elmo_cli.outputs.part_files import SUCCESS
from elmo_cli.pretrained.archive import unpack
from elmo_cli.pretrained.cache import get_once
from elmo_cli.pretrained.download import download_file
from elmo_cli.pretrained.import_files import import_model
from elmo_cli.pretrained.model_folder import read_folder
from elmo_cli.pretrained.save import save_model
from elmo_cli.training.checkpoint import (
    TrainingCheckpoint,
    load_checkpoint,
    save_checkpoint,
)
from elmo_cli.training.description import Description
from tests.support.commands import TINY
from tests.support.distributed_runs import ZERO
from tests.support.failing_disk import State, restore, state_of
from tests.support.golden import GOLDEN
from tests.support.power_failure import AT_END, CallSite, Failure, UnsafeDisk
from tests.support.short_runs import LINES, OUTPUTS, noted_checkpoints, run
from tests.support.training_runs import train, write_run_files
from tests.support.website import OPTIONS, WEIGHTS, zip_with

HDF5_PACKED = "elmo_cli.outputs.hdf5_packed"

Save = Callable[[int], object]
"""Function that work calls with its progress when that is safe."""


@dataclass(frozen=True)
class Job:
    """Work in a folder, which the same call continues after a failure."""

    work: Callable[[Path, Save], int]
    """Do the work, and return the progress at which it has begun."""
    finals: str = ""
    """Regular expression for files that are complete as soon as they have their name.
    """
    pair: tuple[str, ...] = ()
    """Names of files that must belong together when all of them exist."""
    last: str | None = None
    """Name of a file that appears when all others are complete."""
    prepare: Callable[[Path], None] = ignore
    """Write files that are there before, and safe."""
    varying: str = ""
    """Regular expression for files whose bytes differ from run to run."""
    unsafe: str = ""
    """Regular expression for files that may be lost in part."""
    is_clean: bool = False
    """Whether nothing else is left when the work has ended."""
    leftover: str = ""
    """Regular expression for names that may stay, without taking much room."""
    refusal: str = ""
    """Regular expression for an error that a user may get after a failure."""
    read: Callable[[Path], object] = ignore
    """Read what was there before or afterwards. None if it is refused."""


@dataclass
class Recording:
    """Files before and after a job, and what power failures during it may leave."""

    job: Job
    before: State
    after: State
    disk: UnsafeDisk
    may_be_read: Sequence[object] = (None,)
    """What a reader may find after a failure."""

    def problem_after(self, failure: Failure, folder: Path) -> str | None:
        """Return what is wrong after a failure, or None.

        `folder` is where the work goes on.
        """
        return self._half_written(failure) or self._problem_of_rest(failure, folder)

    def _half_written(self, failure: Failure) -> str | None:
        state = _contents(failure.state)
        after = _contents(self.after)
        before = _contents(self.before)
        must_be_there = failure.call == AT_END
        if self.job.last is not None and Path(self.job.last) in state:
            must_be_there = True
        for path, content in _without(self.job.unsafe, after).items():
            if must_be_there and state.get(path) != content:
                return f"{path} is lost"
            is_final = self.job.finals and re.search(self.job.finals, str(path))
            allowed = [content, before.get(path, content)]
            if is_final and state.get(path, content) not in allowed:
                return f"{path} is damaged"
        others = _without(self.job.leftover, state).keys() - after.keys()
        if self.job.is_clean and failure.call == AT_END and others:
            return f"{others} are left"
        pair = [Path(name) for name in self.job.pair]
        found = [state.get(path) for path in pair]
        versions = [[files.get(path) for path in pair] for files in (before, after)]
        if None not in found and found not in versions:
            return "the pair does not belong together"
        return None

    def _problem_of_rest(self, failure: Failure, folder: Path) -> str | None:
        restore(failure.state, folder)
        if self.job.read(folder) not in self.may_be_read:
            return "what is read is a mixture"
        try:
            began_at = self.job.work(folder, ignore)
        except ElmoError as error:
            if self.job.refusal and re.search(self.job.refusal, str(error)):
                return None
            return f"refused: {error}"
        if began_at < failure.n_saved:
            return f"began at {began_at}, after {failure.n_saved} were safe"
        state = _without(self.job.leftover, _contents(state_of(folder)))
        after = _contents(self.after)
        varying = self.job.varying
        is_same = _without(varying, state) == _without(varying, after)
        if not is_same or state.keys() != after.keys():
            return "the files differ from those of an uninterrupted run"
        return None


def _contents(state: State) -> State:
    """Return the contents of all files, and None for folders."""
    return {
        path: state[content] if isinstance(content, Path) else content
        for path, content in state.items()
    }


def _without(names: str, state: State) -> State:
    """Leave out the files whose names match a regular expression, if there is one."""
    return {
        path: content
        for path, content in state.items()
        if not names or not re.search(names, str(path))
    }


def record(
    job: Job, folder: Path, *, n_mixtures: int, without: CallSite | None = None
) -> Recording:
    """Do the work of a job in a new folder, with or without one of its syncs."""
    folder.mkdir()
    job.prepare(folder)
    before = state_of(folder)
    old = job.read(folder)
    disk = UnsafeDisk(folder, random.Random(0), n_mixtures=n_mixtures)

    def save(progress: int) -> None:
        disk.n_saved = progress

    with disk.used(without):
        job.work(folder, save)
    return Recording(
        job=job,
        before=before,
        after=state_of(folder),
        disk=disk,
        may_be_read=[None, old, job.read(folder)],
    )


def write_sources() -> None:
    """Write what all jobs read into the current folder."""
    Path("lines.txt").write_text(LINES)
    Path("old-lines.txt").write_text("another line\n")
    Path("table.csv").write_text("id,text\na,The cat sat\nb,a bank\n")
    Path("old-table.csv").write_text("id,text\nold,another line\n")
    write_run_files()
    members = {"options.json": OPTIONS, "weights.hdf5": WEIGHTS}
    zip_with(Path("model.zip"), members)
    Path("weights.hdf5").write_bytes(WEIGHTS)


def _embedding(output: str, *, overwrite: bool = False) -> Job:
    """Return the job of embedding to a format."""

    def embed(folder: Path, save: Save) -> int:
        path = folder / output
        is_complete = path.exists() and not overwrite
        if overwrite:  # A complete file that was not renamed yet is overwritten too.
            save = ignore
        try:
            # A chunk of the layout `packed` has 512 KB.
            with noted_checkpoints(save), patch(f"{HDF5_PACKED}.CHUNK_BYTES", 4096):
                summary = run(Path("lines.txt"), path, overwrite=overwrite)
        except ElmoError:
            if is_complete:  # It is refused if its format cannot be compared.
                return len(LINES)
            raise
        return len(LINES) if summary.was_complete else summary.resumed_from

    def write_old_output(folder: Path) -> None:
        with patch(f"{HDF5_PACKED}.CHUNK_BYTES", 4096):
            run(Path("old-lines.txt"), folder / output)

    return Job(
        work=embed,
        finals=f"^{output}$",
        prepare=write_old_output if overwrite else ignore,
    )


def _embedding_with_ids(*, overwrite: bool) -> Job:
    """Return the job of embedding a table to an array with its ids next to it."""

    def embed(folder: Path, _save: Save) -> int:
        path = folder / "ids.npy"
        is_complete = path.exists() and not overwrite
        with suppress(OutputError) if is_complete else nullcontext():
            run(Path("table.csv"), path, overwrite=overwrite)
        return 0

    def write_old_output(folder: Path) -> None:
        run(Path("old-table.csv"), folder / "ids.npy")

    return Job(
        work=embed,
        finals="^ids.npy$",
        pair=("ids.npy", "ids.npy.ids.txt"),
        prepare=write_old_output if overwrite else ignore,
    )


def _word_vectors(suffix: str, *, overwrite: bool) -> Job:
    """Return the job of writing vectors of words, with a second file for TSV."""

    def write(path: Path, words: list[str]) -> None:
        vectors = np.arange(len(words), dtype=np.float32)[:, None]
        check_vectors_file(path, overwrite=True)
        write_vectors_file(path, words, vectors, overwrite=True)

    def work(folder: Path, _save: Save) -> int:
        write(folder / f"words{suffix}", ["the", "cat"])
        return 0

    def write_old_output(folder: Path) -> None:
        write(folder / f"words{suffix}", ["another"])

    return Job(
        work=work,
        finals=rf"^words\{suffix}$",
        pair=("words.tsv", "words.metadata.tsv"),
        prepare=write_old_output if overwrite else ignore,
    )


def _distribute(folder: Path, save: Save) -> int:
    """Write the parts of a text."""

    def engine(
        parts: Sequence[Part], embed: Callable[..., PartResult]
    ) -> Iterator[PartResult]:
        for n_new, part in enumerate(parts, start=1):
            yield embed(part)
            save(n_all - len(parts) + n_new)

    location = Folder(str(folder / "out"))
    plan = open_plan(location, ("lines.txt",), ZERO, part_mb=0.001)
    n_all = len(plan.parts)
    counts = run_parts(location, plan, ZERO, engine)
    return counts.n_done - counts.n_new


def _train(folder: Path, save: Save) -> int:
    """Train a model, with a checkpoint after each step."""
    began_at: list[int] = []

    def note_saved(folder: Path, checkpoint: TrainingCheckpoint) -> None:
        save_checkpoint(folder, checkpoint)
        save(checkpoint["step"])

    def note_loaded(description: Description) -> TrainingCheckpoint | None:
        checkpoint = load_checkpoint(description)
        began_at.append(0 if checkpoint is None else checkpoint["step"])
        return checkpoint

    settings = {"steps": 2, "eval_steps": 2, "checkpoint_seconds": 0.0}
    with (
        # Files of equal runs are equal if no time passes.
        patch("time.monotonic", return_value=0.0),
        patch("elmo_cli.training.train.save_checkpoint", note_saved),
        patch("elmo_cli.training.train.load_checkpoint", note_loaded),
    ):
        train(str(folder / "model"), keep_checkpoint=False, **settings)
    return began_at[0] if began_at else 2  # A finished run loads none.


def _download(folder: Path, save: Save) -> int:
    """Download a file from this disk into the cache."""
    url = Path("weights.hdf5").resolve().as_uri()
    target = folder / "cache" / "weights.hdf5"
    get_once(
        target.parent,
        find=target.exists,
        get=lambda: download_file([url], target, ignore, allow_file=True),
    )
    return 0


def _unpack(folder: Path, save: Save) -> int:
    """Unpack a zip file into the cache."""
    target = folder / "cache"
    get_once(
        target,
        find=(target / "weights.hdf5").exists,
        get=lambda: unpack(Path("model.zip"), target),
    )
    return 0


def _importing(name: str, source: Path, *, old: Mapping[str, bytes]) -> Job:
    """Return the job of copying the files of a model into the cache."""

    def work(folder: Path, _save: Save) -> int:
        with patch.dict(os.environ, ELMO_CACHE=str(folder / "cache")):
            import_model(name, [source])
        return 0

    def write_old_model(folder: Path) -> None:
        (folder / "cache" / name).mkdir(parents=True)
        for file, content in old.items():
            (folder / "cache" / name / file).write_bytes(content)

    def read(folder: Path) -> object:
        try:
            files = read_folder(folder / "cache" / name, name)
        except ElmoError:
            return None
        return [path.read_bytes() for path in files.paths]

    return Job(
        work,
        finals=f"{name}/[^/]*$",
        prepare=write_old_model if old else ignore,
        is_clean=True,
        leftover="elmo-partial|elmo-old",
        read=read,
    )


def _save(folder: Path, save: Save) -> int:
    """Write a model for the hub."""
    save_model(read_folder(TINY, "tiny"), folder / "model")
    return 0


JOBS = {
    "rows.jsonl": _embedding("rows.jsonl"),
    "download": Job(_download, finals="weights"),
    "parts": Job(_distribute, finals="part-|plan", last=f"out/{SUCCESS}"),
    **{output: _embedding(output) for output in OUTPUTS},
    **{
        f"{output} over an old one": _embedding(output, overwrite=True)
        for output in ("allennlp.hdf5", "packed.hdf5", "pooled.npy", "rows.parquet")
    },
    "array with ids": _embedding_with_ids(overwrite=False),
    "array with ids over an old one": _embedding_with_ids(overwrite=True),
    "words.bin": _word_vectors(".bin", overwrite=True),
    "words.tsv": _word_vectors(".tsv", overwrite=False),
    "words.tsv over an old one": _word_vectors(".tsv", overwrite=True),
    "unpacking": Job(
        _unpack,
        finals="^cache/[^/]*5$|^cache/[^/]*json$",
        last="cache/weights.hdf5",
        leftover="elmo-partial",
    ),
    "import": _importing("many-langs-la", GOLDEN / "many-langs" / "both", old={}),
    "import over an old model": _importing(
        "pubmed", TINY, old={"options.json": b"{}", "weights.hdf5": b"old"}
    ),
    "import over an old model of another format": _importing(
        "pubmed",
        TINY,
        old={
            "options.json": b"{}",
            "weights.safetensors": b"old",
            "softmax.hdf5": b"old",
        },
    ),
    "saved model": Job(
        _save,
        finals="model/",
        last="model/config.json",
        varying="safetensors",
        refusal="already exists",
    ),
    "training": Job(_train, varying="log.jsonl", unsafe="log.jsonl"),
}
"""All kinds of work by name, quick ones first."""
