"""What runs write, damaged, and everything here that reads it: outputs, shards, unfinished runs.

More targets, as in hostile.py. Where a damaged file makes a file all the same, that is
compared with the one of the whole file: what of the damage can be seen has to be.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py
from hostile import TINY, Target
from hostile_hdf5 import damaged_hdf5, make_neighbours

LINES = "the cat\n\nsat on the mat\na b\nbirds\n"
MORE = "and more\n"
FASTA = ">a b\nMVLS\n>c\nAC\n>d\n\n>e f g\nKK\n>h\nA\n"

Form = dict[str, Any]
"""Settings of `ElmoEmbedder.embed_file`, with `fasta` where that is the input, and
`names_by_hdf5` where a few records are to be like very many."""

FORMS: dict[str, Form] = {
    "allennlp": {},
    "many": {"names_by_hdf5": 1},
    "packed": {"layout": "packed"},
    "fasta": {"fasta": True},
    "fasta-packed": {"fasta": True, "layout": "packed"},
    "keys": {"use_sentence_keys": True},
    "pooled": {"layout": "packed", "pooling": "mean", "dtype": "float16"},
    "gzip": {"output_format": "top", "compression": "gzip", "forget_sentences": True},
}


@cache
def _embedder(state: str = "zero") -> Any:
    from elmo_cli.embedder import ElmoEmbedder

    return ElmoEmbedder(model=TINY, state=state, batch_tokens=8)  # type: ignore[arg-type]


def _embed(folder: Path, output: Path, form: Form, *, grown: bool = False, **more: Any) -> None:
    from elmo_cli.outputs import allennlp_layout

    settings = {"batch_size": 2, "overwrite": False, **form, **more}
    vars(allennlp_layout)["NAMES_BY_HDF5"] = settings.pop("names_by_hdf5", 1 << 16)
    is_fasta = settings.pop("fasta", False)
    source = folder / ("in.fasta" if is_fasta else "in.txt")
    source.write_text((FASTA if is_fasta else LINES) + (MORE if grown and not is_fasta else ""))
    _embedder(settings.pop("state", "zero")).embed_file(source, output, **settings)


def _made(folder: Path, form: Form, **more: Any) -> bytes:
    output = folder / "out.hdf5"
    _embed(folder, output, form, **more)
    content = output.read_bytes()
    output.unlink()
    return content


@cache
def _output(name: str, shard: str | None = None, *, grown: bool = False) -> bytes:
    with TemporaryDirectory() as folder:
        return _made(Path(folder), FORMS[name], shard=shard, grown=grown)


@cache
def _merged(name: str) -> Any:
    """The content of the file that the whole shards make."""
    with TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        _merge_both(folder, _output(name, "1/2"), name, link=False)
        return _content(folder / "merged.hdf5")


def _content(path: Path) -> Any:
    """All of a file that no damage may change unseen: not values, not texts of equal length."""
    with h5py.File(path) as file:
        names = {}
        for name in file:
            item = file[name]
            if name != "sentence_to_index" and isinstance(item, h5py.Dataset):
                shape = item.shape
                tokens = 0 if len(shape) == 1 else len(shape) - 2
                if "layout" in file.attrs and file.attrs["layout"] == "packed":
                    tokens = 0
                names[name] = (str(item.dtype), *shape[:tokens], *shape[tokens + 1 :])
            else:
                names[name] = ("group or text",)
        sentences = file["sentences"][()].tobytes() if "sentences" in file else b""
        pooled = "pooling" in file.attrs
        if file.attrs.get("sentence_keys") == "True":
            names = {}  # a sentence may be another, and a blank line has no dataset
        return names, sorted(file.attrs), b"" if pooled else sentences


@cache
def _merged_forms(name: str) -> Any:
    """The records of that file, and their shapes."""
    with TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        _merge_both(folder, _output(name, "1/2"), name, link=False)
        return _forms(folder / "merged.hdf5", name)


def _forms(path: Path, name: str) -> Any:
    from elmo_cli.outputs.reader import open_activations

    # Pooled, nothing shows that a text is another, and of FASTA, that an offset is.
    pooled, is_fasta = "pooling" in FORMS[name], "fasta" in FORMS[name]
    with open_activations(path) as activations:
        return [
            (record.key, "" if pooled else record.text, shape[2:] if is_fasta else shape)
            for record, shape in activations.forms()
        ]


def _content_of(file: bytes) -> Any:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file.hdf5"
        path.write_bytes(file)
        return _content(path)


def _merge_both(folder: Path, first: bytes, name: str, *, link: bool) -> None:
    from elmo_cli.outputs.merge import merge_shards

    (folder / "1.hdf5").write_bytes(first)
    (folder / "2.hdf5").write_bytes(_output(name, "2/2"))
    shards = [folder / "1.hdf5", folder / "2.hdf5"]
    merge_shards(folder / "merged.hdf5", shards, link=link, overwrite=True)


def _read_all(path: Path) -> int:
    from elmo_cli.outputs.reader import open_activations

    with open_activations(path) as activations:
        shapes = [values.shape for values in activations]
        found = [(values.shape, record) for record, values in activations.records()]
        assert [shape for shape, _ in found] == shapes
        assert [shape for _, shape in activations.forms()] == shapes
        _ = "the cat" in activations
        if len(activations):
            _ = activations[-1], activations.sentence(0), activations.key(0), activations[:2]
        return len(activations)


def _read(path: Path) -> None:
    make_neighbours(path.parent)
    _read_all(path)


def _convert(path: Path) -> None:
    """To files of every format; what is made is whole."""
    from elmo_cli.errors import ElmoError
    from elmo_cli.outputs.convert_activations import convert_activations
    from elmo_cli.outputs.reader import open_activations

    make_neighbours(path.parent)
    with open_activations(path) as activations:
        n_records = len(activations)
    faults: list[ElmoError] = []
    for number, suffix in enumerate((".hdf5", ".npz", ".jsonl", ".tsv", ".safetensors")):
        target = path.with_name(f"converted{suffix}")
        layout = ("packed", "allennlp")[n_records % 2] if number == 0 else None
        try:
            convert_activations(path, target, layout=layout)
        except ElmoError as error:
            faults.append(error)
            assert not target.exists()
            continue
        if suffix == ".hdf5":
            assert _read_all(target) == n_records
    assert not list(path.parent.glob("*.partial*"))
    if faults:
        raise faults[0]


def _merge(name: str, path: Path) -> None:
    """By copying and by links."""
    from elmo_cli.errors import ElmoError

    make_neighbours(path.parent)
    content, merged = path.read_bytes(), path.with_name("merged.hdf5")
    fault: ElmoError | None = None
    packed = FORMS[name].get("layout") == "packed"
    for link in (False, True) if name != "keys" else (False,):
        merged.unlink(missing_ok=True)
        try:
            _merge_both(path.parent, content, name, link=link)
        except ElmoError as error:
            fault = error
            assert not merged.exists()
        else:
            if link and packed:  # another layout of the file, for the same records
                assert _forms(merged, name) == _merged_forms(name)
            else:
                assert _content(merged) == _merged(name)
            _read_all(merged)
        assert not list(path.parent.glob("*.partial*"))
    if fault:
        raise fault


def _append(name: str, path: Path) -> None:
    """The same command again, and a grown input; the file stays, or is whole and longer."""
    from elmo_cli.errors import ElmoError

    make_neighbours(path.parent)
    content = path.read_bytes()
    try:
        _embed(path.parent, path, FORMS[name])
        assert path.read_bytes() == content
        _embed(path.parent, path, FORMS[name], grown=True, append=True)
    except ElmoError as error:
        assert path.read_bytes() == content
        left = [file for file in path.parent.glob("*.partial*") if file.suffix != ".log"]
        if left and f"{path}.partial: the unfinished output is damaged" not in str(error):
            raise AssertionError(f"something is left: {error}") from None
        for file in left:
            file.unlink()
        _embed(path.parent, path, {**FORMS[name], "overwrite": True}, grown=True)
        assert _content(path) == _content_of(_output(name, grown=True))
        raise
    _assert_like(path, _output(name, grown=True))


def _assert_like(path: Path, whole: bytes) -> None:
    """A file has the records of the whole one, as far as it can be read."""
    from elmo_cli.errors import ElmoError
    from elmo_cli.outputs.reader import open_activations

    expected = path.with_name("whole.hdf5")
    expected.write_bytes(whole)
    with open_activations(expected) as activations:
        n_records = len(activations)
    expected.unlink()
    try:
        found = _read_all(path)
    except ElmoError:  # a dataset that nothing needed to read
        return
    with h5py.File(path) as file:  # where sentences are names, nothing says how many
        assert found == n_records or file.attrs.get("sentence_keys") == "True"


PARTIAL_FORMS: dict[str, Form] = {
    "allennlp": {},
    "many": {"names_by_hdf5": 1},
    "packed": {"layout": "packed"},
    "carry": {"state": "carry"},
    "fasta-packed": {"fasta": True, "layout": "packed"},
    "keys": {"use_sentence_keys": True},
    "npz": {"file_format": "npz"},
}


@cache
def _stopped(name: str) -> tuple[bytes, bytes, bytes]:
    """An unfinished output, its log, and the output that it becomes."""
    from elmo_cli.errors import StoppedError

    form = PARTIAL_FORMS[name]
    with TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        asked = iter(range(9))
        output = folder / "out.hdf5"
        with suppress(StoppedError):
            _embed(folder, output, form, should_stop=lambda: next(asked) >= 2)
        unfinished = folder / "out.hdf5.partial"
        log = folder / "out.hdf5.partial.log"
        contents = unfinished.read_bytes(), log.read_bytes()
        _embed(folder, output, form)
        return *contents, output.read_bytes()


def _go_on(name: str, path: Path, *, of_log: bool = False) -> None:
    """The same command again; after an error, again without what is damaged."""
    from hostile import seal

    from elmo_cli.errors import ElmoError

    make_neighbours(path.parent)
    unfinished, log, whole = _stopped(name)
    output = path.with_name("out.hdf5")
    if of_log:
        seal(path)
        path.with_name("out.hdf5.partial").write_bytes(unfinished)
    else:
        path.with_name("out.hdf5.partial.log").write_bytes(log)
    form = PARTIAL_FORMS[name]
    try:
        _embed(path.parent, output, form)
    except ElmoError as error:
        assert not output.exists()
        if "remove" in str(error) or "overwrite" in str(error):
            for file in path.parent.glob("out.hdf5.partial*"):
                if of_log or file.suffix != ".log":
                    file.unlink()
            _embed(path.parent, output, form)
            assert name == "npz" or _content(output) == _content_of(whole)
        raise
    if name != "npz":
        _assert_like(output, whole)


def _seal_and_go_on(name: str, path: Path) -> None:
    _go_on(name, path, of_log=True)


def _targets(
    kind: str, names: list[str], file: str, whole: Callable[[str], bytes], read: Callable[..., None]
) -> dict[str, Target]:
    return {
        f"{kind}-{name}": Target(
            file,
            partial(lambda name: [whole(name)], name),
            partial(read, name),
            is_python=False,
            damage=damaged_hdf5,
        )
        for name in names
    }


def _outputs() -> list[bytes]:
    return [_output(name) for name in FORMS]


RUN_TARGETS = {
    "activations": Target("out.hdf5", _outputs, _read, is_python=False, damage=damaged_hdf5),
    "convert-activations": Target(
        "out.hdf5", _outputs, _convert, is_python=False, damage=damaged_hdf5
    ),
    **_targets("append", list(FORMS), "out.hdf5", _output, _append),
    **_targets("merge", list(FORMS), "shard.hdf5", lambda name: _output(name, "1/2"), _merge),
    **_targets(
        "partial", list(PARTIAL_FORMS), "out.hdf5.partial", lambda name: _stopped(name)[0], _go_on
    ),
    **{
        f"log-{name}": Target(
            "out.hdf5.partial.log",
            partial(lambda name: [_stopped(name)[1]], name),
            partial(_seal_and_go_on, name),
            is_python=False,
        )
        for name in ("allennlp", "packed", "carry")
    },
}
