"""A little reading data in the formats of the UCL sentences and Natural Stories."""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evaluation.reading_data import UCL_MEASURES, UCL_SURPRISALS

STORY_TIMES = """word\tzone\titem\tnItem\tmeanItemRT
'No,\t1\t1\t80\tFIRST
.\t3\t10\t80\t503
do\t2\t10\t80\t502
Owls\t1\t10\t80\t501
owls.\t2\t1\t80\t402
sat.\t4\t1\t80\t404
They\t3\t1\t80\t403
"""
STORY_FREQUENCIES = """1.1.whole\t1\t'No,\t1\tNA
1.1.word\t1\tNo\t8\tNA
1.2.word\t1\towls\t4\tNA
1.2.2\t1\t.\t99\tNA
1.3.word\t1\tThey\t32\tNA
1.4.word\t1\tsat\t16\tNA
10.1.word\t1\tOwls\t4\tNA
10.2.word\t1\tdo\t0\tNA
"""
STORY_GPT3 = """token,logprob,offset,story
',,0,0
"No,",-2,1,0
 owls,-3,4,0
.,-0.5,9,0
 They,-1,10,0
 sat.,-2,15,0
Owls,-4,0,9
 do,-1,4,9
 .,-0.25,7,9
"""


class UclRow(NamedTuple):
    """A word of the UCL file."""

    sentence_id: str
    sentence: str
    position: int
    log_frequency: str
    measure: float
    """All measures of the word."""
    surprisal: float
    """All published surprisals of the word."""


UCL_ROWS = [
    UclRow("10", "Go on.", 1, "12", 303, 7),
    UclRow("9", "A cat sat.", 2, "", 302, 6),
    UclRow("9", "A cat sat.", 1, "9.5", 301, 5),
]


def write_ucl(path: Path, rows: Iterable[UclRow] = UCL_ROWS) -> None:
    """Write `all_measures.csv`."""
    fields = ["sent_id", "sentence", "context_length", "Subtlex_log10", "length"]
    fields += [*UCL_SURPRISALS.values(), *UCL_MEASURES.values()]
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        for row in rows:
            word = row.sentence.split(" ")[row.position].strip(".")
            cells: dict[str, object] = {
                "sent_id": row.sentence_id,
                "sentence": row.sentence,
                "context_length": row.position,
                "Subtlex_log10": row.log_frequency,
                "length": len(word),
            }
            cells |= dict.fromkeys(UCL_SURPRISALS.values(), row.surprisal)
            cells |= dict.fromkeys(UCL_MEASURES.values(), row.measure)
            writer.writerow(cells)


def draw_ucl_rows() -> Iterator[UclRow]:
    """Yield the words of 40 sentences with random figures."""
    random = np.random.default_rng(0)
    for number in range(40):
        words = random.permutation(["the", "man", "saw", "his", "old", "house"])
        sentence = f"Then {' '.join(words)}."
        for position in range(1, 7):
            frequency, measure, surprisal = random.normal(size=3)
            yield UclRow(
                str(number),
                sentence=sentence,
                position=position,
                log_frequency=str(frequency),
                measure=measure,
                surprisal=surprisal,
            )


def write_stories(folder: Path, first_time: float = 401) -> tuple[Path, Path, Path]:
    """Write the times, the frequencies and GPT-3's probabilities of two stories."""
    folder.mkdir(parents=True, exist_ok=True)
    times = folder / "processed_wordinfo.tsv"
    times.write_text(STORY_TIMES.replace("FIRST", str(first_time)))
    frequencies = folder / "freqs-1.tsv"
    frequencies.write_text(STORY_FREQUENCIES)
    gpt3 = folder / "all_stories_gpt3.csv"
    gpt3.write_text(STORY_GPT3)
    return times, frequencies, gpt3
