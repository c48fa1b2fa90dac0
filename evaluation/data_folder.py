"""Data of the tests in a folder, found by the names of its files."""

import re
from dataclasses import dataclass, field
from pathlib import Path

DEBIANS_INDEX = Path("/usr/share/wordnet/index.sense")
_SEMCOR = re.compile(r"(brown(1|2|v)_)?br-[a-r]\d\d(\.xml)?")
_BROWN = re.compile(r"c[a-r]\d\d")


@dataclass
class DataFolder:
    """Paths of the data that was found."""

    semcor: list[Path] = field(default_factory=list)
    """Files of SemCor in its original format."""
    test_sets: Path | None = None
    """`ALL.data.xml` of Raganato et al. (2017)."""
    sense_index: Path | None = None
    """WordNet's `index.sense`."""
    brown: list[Path] = field(default_factory=list)
    """Documents of the tagged Brown corpus, or one file with all of them."""
    treebanks: dict[str, tuple[Path, Path]] = field(default_factory=dict)
    """Training and test file of each treebank, by its name."""
    blimp: list[Path] = field(default_factory=list)
    """Sets of BLiMP."""


def find_data(folder: Path) -> DataFolder:
    """Find the data of the tests in a folder and the folders below it."""
    data = DataFolder(sense_index=DEBIANS_INDEX if DEBIANS_INDEX.is_file() else None)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if _SEMCOR.fullmatch(path.name):
            data.semcor.append(path)
        elif _BROWN.fullmatch(path.name):
            data.brown.append(path)
        elif path.name == "ALL.data.xml":
            data.test_sets = path
        elif path.name == "index.sense":
            data.sense_index = path
        elif path.name.endswith("-train.conllu"):
            test = path.with_name(path.name.replace("-train.conllu", "-test.conllu"))
            if test.is_file():
                data.treebanks[path.name.removesuffix("-train.conllu")] = (path, test)
        elif path.suffix == ".jsonl" and _is_blimp(path):
            data.blimp.append(path)
    if not data.brown:
        data.brown = sorted(folder.rglob("brown.tagged"))[:1]
    return data


def _is_blimp(path: Path) -> bool:
    with open(path, encoding="utf-8") as file:
        return '"sentence_good"' in file.readline()
