"""Warnings for a text of another domain than the one of a model."""

import pytest

from elmo_cli.records.record import Record
from elmo_cli.records.warnings.expected import expected_input
from elmo_cli.records.warnings.input_report import InputReport
from elmo_cli.records.warnings.sample import Sample

PROTEIN = list("MKVLAGHMKVLAGH*XMKVLAGH")
TEXT = ["The", "river", "rose", "in", "a", "night", "."] * 4
PT = "proteins, but the model pt was trained on Portuguese text. model='seqvec'"
SEQVEC = "text, but the model SeqVec was trained on proteins. model='original'"


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
        (
            "pt",
            # from FASTA
            Record("", list("MKV"), "p1", original_id="p1"),
            1,
            PT,
        ),
    ],
)
def test_another_domain_logs_one_warning(
    model: str,
    record: Record,
    n: int,
    warning: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sample = Sample(
        is_split_at_spaces=False,
        has_sequences=record.original_id is not None,
        expected=expected_input(model, None),
    )
    report = InputReport(sample)
    for start in range(1, n + 1):
        report.see(record._replace(start=start))
    report.end(is_complete=True)
    expected = [] if warning is None else [f"the input seems to be {warning}"]
    assert [message[: len(expected[0])] for message in caplog.messages] == expected
