"""Messages of commands that fail: to the letter, and their remedies work."""

import gzip
import shlex
import shutil
import subprocess
from pathlib import Path

import h5py
import pytest
from commands import elmo
from strategies import make_language_model, small_architecture
from transcripts import Transcript, read_transcripts

FOLDER = Path(__file__).parent
FILES: dict[str, str | bytes] = {
    "text.txt": "the cat sat\nthe dog sat\nthe cat\na cat\nno cat ran\n",
    "the.txt": "the cat\n",
    "words.txt": "cat\n",
    "upper.txt": "Cat\n",
    "both.txt": "Cat\ncat\n",
    "city.txt": "New York\n",
    "counts.txt": "the 3\ncat 2\nsat 2\na 1\ndog 1\n",
    "punctuation.txt": "The cat sat. Then, it ran.\n" * 4,
    "wrapped.txt": "and this is a line of seventy characters , which does not end in here\n" * 40,
    "chinese.txt": "今天天气很好我们一起去公园散步吧然后再去吃饭。\n" * 3,
    "marks.txt": "a \ufeffcat\n" * 2,
    "control.txt": "a \x93cat\x94\n",
    "latin.txt": "the caf\xe9\n".encode("latin-1"),
    "windows.txt": "the \u201ccat\u201d\n".encode("windows-1252"),
    "utf16.txt": "the cat\n".encode("utf-16"),
    "utf16le.txt": "the cat\n".encode("utf-16-le"),
    "utf32.txt": "the cat\n".encode("utf-32"),
    "items.csv": "id,item,n\n1,the cat sat,3\n2,a cat,4\n",
    "items.txt": "id\ttext\n1\tthe cat sat\n2\ta cat\n",
    "numbers.csv": "id,text,item\n1,3,the cat\n2,4,a cat\n",
    "repeated.csv": "id,text\n1,the cat\n1,a cat\n",
    "empty-id.csv": "id,text\n,the cat\n2,a cat\n",
    "twice.csv": "text,text\na,b\n",
    "story.csv": "story,word\n" + "1,the\n1,cat\n" * 5 + "2,a\n2,cat.\n",
    "passages.csv": "text\n" + "The cat sat there. The dog ran home.\n" * 20,
    "receptors.csv": "text\n" + "CASSLGNEQF\n" * 20,
    "quotes.tsv": 'id\ttext\n1\t"the" cat\n2\ta cat\n',
    "words.tsv": "the\tX\ncat\tY\n\na\tX\ncat\tY\n",
    "queries.csv": "word,text\nthe,the cat the\n",
    "numbered.csv": "word,text,occurrence\nthe,the cat the,2\n",
    "words.conll": "the X\ncat Y\n\na X\n",
    "words.conllu": "the X\ncat Y\n\na X\n",
    "ids.conllu": "# sent_id = a\n1\tthe\n\n1\tcat\n",
    "reads.fastq": "@x\nACGT\n+\nIIII\n",
    "objects.json": '{"id": "a", "text": "the cat"}\n{"id": "b", "text": "a cat"}\n',
    "nested.jsonl": '{"data": {"text": "the cat"}}\n',
    "later.jsonl": '{"text": "the"}\n{"text": "a", "x": "y"}\n',
    "slash.jsonl": '{"id": "a/b", "text": "the cat"}\n',
    "break.jsonl": '{"id": "a\\nb", "text": "the cat"}\n',
    "wrong.jsonl": '{"text": "the"}\n[1]\n',
    "missing.csv": "word,count\nzebra,3\n",
    "upper-vocabulary": "<S>\n</S>\n<UNK>\nTHE\nCAT\n",
    "missing.txt": "NA null\n",
    "empty.txt": "\n",
    "forms.csv": "cat,a\ndog,a\n",
    "keys.txt": "a/b\na/b/c\n",
    "foreign.h5.partial": "x",
    "quoted.csv": 'id,text\n1,"the" cat\n',
    "sequence.fasta": "MKV\n>a\nMKV\n",
    "page.html": "<html><body><p>the cat</p></body></html>",
    "rich.rtf": "{\\rtf1\\ansi the cat\\par}",
}
"""Inputs by their names."""

OPTIONS = "--options-file model/options.json --output new --steps 1"


def cases() -> list[str]:
    """Return the cases: commands, each with a part of what it prints.

    `!` begins a case: a command whose message has a remedy. `$` is a remedy of it. The last one of
    a case succeeds.
    """
    text = (FOLDER / "remedies.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("# ")]
    return "\n".join(lines).removeprefix("! ").split("\n! ")


def run(command: str) -> tuple[int, str]:
    """Run a command, after programs of a shell if it has some; return its status and output."""
    programs, _, arguments = f" {command}".rpartition(" elmo ")
    content = None
    if programs.strip():
        shell = shutil.which("bash") or pytest.skip("needs bash")
        done = subprocess.run([shell, "-c", programs.rstrip(" |;")], capture_output=True)
        if done.returncode == 127:
            pytest.skip(done.stderr.decode())
        content = done.stdout
    result = elmo(*shlex.split(arguments.replace("$OPTIONS", OPTIONS)), stdin=content)
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all inputs, models and outputs of commands."""
    folder = tmp_path_factory.mktemp("remedies")
    for name, content in FILES.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
    (folder / "model").mkdir()
    make_language_model(small_architecture(), 1, folder / "model")
    shutil.copytree(
        folder / "model", folder / "plain", ignore=lambda *_: ["softmax.hdf5", "vocab.txt"]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("ELMO_MODEL", "model")
        for arguments in (
            "embed text.txt v.h5",
            "embed text.txt pooled.h5 --layers top --pooling mean",
            "embed text.txt old.h5 --tokenizer moses:verbatim",
            "embed text.txt new.h5 --tokenizer moses",
            "usages text.txt u.npz --words words.txt",
            "usages text.txt all.npz --words words.txt --layers all",
            "usages text.txt u.jsonl --words words.txt",
            "surprisal text.txt --plot v.h5.svg",
            "train text.txt --init-from model --output finished --steps 1",
            "train text.txt --init-from model --output done --steps 1 --keep-checkpoint",
        ):
            assert elmo(*arguments.split()).exit_code == 0
    shutil.copy(folder / "model/softmax.hdf5", folder)
    shutil.copy(folder / "model/vocab.txt", folder / "vocabulary")
    (folder / "weights.hdf5.gz").write_bytes(
        gzip.compress((folder / "model/weights.hdf5").read_bytes())
    )
    for name in ("copy.h5", "bare.h5", "gone.h5"):
        shutil.copy(folder / "v.h5", folder / name)
    with h5py.File(folder / "bare.h5", "r+") as bare, h5py.File(folder / "gone.h5", "r+") as gone:
        gone.attrs["model"] = "gone/model"
        for name in list(bare.attrs):
            del bare.attrs[name]
    return folder


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.partition("\n")[0][5:60])
def test_the_remedy_of_a_message_works(
    case: str, prepared: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(prepared, folder, dirs_exist_ok=True)
    monkeypatch.setenv("ELMO_MODEL", "model")
    lines = [line.removeprefix("$ ") for line in case.split("\n")]
    for command, expected in zip(lines[::2], lines[1::2], strict=True):
        status, output = run(command)
        assert expected in output, f"{command}\n{output}"
    assert status == 0, output


@pytest.mark.parametrize("transcript", read_transcripts(FOLDER / "errors.txt"), ids=str)
def test_an_error_has_this_text(
    transcript: Transcript, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "--split-sentences" in transcript.command:
        pytest.importorskip("sentencex")
    monkeypatch.chdir(prepared)
    monkeypatch.setenv("ELMO_MODEL", "model")
    transcript.check()
