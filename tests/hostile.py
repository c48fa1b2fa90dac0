"""Files that are not what they should be, and everything here that reads a file.

A target is a kind of file: whole contents to start from, and what reads it. `damaged` makes
a hostile file of a whole one, the same for the same number. `tests/fuzz.py` runs many of them,
the tests a few. The outputs of runs have a file of their own, hostile_runs.py.
"""

import json
import random
import shutil
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

HERE = Path(__file__).parent
TINY = HERE / "golden" / "relu"
MANY_LANGS = HERE / "golden" / "many-langs" / "both"

WORDS = ("<S>", "</S>", "<UNK>", "the", "cat", "sat", "na\u00efve", "\u6771\u4eac")


def damaged(content: bytes, number: int) -> bytes:
    """A hostile file: a few random changes to a whole one, the same for the same number."""
    chance = random.Random(number)
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        _DAMAGES[chance.randrange(len(_DAMAGES))](data, chance)
    return bytes(data)


_ODD = (
    *(b"\0", b"\n", b"\r\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\xe2\x80\xa8"),
    *(b"\xc2\x85", b"\x1c", b"\t", b" ", b">", b"/", b"..", b'"', b"\\", b"{", b"[", b"]", b"}"),
    *(b"null", b"true", b"-1", b"0", b"1e999", b"NaN", b"99999999999999999999", b"[" * 3000),
    *(b"\xff" * 8, b"\0" * 8, b"<UNK>", b"{}", b"[]", b'""', b"0.5", b"\xc2\xb2", b"\xd9\xa3"),
    b"9" * 5000,
)
_NUMBERS = (0, 1, 2, 127, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)


def _flip(data: bytearray, chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _set(data: bytearray, chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.choice((0, 1, 2, 127, 128, 255))


def _set_number(data: bytearray, chance: random.Random) -> None:
    n_bytes = chance.choice((2, 4, 8))
    if len(data) >= n_bytes:
        start = chance.randrange(len(data) - n_bytes + 1)
        number = chance.choice(_NUMBERS) % 256**n_bytes
        data[start : start + n_bytes] = number.to_bytes(n_bytes, chance.choice(("little", "big")))


def _cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data) + 1) :]


def _drop(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data) + 1)
    del data[start : start + chance.choice((1, 2, 8, 100))]


def _insert(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data) + 1)
    data[start:start] = chance.choice(_ODD)


def _repeat(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data) + 1)
    piece = data[start : start + chance.choice((1, 8, 64, 1000))]
    data[start:start] = piece * chance.choice((1, 2, 50))


def _replace_word(data: bytearray, chance: random.Random) -> None:
    """Another value where text has a number, a word or a string."""
    start = chance.randrange(len(data) + 1)
    ends = b' ,:]}\n"\t'
    while start > 0 and data[start - 1] not in ends:
        start -= 1
    end = start
    while end < len(data) and data[end] not in ends:
        end += 1
    if end - start < 1000:
        data[start:end] = chance.choice(_ODD)


_DAMAGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    *(_flip, _flip, _set, _set_number, _set_number),
    *(_cut, _drop, _insert, _repeat, _replace_word, _replace_word),
)


class Target(NamedTuple):
    """A kind of file."""

    name: str
    """Of the file, as it has to be called."""
    contents: Callable[[], list[bytes]]
    """Whole ones."""
    read: Callable[[Path], object]
    """Reads it; raises an `ElmoError`, or nothing."""
    is_python: bool = True
    """Whether no library in C reads it, so that atheris sees the way through."""
    damage: Callable[[bytes, int], bytes] = damaged
    """A hostile file of a whole one, the same for the same number."""


# What reads them.


def _read_text(path: Path) -> None:
    from elmo_cli.text.lines import line_record, open_lines, read_sentences

    with open_lines(path, skip_errors=True) as lines:
        for line in lines:
            line_record(line)
    for sentence in read_sentences(path):
        assert all(sentence)


def _read_fasta(path: Path) -> None:
    from elmo_cli.text.records import FASTA, open_records

    for skip_errors in (True, False):
        with open_records(path, FASTA, skip_errors=skip_errors) as records:
            for record in records:
                assert record.fault or record.key


def _count_text(path: Path) -> None:
    from elmo_cli.outputs.output_size import count_input
    from elmo_cli.text.records import FASTA, TEXT

    for form in (TEXT, FASTA):
        count_input(path, form)


def _read_training_text(path: Path) -> None:
    from elmo_cli.training.text import Place, TrainingText, count_text

    text = TrainingText((path,), 0.5, 1)
    count_text(text, lambda line: None)
    for number, window in enumerate(text.windows(Place(), 50)):
        if number > 20 or window.end.epoch > 1:
            break


def _read_options(path: Path) -> None:
    from elmo_cli.model.options import read_options
    from elmo_cli.model.parameters import parameters_by_part

    parameters_by_part(read_options(path), 10)


def _read_lexicons(path: Path) -> None:
    from elmo_cli.model.many_langs import read_lexicons
    from elmo_cli.model.options import read_options

    options = read_options(MANY_LANGS / "config.json")
    read_lexicons(path.parent, options).token_ids(["a", "", "the", "x" * 100])  # type: ignore[arg-type]


def _read_vocabulary(path: Path) -> None:
    from elmo_cli.model.vocabulary import read_vocabulary

    read_vocabulary(path).indices(["the", "", "\0"])


def _read_checksums(path: Path) -> None:
    from elmo_cli.pretrained.integrity import check_unchanged

    weights = path.with_name("some.txt")
    weights.write_bytes(b"a")
    check_unchanged(weights)


def _read_transfer(path: Path) -> None:
    from elmo_cli.pretrained.transfer import Transfer

    destination = path.with_name(path.name.removesuffix(".partial.json"))
    transfer = Transfer(destination, None, lambda path: None, lambda *_: None)
    _ = transfer.url, transfer.n_bytes


def _look_whole(path: Path) -> None:
    from elmo_cli.pretrained.integrity import (
        archive_fault,
        hdf5_fault,
        json_fault,
        text_fault,
        weights_fault,
    )

    for fault in (archive_fault, hdf5_fault, json_fault, text_fault, weights_fault):
        fault(path)


def _unpack(path: Path) -> None:
    from elmo_cli.pretrained.archive import unpack

    outside = path.with_name("outside")
    outside.mkdir()
    unpack(path, outside / "model")
    assert list(outside.iterdir()) == [outside / "model"]
    shutil.rmtree(outside)


def _read_training_log(path: Path) -> None:
    from elmo_cli.training.log import TrainingLog

    TrainingLog(path.parent, 2, 10, tensorboard=False).write({"step": 3})


def _read_run_log(path: Path) -> None:
    """The log beside an unfinished output, with its sum made right."""
    from elmo_cli.outputs.writer import ActivationsWriter

    seal(path)
    output = path.with_name("out.hdf5")
    for overwrite in (False, True):
        output.with_name("out.hdf5.partial").write_bytes(_whole_run()[0])
        with ActivationsWriter(output, {"model": "m"}, overwrite=overwrite) as writer:
            _ = writer.n_records, writer.run_state
            writer.clear()
        output.unlink()


def seal(path: Path) -> None:
    """Make the sum right in the log of an unfinished run."""
    import hashlib

    body = path.read_bytes().partition(b"\n")[2]
    path.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def _read_counts(path: Path) -> None:
    from elmo_cli.training.start import _count_once
    from elmo_cli.training.text import TrainingText

    text = path.with_name("text.txt")
    text.write_text("a b c\n")
    # The name and the size of the text are part of the file.
    path.write_bytes(path.read_bytes().replace(b"TEXT", str(text).encode()))
    _count_once(TrainingText((text,)), path.parent, None)


def _read_checkpoint(path: Path) -> None:
    from elmo_cli.training.checkpoint import load_checkpoint

    load_checkpoint(path.parent)


def _read_weights(path: Path) -> None:
    from elmo_cli.model.options import read_options
    from elmo_cli.model.weights import read_weights

    read_weights(path, read_options(TINY / "options.json"))


def _convert(path: Path) -> None:
    from elmo_cli.pretrained.convert_weights import convert_weights

    convert_weights(path, path.with_name("converted.hdf5"), overwrite=True)


def _read_softmax(path: Path) -> None:
    from elmo_cli.language_model.softmax_file import read_softmax

    read_softmax(path, len(WORDS), 3)


def _read_many_langs(path: Path) -> None:
    from elmo_cli.pretrained.loading import find_model, load_bilm

    load_bilm(find_model(path.parent))


# Whole ones.


def _json(content: Any) -> bytes:
    return json.dumps(content).encode()


def _texts() -> list[bytes]:
    return [
        b"The cat sat .\n\nA line\r\nna\xc3\xafve \xe6\x9d\xb1\xe4\xba\xac\n",
        b"\xef\xbb\xbfone two\x00three\n",
        "a\u2028b\u0085c\x1cd\u00a0e \U0001f642\n".encode(),
    ]


def _fastas() -> list[bytes]:
    return [
        b">sp|P69905|HBA Hemoglobin\nMVLSPADKTN\nVKAAWG*\n>b\n\n>c d e\nacgt\n",
        b">a\r\nMV LS\r\n>b\r\n",
        b"; comment\n>x/y\nAA\n>x\nAA\n>x\n",
    ]


def _gzipped(contents: list[bytes]) -> list[bytes]:
    import gzip

    return [gzip.compress(content, mtime=0) for content in contents]


def _options() -> list[bytes]:
    word_level = {"lstm": {"dim": 4, "projection_dim": 2, "n_layers": 1, "cell_clip": 3.0}}
    return [(TINY / "options.json").read_bytes(), _json(word_level)]


def _configs() -> list[bytes]:
    from elmo_cli.model.many_langs import _PUBLISHED

    return [_json(_PUBLISHED)]


def _read_config(path: Path) -> None:
    from elmo_cli.model.options import read_options

    config = path.with_name("config.json")
    config.write_bytes(_json({"config_path": path.name}))
    read_options(config)
    read_options_of_itself = path.read_bytes().replace(b"{", b'{"config_path": "x",', 1)
    config.write_bytes(read_options_of_itself)
    read_options(config)


def _lexicons() -> list[bytes]:
    return [(MANY_LANGS / "char.dic").read_bytes()]


def _zips() -> list[bytes]:
    contents = []
    for packing in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        buffer = BytesIO()
        with zipfile.ZipFile(buffer, "w", packing) as file:
            file.writestr("209/options.json", b"{}")
            file.writestr("209/model.hdf5", b"\x89HDF" * 100)
            file.writestr("209/vocab.txt", b"a\n" * 50)
        contents.append(buffer.getvalue())
    return contents


def _training_logs() -> list[bytes]:
    return [b"".join(_json({"step": step, "loss": 1.5}) + b"\n" for step in range(5))]


def _whole_run() -> tuple[bytes, bytes]:
    """An unfinished output, and its log."""
    if not _CACHE.get("run"):
        import numpy as np

        from elmo_cli.outputs.writer import ActivationsWriter
        from elmo_cli.text.lines import line_record

        with TemporaryDirectory() as folder:
            path = Path(folder) / "out.hdf5"
            try:
                with ActivationsWriter(path, {"model": "m"}) as writer:
                    for text in ("the cat", "sat"):
                        writer.write(line_record(text), np.zeros((3, 2, 4), np.float32))
                    state = {"place": [2, "0" * 64], "embed": {}, "skipped": {"1": "a fault"}}
                    writer.checkpoint(state)
                    raise KeyboardInterrupt
            except KeyboardInterrupt:
                pass
            log = path.with_name("out.hdf5.partial.log").read_bytes()
            _CACHE["run"] = [path.with_name("out.hdf5.partial").read_bytes(), log]
    partial, log = _CACHE["run"]
    return partial, log


_CACHE: dict[str, list[bytes]] = {}


def _counts() -> list[bytes]:
    made_of = {"text": [["TEXT", 6]], "heldout_share": 0.0, "vocabulary_size": None}
    return [_json({"made_of": made_of, "n_sentences": 1, "n_tokens": 3})]


def _saved(state: object) -> bytes:
    import torch

    buffer = BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def _checkpoints() -> list[bytes]:
    import torch

    return [_saved({"step": 3, "weights": {"a": torch.zeros(3, 4)}, "text": ["a", 1.5]})]


def _weights() -> list[bytes]:
    return [(TINY / "weights.hdf5").read_bytes()]


def _made(name: str, make: Callable[[Path], object]) -> list[bytes]:
    if name not in _CACHE:
        with TemporaryDirectory() as folder:
            path = Path(folder) / name
            make(path)
            _CACHE[name] = [path.read_bytes()]
    return _CACHE[name]


def _packed_weights() -> list[bytes]:
    """Chunked and compressed."""
    import h5py

    def make(path: Path) -> None:
        with h5py.File(TINY / "weights.hdf5") as source, h5py.File(path, "w") as file:

            def copy(name: str, item: Any) -> None:
                if isinstance(item, h5py.Dataset):
                    file.create_dataset(name, data=item[()], compression="gzip", shuffle=True)

            source.visititems(copy)

    return _made("packed.hdf5", make)


def _safetensors() -> list[bytes]:
    from elmo_cli.pretrained.convert_weights import convert_weights

    return _made("w.safetensors", lambda path: convert_weights(TINY / "weights.hdf5", path))


def _softmaxes() -> list[bytes]:
    import numpy as np

    from elmo_cli.language_model.softmax_file import write_softmax

    size = len(WORDS)
    weight, bias = np.zeros((size, 3), np.float32), np.zeros(size, np.float32)
    return _made("softmax.hdf5", lambda path: write_softmax(path, weight, bias))


def _many_langs(name: str) -> Target:
    def read(path: Path) -> None:
        for file in MANY_LANGS.iterdir():
            if file.name not in (name, "expected.hdf5"):
                shutil.copy(file, path.parent)
        _read_many_langs(path)

    return Target(name, lambda: [(MANY_LANGS / name).read_bytes()], read, is_python=False)


def _read_dictionary(path: Path) -> None:
    shutil.copy(MANY_LANGS / "word.dic", path.parent)
    _read_lexicons(path)


_SHA = "0" * 64
TARGETS = {
    "text": Target("in.txt", _texts, _read_text),
    "text-gz": Target("in.txt.gz", lambda: _gzipped(_texts()), _read_text),
    "text-size": Target("in.txt.gz", lambda: _gzipped(_texts()) + _texts(), _count_text),
    "training-text": Target("in.txt", _texts, _read_training_text),
    "fasta": Target("in.fasta", _fastas, _read_fasta),
    "fasta-gz": Target("in.fasta.gz", lambda: _gzipped(_fastas()), _read_fasta),
    "options": Target("options.json", _options, _read_options),
    "many-langs-options": Target("cnn.json", _configs, _read_config),
    "lexicon": Target("char.dic", _lexicons, _read_dictionary),
    "vocabulary": Target("vocab.txt", lambda: ["\n".join(WORDS).encode()], _read_vocabulary),
    "checksums": Target(
        "checksums.json",
        lambda: [_json({"some.txt": {"sha256": _SHA, "bytes": 1, "mtime_ns": 5}})],
        _read_checksums,
    ),
    "download": Target(
        "w.hdf5.partial.json",
        lambda: [_json({"url": "https://a.b/c", "version": '"1"', "total": 5})],
        _read_transfer,
    ),
    "whole": Target("w", lambda: _zips() + _weights(), _look_whole),
    "zip": Target("model.zip", _zips, _unpack),
    "training-log": Target("log.jsonl", _training_logs, _read_training_log, is_python=False),
    "run-log": Target(
        "out.hdf5.partial.log", lambda: [_whole_run()[1]], _read_run_log, is_python=False
    ),
    "counts": Target("counts.json", _counts, _read_counts, is_python=False),
    "checkpoint": Target("checkpoint.pt", _checkpoints, _read_checkpoint, is_python=False),
    "weights": Target("w.hdf5", _weights, _read_weights, is_python=False),
    "weights-gzip": Target("w.hdf5", _packed_weights, _read_weights, is_python=False),
    "safetensors": Target("w.safetensors", _safetensors, _read_weights, is_python=False),
    "convert": Target("w.hdf5", lambda: _weights() + _packed_weights(), _convert, is_python=False),
    "convert-safetensors": Target("w.safetensors", _safetensors, _convert, is_python=False),
    "softmax": Target("softmax.hdf5", _softmaxes, _read_softmax, is_python=False),
    "encoder.pkl": _many_langs("encoder.pkl"),
    "token_embedder.pkl": _many_langs("token_embedder.pkl"),
}
