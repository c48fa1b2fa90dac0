"""Words with tags, tables and data in what would be read as plain text."""

import gzip
from pathlib import Path

import pytest

from elmo_cli.errors.exceptions import InputError
from elmo_cli.options.text import InputFormatName, TextSettings
from elmo_cli.records.open_input import open_input
from elmo_cli.records.open_records import open_records
from tests.support.commands import TINY, elmo

pytestmark = pytest.mark.usefixtures("folder")

CONLL_2003 = (
    "-DOCSTART- -X- O O\n\nAnn NNP B-NP B-PER\nsaw VBD B-VP O\nRome NNP B-NP B-LOC\n"
    ". . O O\n\nShe PRP B-NP O\nslept VBD B-VP O\n"
)
IOB2 = (
    "# sent_id = a1\n# text = Ann saw Rome.\n1\tAnn\tB-PER\t-\t-\n2\tsaw\tO\t-\t-\n"
    "3\tRome\tB-LOC\t-\t-\n\n# sent_id = a2\n1\tShe\tO\t-\t-\n2\tslept\tO\t-\t-\n"
)
WORDS_WITH_TAGS = {
    "CoNLL-2003": CONLL_2003,
    "CoNLL-2003 without documents": CONLL_2003.partition("\n\n")[2],
    "IOB2": IOB2,
    "tabs": "Ann\tB-PER\nsaw\tO\nRome\tB-LOC\n\nShe\tO\n",
    "one column of tags": "Ann B-PER\nsaw O\nRome B-LOC\n.\tO\n".replace("\t", " "),
    "no entity yet": "It O\nwas O\na O\ncold O\nday O\n",
    "BILOU": "New B-LOC\nYork L-LOC\n, O\nRome U-LOC\n",
    "parts of speech": "The DT\nkeys NNS\nare VBP\nhere RB\n. .\n",
    "universal tags": "The\tDET\nkeys\tNOUN\nare\tAUX\nhere\tADV\n.\tPUNCT\n",
}
TABLES = {
    "csv": 'id,text,kind\na1,"The keys, here.",plural\na2,The key.,singular\n',
    "csv with lines in a cell": 'id,text\n1,"The keys\nare here."\n2,A key.\n',
    "csv with semicolons": "item;sentence\n1;The keys are here.\n",
    "csv with bars": "item|sentence\n1|The keys are here.\n",
    "csv with unusual names": "nr,frage\n1,Wo ist er?\n2,Was ist es?\n3,Wer ist da?\n",
    "csv with CR": "id,text\r1,The keys are here.\r2,A key.\r",
    "csv with a mark": "\ufeffid,text\n1,The keys are here.\n",
    "tsv": "id\ttext\n1\tThe keys are here.\n2\tA key.\n",
}
TEXTS = {
    "commas": "Yes, no.\nHello, world.\nOne, two.\n",
    "commas without spaces": "yes,no\nhello,world\n",
    "tokens": "the cat , the dog\na cat , a dog\n",
    "numbers": "10,000 people\n20,000 people\n",
    "two words": "The cat\nA dog\nMy bird\nNo fish\nOne cow\n",
    "capital letters": "GO TO\nCOME IN\nSIT BY\nGO TO\nIT IS\n",
    "answers": "Yes .\nNo .\nStop .\nGo .\nWait .\n",
    "tags as text": "DET NOUN\nDET NOUN\nADJ NOUN\nADJ NOUN\nDET ADJ\n",
    "regions": "The cat | sat\nThe dog | ran\n",
    "semicolons": "He came; she went.\nIt rained; it poured.\n",
    "hashes": "# The cat\n# The dog\n# A bird\n",
}


def read_file(content: str, name: str = "a.txt") -> int:
    """Return the number of records that are read in a file."""
    Path(name).write_text(content, newline="")
    with open_records(open_input(name)) as read:
        return sum(1 for _ in read.records)


def refusal(content: str) -> str:
    """Return the error of a command that reads a text from standard input."""
    result = elmo("embed", "-", "o.hdf5", "--overwrite", "--model", TINY, stdin=content)
    return result.stderr if result.exit_code == 1 else ""


@pytest.mark.parametrize("content", WORDS_WITH_TAGS.values(), ids=WORDS_WITH_TAGS)
def test_words_with_tags_are_no_sentences(content: str) -> None:
    expected = "one word per line, with tags"
    for name in ("train.txt", "eng.testa", "a.iob2", "train"):
        with pytest.raises(InputError, match=expected):
            read_file(content, name)
    assert expected in refusal(content)


@pytest.mark.parametrize("content", TABLES.values(), ids=TABLES)
def test_tables_without_their_suffix_are_no_text(content: str) -> None:
    with pytest.raises(InputError, match="it seems to be a table with the columns"):
        read_file(content)
    assert "it seems to be a table with the columns" in refusal(content)
    Path("a.txt.gz").write_bytes(gzip.compress(content.encode()))
    with pytest.raises(InputError, match="it seems to be a table with the columns"):
        open_input("a.txt.gz")


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_the_format_that_the_error_names_reads_the_table(kind: InputFormatName) -> None:
    assert f"--input-format {kind}" in refusal(TABLES[kind])
    Path("a.txt").write_text(TABLES[kind])
    text = open_input("a.txt", TextSettings(input_format=kind))
    with open_records(text) as read:
        assert next(record.id for record in read.records) in ("a1", "1")


def test_numbered_words_with_tags_are_read_as_conllu() -> None:
    assert "Use --input-format conllu" in refusal(IOB2)
    Path("a.iob2").write_text(IOB2)
    with open_records(
        open_input("a.iob2", TextSettings(input_format="conllu"))
    ) as read:
        tokens = [record.tokens for record in read.records]
    assert tokens == [["Ann", "saw", "Rome"], ["She", "slept"]]


@pytest.mark.parametrize("content", TEXTS.values(), ids=TEXTS)
def test_ordinary_text_is_read(content: str) -> None:
    assert read_file(content) == content.count("\n")
    assert not refusal(content)


@pytest.mark.parametrize("content", [CONLL_2003, *TABLES.values()])
def test_the_format_text_reads_anything(content: str) -> None:
    Path("a.txt").write_text(content, newline="")
    text = open_input("a.txt", TextSettings(input_format="text"))
    with open_records(text) as read:
        assert sum(1 for _ in read.records) > 1


def test_zero_bytes_are_no_text() -> None:
    with pytest.raises(InputError, match="zero bytes"):
        read_file("The cat\0sat .\nA dog .\n")
    assert "zero bytes" in refusal("The cat\0sat .\nA dog .\n")


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (b"a\0b .\n", "To read it nevertheless, use input_format='text'."),
        (b"\x80\0b .\n", "Give a text instead."),
    ],
)
def test_bytes_that_are_no_utf8_are_not_read_as_text(
    content: bytes, remedy: str
) -> None:
    Path("a.bin").write_bytes(content)
    with pytest.raises(InputError) as caught:
        open_input("a.bin")
    assert str(caught.value).endswith(f"probably not a text. {remedy}")


def test_control_characters_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert read_file("The cat .\nA\x01dog\x02 .\n") == 2
    assert (
        "control characters (U+0000 to U+001F): 2, the first in line 2" in caplog.text
    )


RATINGS = "".join(
    f"{n}\tcat{n}\tn\tdog\tn\tThe cat sat .\tA dog ran .\t7.{n}\t8\t6\n"
    for n in (1, 2, 3)
)
NUMBERS = "".join(f"{n}\tcat{n}\tn\tdog\tn\tx\t{n}\t7.{n}\t8\t6\n" for n in (1, 2, 3))


@pytest.mark.parametrize("content", [RATINGS, NUMBERS])
def test_a_numbered_table_is_no_treebank(content: str) -> None:
    Path("ratings.txt").write_text(content)
    assert open_input("ratings.txt").format.name == "text"


def test_a_treebank_without_its_suffix_is_recognized() -> None:
    words = "1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n1\tde\tde\tADP\t_\t_\t2\tcase:x\t_\t_\n"
    Path("a.txt").write_text(
        f"# sent_id = 1\n{words}2\tle\tle\tDET\t_\tA=B\t0\troot\t_\t_\n"
    )
    assert open_input("a.txt").format.name == "conllu"


@pytest.mark.parametrize("n_words", [3, 30])
def test_a_treebank_without_its_words_is_warned_of(
    n_words: int, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [f"{number}\t_\t_\tDET" for number in range(1, n_words + 1)]
    Path("a.conllu").write_text("\n".join(lines) + "\n")
    with open_records(open_input("a.conllu")) as read:
        list(read.records)
    assert "all words are _, because the text was removed" in caplog.text
    assert "repeat" not in caplog.text
