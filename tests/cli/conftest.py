"""Inputs, models and outputs of the commands in errors.txt and remedies.txt."""

import gzip
import shutil
from pathlib import Path

import h5py
import pytest

from tests.support.commands import elmo
from tests.support.strategies import make_language_model, small_architecture
from tests.support.transcripts import write_inputs

INPUTS: dict[str, str | bytes] = {
    "text.txt": "the cat sat\nthe dog sat\nthe cat\na cat\nno cat ran\n",
    "the.txt": "the cat\n",
    "words.txt": "cat\n",
    "upper.txt": "Cat\n",
    "both.txt": "Cat\ncat\n",
    "city.txt": "New York\n",
    "counts.txt": "the 3\ncat 2\nsat 2\na 1\ndog 1\n",
    "wrapped.txt": 40
    * "and this is a line of seventy characters , which does not end in here\n",
    "chinese.txt": 3 * "今天天气很好我们一起去公园散步吧然后再去吃饭。\n",
    "marks.txt": "a \ufeffcat\na \ufeffcat\n",
    "control.txt": "a \x93cat\x94\n",
    "latin.txt": b"the caf\xe9\n",
    "windows.txt": b"the \x93cat\x94\n",
    "utf16.txt": "the cat\n".encode("utf-16"),
    "utf16le.txt": "the cat\n".encode("utf-16le"),
    "utf32.txt": "the cat\n".encode("utf-32"),
    "items.csv": "id,item,n\n1,the cat sat,3\n2,a cat,4\n",
    "items.txt": "id\ttext\n1\tthe cat sat\n2\ta cat\n",
    "numbers.csv": "id,text,item\n1,3,the cat\n2,4,a cat\n",
    "repeated.csv": "id,text\n1,the cat\n1,a cat\n",
    "empty-id.csv": "id,text\n,the cat\n2,a cat\n",
    "twice.csv": "text,text\na,b\n",
    "story.csv": "story,word\n" + 5 * "1,the\n1,cat\n" + "2,a\n2,cat.\n",
    "passages.csv": "text\n" + 20 * "The cat sat there. The dog ran home.\n",
    "receptors.csv": "text\n" + 20 * "CASSLGNEQF\n",
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
    "a;b.txt": "the cat\n",
    "u.npz": "",
    "u.jsonl": "",
}

COMMANDS = [
    "embed text.txt v.h5",
    "embed text.txt pooled.h5 --layers top --pooling mean",
    "embed text.txt old.h5 --tokenizer moses:verbatim",
    "embed text.txt new.h5 --tokenizer moses",
    "occurrences text.txt u.parquet --words words.txt",
    "surprisal text.txt --plot v.h5.svg",
    "train text.txt --init-from model --output finished --steps 1",
    "train text.txt --init-from model --output done --steps 1 --keep-checkpoint",
]
"""Commands that write more files, with `model` as the model."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all inputs, models and outputs that commands read."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "model").mkdir()
    make_language_model(small_architecture(), 1, folder / "model")
    without = shutil.ignore_patterns("softmax.hdf5", "vocab.txt")
    shutil.copytree(folder / "model", folder / "plain", ignore=without)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("ELMO_MODEL", "model")
        write_inputs(INPUTS)
        for command in COMMANDS:
            assert elmo(*command.split()).exit_code == 0
    shutil.copy(folder / "model/softmax.hdf5", folder)
    shutil.copy(folder / "model/vocab.txt", folder / "vocabulary")
    weights = (folder / "model/weights.hdf5").read_bytes()
    (folder / "weights.hdf5.gz").write_bytes(gzip.compress(weights))
    for name in ("copy.h5", "bare.h5", "gone.h5"):
        shutil.copy(folder / "v.h5", folder / name)
    with h5py.File(folder / "bare.h5", "r+") as file:
        for name in list(file.attrs):
            del file.attrs[name]
    with h5py.File(folder / "gone.h5", "r+") as file:
        file.attrs["model"] = "gone/model"
    return folder
