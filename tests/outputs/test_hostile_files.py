"""Files that were found by fuzzing, and some hundred more: see hostile.py and fuzz.py."""

import hashlib
import json
import os
import shutil
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from commands import TINY, elmo
from fuzz import run
from hostile import MANY_LANGS, TARGETS
from website import zip_with

from elmo_cli import ElmoError
from elmo_cli.errors import InputError, ModelError, OptionsError, OutputError, WeightsError
from elmo_cli.language_model.softmax_file import read_softmax
from elmo_cli.model.many_langs import ManyLangsOptions, read_lexicons
from elmo_cli.model.options import read_options
from elmo_cli.model.tensor_files import open_tensors
from elmo_cli.model.weights import read_weights
from elmo_cli.outputs.reader import open_activations
from elmo_cli.outputs.writer import ActivationsWriter
from elmo_cli.pretrained.archive import unpack
from elmo_cli.pretrained.convert_weights import convert_weights
from elmo_cli.pretrained.integrity import check_unchanged, safetensors_fault
from elmo_cli.pretrained.loading import find_model, load_bilm
from elmo_cli.pretrained.transfer import Transfer
from elmo_cli.text.lines import line_record
from elmo_cli.training.checkpoint import load_checkpoint
from elmo_cli.training.log import TrainingLog
from elmo_cli.training.start import _count_once
from elmo_cli.training.text import TrainingText

DEEP = b"[" * 100_000
GIB = 1 << 30


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_end_in_an_error_of_ours_or_are_read(name: str) -> None:
    assert run(TARGETS[name], 0, 40 if TARGETS[name].is_python else 15) == {}


# Weights.


def weights(path: Path, change: Callable[[h5py.File], object]) -> Path:
    """The weights of the tiny model, changed."""
    shutil.copy(TINY / "weights.hdf5", path)
    with h5py.File(path, "r+") as file:
        change(file)
    return path


def fault_of(path: Path) -> str:
    with pytest.raises(WeightsError) as caught:
        read_weights(path, read_options(TINY / "options.json"))
    with suppress(WeightsError):  # without what is behind links
        convert_weights(path, path.with_name("converted.hdf5"))
    return str(caught.value)


def secret(folder: Path) -> Path:
    """A file that no model should bring values of."""
    path = folder / "secret.hdf5"
    with h5py.File(path, "w") as file:
        file["char_embed"] = np.ones((261, 4), np.float32)
    return path


@pytest.mark.parametrize("kind", ["external link", "soft link", "link on the way"])
def test_weights_do_not_lead_to_other_files_by_links(tmp_path: Path, kind: str) -> None:
    other = str(secret(tmp_path))

    def change(file: h5py.File) -> None:
        if kind == "link on the way":
            del file["CNN"]
            file["CNN"] = h5py.ExternalLink(other, "/")
            return
        del file["char_embed"]
        link = h5py.ExternalLink(other, "char_embed")
        file["char_embed"] = link if kind == "external link" else h5py.SoftLink("/embedding")

    assert "expected values in the file itself, found a link at" in fault_of(
        weights(tmp_path / "w.hdf5", change)
    )


def test_a_link_to_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    def change(file: h5py.File) -> None:
        file["RNN_0_"] = h5py.ExternalLink(str(tmp_path / "pipe"), "/")
        del file["RNN_0"]
        file.move("RNN_0_", "RNN_0")

    assert "found a link" in fault_of(weights(tmp_path / "w.hdf5", change))


@pytest.mark.parametrize("virtual", [True, False])
def test_weights_do_not_take_values_from_other_files(tmp_path: Path, virtual: bool) -> None:
    other = secret(tmp_path)

    def change(file: h5py.File) -> None:
        shape, dtype = file["char_embed"].shape, np.dtype("float32")
        del file["char_embed"]
        if virtual:
            layout = h5py.VirtualLayout(shape=(261, 4), dtype=dtype)
            layout[...] = h5py.VirtualSource(str(other), "char_embed", shape=(261, 4))
            file.create_virtual_dataset("char_embed", layout)
        else:
            n_bytes = int(np.prod(shape)) * dtype.itemsize
            file.create_dataset("char_embed", shape, dtype, external=[(str(other), 0, n_bytes)])

    assert "found values of another file" in fault_of(weights(tmp_path / "w.hdf5", change))


def test_a_small_file_cannot_ask_for_much_memory(tmp_path: Path) -> None:
    options = json.loads((TINY / "options.json").read_text())
    options["lstm"]["dim"] = 1 << 20
    (tmp_path / "options.json").write_text(json.dumps(options))
    size = options["lstm"]["projection_dim"]

    def change(file: h5py.File) -> None:
        for direction in (0, 1):
            for layer in range(options["lstm"]["n_layers"]):
                cell = file[f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"]
                for name, shape in {
                    "W_0": (2 * size, 4 << 20),
                    "B": (4 << 20,),
                    "W_P_0": (1 << 20, size),
                }.items():
                    if name in cell:
                        del cell[name]
                    cell.create_dataset(name, shape, "f4", compression="gzip")

    path = weights(tmp_path / "w.hdf5", change)
    with pytest.raises(WeightsError, match=r"refused, a file of [0-9,]+ bytes that claims to hold"):
        read_weights(path, read_options(tmp_path / "options.json"))
    with pytest.raises(WeightsError, match="refused, a file of"):
        convert_weights(path, tmp_path / "converted.hdf5")
    assert not (tmp_path / "converted.hdf5").exists()


def test_one_tensor_under_many_names_does_not_become_many(tmp_path: Path) -> None:
    path = tmp_path / "w.hdf5"
    with h5py.File(path, "w") as file:
        file["embedding"] = np.zeros(1 << 18, np.float32)
        for number in range(100):
            file[f"more{number}"] = file["embedding"]
    # One tensor is listed once, however many names it has.
    assert convert_weights(path, tmp_path / "converted.hdf5").n_tensors == 1


def test_chunks_larger_than_their_tensor_are_refused(tmp_path: Path) -> None:
    def change(file: h5py.File) -> None:
        bias = file["CNN/b_cnn_0"][()]
        del file["CNN/b_cnn_0"]
        chunks = {"chunks": (1 << 28,), "maxshape": (None,), "compression": "gzip"}
        file.create_dataset("CNN/b_cnn_0", bias.shape, "f4", **chunks)

    assert "in chunks of 1,073,741,824 bytes" in fault_of(weights(tmp_path / "w.hdf5", change))


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda file: h5py.Empty("f4"), "no values"),
        (lambda file: ["a", "b"], "object values"),
        (lambda file: np.zeros(3, [("a", "f4")]), "values"),
        (lambda file: np.zeros(3, np.complex64), "complex64 values"),
    ],
)
def test_weights_of_other_types_are_named(
    tmp_path: Path, make: Callable[[h5py.File], Any], found: str
) -> None:
    def change(file: h5py.File) -> None:
        del file["char_embed"]
        file["char_embed"] = make(file)

    assert found in fault_of(weights(tmp_path / "w.hdf5", change))


def test_a_softmax_cannot_ask_for_much_memory(tmp_path: Path) -> None:
    path = tmp_path / "softmax.hdf5"
    with h5py.File(path, "w") as file:
        file.create_dataset("softmax/W", (GIB, 512), "f4", compression="gzip")
        file.create_dataset("softmax/b", (GIB,), "f4", compression="gzip")
    with pytest.raises(WeightsError, match="claims to hold"):
        read_softmax(path, GIB, 512)


@pytest.mark.parametrize("offset", ["1e999", '"x"', "[]", "null", "9" * 5000])
def test_a_header_of_safetensors_may_say_anything(tmp_path: Path, offset: str) -> None:
    header = f'{{"a": {{"dtype": "F32", "shape": [1], "data_offsets": [0, {offset}]}}}}'.encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    assert safetensors_fault(path)
    for content in (DEEP, b"{" * 100_000, b"[]", b'{"a":[]}'):
        path.write_bytes(struct.pack("<Q", len(content)) + content)
        assert safetensors_fault(path)


def test_safetensors_cannot_claim_more_than_they_hold(tmp_path: Path) -> None:
    sizes = {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 4]}
    header = json.dumps({"char_embed": sizes}).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(WeightsError, match="damaged"), open_tensors(path):
        pass


# Pickles.


class _Runs:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, ...]]:
        return os.system, ("touch " + str(Path(os.environ["HOSTILE"]) / "ran"),)


@pytest.mark.parametrize("name", ["encoder.pkl", "token_embedder.pkl"])
def test_a_pickle_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("HOSTILE", str(tmp_path))
    folder = tmp_path / "model"
    shutil.copytree(MANY_LANGS, folder)
    for legacy in (False, True):
        torch.save({"a": _Runs()}, folder / name, _use_new_zipfile_serialization=not legacy)
        with pytest.raises(WeightsError, match="expected a PyTorch file of tensors alone"):
            load_bilm(find_model(folder))
    torch.save({"step": _Runs()}, tmp_path / "checkpoint.pt")
    with pytest.raises(ModelError, match="the checkpoint is damaged"):
        load_checkpoint(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lambda values: values[:1, :1].expand(values.shape), "with 4 bytes of data"),
        (lambda values: values.to("meta"), "on meta"),
        (lambda values: values.to_sparse(), "torch.sparse_coo"),
        (lambda values: values.to(torch.int64), "torch.int64 values"),
        (lambda values: "text", "str"),
    ],
)
def test_tensors_of_other_kinds_are_named(
    tmp_path: Path, spoil: Callable[[torch.Tensor], Any], found: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(MANY_LANGS, folder)
    state = torch.load(folder / "encoder.pkl", weights_only=True)
    name = "forward_layer_0.input_linearity.weight"
    state[name] = spoil(state[name].clone())
    if found == "with 4 bytes of data":
        state[name] = torch.zeros(1).expand(state[name].shape)
    torch.save(state, folder / "encoder.pkl")
    with pytest.raises(WeightsError) as caught:
        load_bilm(find_model(folder))
    assert found in str(caught.value)


@pytest.mark.parametrize("state", [[], "text", {}, {"identity": "{"}, {"identity": []}])
def test_a_checkpoint_of_another_content_is_named(tmp_path: Path, state: object) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat sat .\n" * 20)
    arguments = ("train", text, "--output", tmp_path / "model", "--preset", "mini", "--steps", "1")
    (tmp_path / "model").mkdir()
    torch.save(state, tmp_path / "model" / "checkpoint.pt")
    result = elmo(*arguments, "-q")
    assert "checkpoint.pt: the checkpoint is damaged" in result.stderr
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)


# JSON and text beside models.


@pytest.mark.parametrize("key", ["lstm.n_layers", "char_cnn.n_highway"])
def test_options_cannot_ask_for_endless_layers(tmp_path: Path, key: str) -> None:
    options = json.loads((TINY / "options.json").read_text())
    section, name = key.split(".")
    options[section][name] = 1 << 20
    (tmp_path / "options.json").write_text(json.dumps(options))
    with pytest.raises(OptionsError, match="to 100, found 1048576"):
        read_options(tmp_path / "options.json")


@pytest.mark.parametrize("content", [DEEP, b"\xff\xfe{}", b"NaN", b"1e999", b"", b"9" * 5000])
def test_options_may_be_any_json(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "options.json").write_bytes(content)
    with pytest.raises(OptionsError):
        read_options(tmp_path / "options.json")


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 10, "-1", "1.0", "\u00b2", ""])
def test_a_lexicon_with_odd_numbers_is_named(tmp_path: Path, number: str) -> None:
    options = read_options(MANY_LANGS / "config.json")
    assert isinstance(options, ManyLangsOptions)
    shutil.copy(MANY_LANGS / "word.dic", tmp_path)
    lines = (MANY_LANGS / "char.dic").read_text(encoding="utf-8")
    (tmp_path / "char.dic").write_text(f"{lines}\u1234\t{number}\n", encoding="utf-8")
    with pytest.raises(ModelError, match="expected a symbol, a tab and a number"):
        read_lexicons(tmp_path, options)


@pytest.mark.parametrize(
    "content", [DEEP, b'{"url": 1, "version": null, "total": 2}', b'{"url": "a"}', b"[]", b"\xff"]
)
def test_the_record_of_a_download_may_say_anything(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w.hdf5.partial.json").write_bytes(content)
    transfer = Transfer(tmp_path / "w.hdf5", None, lambda path: None, lambda *_: None)
    assert transfer.url is None


def test_checksums_that_are_none_are_named(tmp_path: Path) -> None:
    (tmp_path / "options.json").write_text("{}")
    (tmp_path / "checksums.json").write_bytes(DEEP)
    with pytest.raises(ModelError, match="expected checksums, found something else"):
        check_unchanged(tmp_path / "options.json")


# Archives.


def test_an_archive_with_a_nameless_member_is_read(tmp_path: Path) -> None:
    path = zip_with(tmp_path / "m.zip", {"a/options.json": b"{}", "m.hdf5": b"\x89HDF"})
    content = path.read_bytes()
    path.write_bytes(content.replace(b"a/options.json", b"\0/options.json"))
    unpack(path, tmp_path / "model")
    assert [file.name for file in (tmp_path / "model").iterdir()] == ["m.hdf5"]


def test_an_archive_of_a_later_version_is_named(tmp_path: Path) -> None:
    path = zip_with(tmp_path / "m.zip", {"options.json": b"{}", "m.hdf5": b"\x89HDF"})
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\1\2") + 6] = 255
    path.write_bytes(content)
    with pytest.raises(ModelError, match="damaged zip file: zip file version"):
        unpack(path, tmp_path / "model")


def test_members_that_claim_less_than_they_hold_do_not_fill_the_disk(tmp_path: Path) -> None:
    path = zip_with(tmp_path / "m.zip", {"options.json": b"{}", "m.hdf5": bytes(1 << 24)})
    content = bytearray(path.read_bytes())
    for signature, at in ((b"PK\3\4", 22), (b"PK\1\2", 24)):
        start = content.rindex(signature)
        content[start + at : start + at + 4] = (5).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(ModelError, match="damaged zip file"):
        unpack(path, tmp_path / "model")


@pytest.mark.parametrize("name", ["../m.hdf5", "/m.hdf5", "a/../../m.hdf5", "..\\m.hdf5"])
def test_members_do_not_leave_the_folder(tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("options.json", b"{}")
        file.writestr(zipfile.ZipInfo(name), b"\x89HDF")
    with pytest.raises(ModelError, match="leads out of the folder"):
        unpack(path, tmp_path / "in" / "model")
    assert not (tmp_path / "in" / "m.hdf5").exists()


# What runs leave behind.


def sealed(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


RUN = {"place": [1, "0"], "embed": {}, "skipped": {}}
RUNS: list[Any] = [{"place": 3}, {**RUN, "place": ["a", "b"]}, {**RUN, "embed": 3}, []]


@pytest.mark.parametrize(
    "body",
    [
        b"no line feed",
        b"no JSON\n",
        b"\xff\n",
        DEEP + b"\n",
        b"[]\n",
        b'{"size": 1}\n',
        b'{"size": -1, "state": {}, "pages": {}}\n',
        b'{"size": 1e999, "state": {}, "pages": {}}\n',
        b'{"size": 1, "state": {}, "pages": {"-9": 3}}\n',
        b'{"size": 1, "state": {}, "pages": {"x": 3}}\n',
        b'{"size": 1, "state": {}, "pages": {}}\n',
        json.dumps({"size": 1, "pages": {}, "state": {"settings": {}, "n_records": 1}}).encode(),
        *(
            json.dumps(
                {"size": 1, "pages": {}, "state": {"settings": {}, "n_records": 1, "run": run}}
            ).encode()
            + b"\n"
            for run in RUNS
        ),
    ],
)
def test_a_log_that_is_whole_and_says_other_things_is_named(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "out.hdf5.partial").write_bytes(b"x")
    (tmp_path / "out.hdf5.partial.log").write_bytes(sealed(body))
    with pytest.raises(OutputError, match="remove it"):
        ActivationsWriter(tmp_path / "out.hdf5", {})


@pytest.mark.parametrize("content", [b"{", DEEP, b"[]", b"{}", b'{"made_of": {}}', b"\xff"])
def test_a_file_of_counts_that_is_damaged_is_made_again(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "text.txt").write_text("a b c\n")
    (tmp_path / "counts.json").write_bytes(content)
    assert _count_once(TrainingText((tmp_path / "text.txt",)), tmp_path, None) == 3
    assert json.loads((tmp_path / "counts.json").read_text())["n_tokens"] == 3


def test_a_line_of_a_training_log_may_say_anything(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(b'{"step": 1}\n' + DEEP + b'\n[]\n{"step": "a"}\n')
    TrainingLog(tmp_path, 2, 0, tensorboard=False)
    assert (tmp_path / "log.jsonl").read_text() == '{"step": 1}\n'


# Activations.


def packed(path: Path, change: Callable[[h5py.File], object]) -> Path:
    with ActivationsWriter(path, {"layers": "all"}, layout="packed") as writer:
        writer.write(line_record("the cat"), np.zeros((3, 2, 4), np.float32))
    with h5py.File(path, "r+") as file:
        change(file)
    return path


def spoil_text(file: h5py.File) -> None:
    file["sentences"][...] = 0xFF


def spoil_offsets(file: h5py.File) -> None:
    file["offsets"][...] = [5, -(1 << 40)]


def spoil_type(file: h5py.File) -> None:
    del file["activations"]
    file["activations"] = ["a", "b"]


def spoil_size(file: h5py.File) -> None:
    del file["activations"]
    file.create_dataset("activations", (1 << 40, 3, 4), "f4", compression="gzip")
    file["offsets"][...] = [0, 1 << 40]


def spoil_attributes(file: h5py.File) -> None:
    file.attrs["shard"] = np.zeros(3)


@pytest.mark.parametrize(
    "change", [spoil_text, spoil_offsets, spoil_type, spoil_size, spoil_attributes]
)
def test_damaged_activations_are_named(
    tmp_path: Path, change: Callable[[h5py.File], object]
) -> None:
    path = packed(tmp_path / "out.hdf5", change)
    with pytest.raises(InputError, match="the file is damaged"), open_activations(path) as found:
        list(found.records())
    result = elmo("convert", path, tmp_path / "converted.hdf5")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert not (tmp_path / "converted.hdf5").exists()


def test_groups_in_a_circle_are_no_activations(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "out.hdf5", "w") as file:
        file["a"] = file["/"]
    with pytest.raises(InputError, match="expected activations"):
        open_activations(tmp_path / "out.hdf5")


def test_an_error_is_one_line_whatever_a_file_says(tmp_path: Path) -> None:
    path = tmp_path / "m.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("../a\n\x1b[31mb.hdf5", b"")
    result = elmo("info", path)
    assert (result.exit_code, result.stderr.count("\n"), "\x1b" in result.stderr) == (1, 1, False)
    with pytest.raises(ElmoError):
        unpack(path, tmp_path / "model")
