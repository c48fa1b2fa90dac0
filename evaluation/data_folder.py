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
    ucl: Path | None = None
    """`all_measures.csv` of de Varda et al. (2024)."""
    story_times: Path | None = None
    """`processed_wordinfo.tsv` of the Natural Stories corpus."""
    story_frequencies: Path | None = None
    """`freqs-1.tsv` of the Natural Stories corpus."""
    story_gpt3: Path | None = None
    """`all_stories_gpt3.csv` of the Natural Stories corpus."""


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
        elif path.suffix in (".jsonl", ".csv", ".tsv"):
            _find_by_columns(path, data)
    if not data.brown:
        data.brown = sorted(folder.rglob("brown.tagged"))[:1]
    return data


def _find_by_columns(path: Path, data: DataFolder) -> None:
    """Add a file that is known by what its first line contains."""
    with open(path, encoding="utf-8", errors="replace") as file:
        first_line = file.readline()
    if '"sentence_good"' in first_line:
        data.blimp.append(path)
    elif "s_GPT2," in first_line and "self_paced_reading_time" in first_line:
        data.ucl = path
    elif "meanItemRT" in first_line and "WorkerId" not in first_line:
        data.story_times = path
    elif first_line.startswith("1.1.whole\t1\t"):
        data.story_frequencies = path
    elif first_line.startswith("token,logprob,"):
        data.story_gpt3 = path
