"""Proteins and text for models of the other."""

import pytest

from elmo_cli.pretrained.registry import expected_input
from elmo_cli.text.parsers import Entry
from elmo_cli.text.records import Record
from elmo_cli.text.report import InputReport, Sample

PROTEIN = list("MKVLAGHMKVLAGH*XMKVLAGH")
TEXT = ["The", "river", "rose", "in", "a", "night", "."] * 4


PT = "proteins, but the model pt was trained on Portuguese text. --model seqvec"
SEQVEC = "text, but the model SeqVec was trained on proteins. --model original"


@pytest.mark.parametrize(
    ("model", "record", "n", "warning"),
    [
        ("original", Record("", TEXT), 3, None),
        ("seqvec", Record("", PROTEIN), 3, None),
        ("seqvec", Record("", TEXT[:7]), 1, None),
        ("my-model", Record("", PROTEIN), 3, None),
        ("pt", Record("", PROTEIN), 3, PT),
        ("SeqVec", Record("", TEXT), 3, SEQVEC),
        ("pt", Record("", list("MKV")), 1, None),
        ("pt", Record("", list("MKV"), "p1", {"original_id": "p1"}), 1, PT),  # from FASTA
    ],
)
def test_another_domain_logs_one_warning(
    model: str, record: Record, n: int, warning: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    report = InputReport(Sample(is_split_at_spaces=False, expected=expected_input(model, None)))
    for number in range(1, n + 1):
        report.see(Entry(number, record))
    report.end(is_complete=True)
    expected = [] if warning is None else [f"Warning: the input seems to be {warning}"]
    assert [message[: len(expected[0])] for message in caplog.messages] == expected
