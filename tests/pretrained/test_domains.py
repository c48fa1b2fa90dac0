"""Proteins and text for models of the other."""

import pytest

from elmo_cli.pretrained.registry import expected_input
from elmo_cli.text.parsers import Entry
from elmo_cli.text.records import Record, Sentence
from elmo_cli.text.report import InputReport, Sample

PROTEIN = list("MKVLAGHMKVLAGH*XMKVLAGH")
TEXT = ["The", "river", "rose", "in", "a", "night", "."] * 4


def report_on(records: list[Record], model: str) -> None:
    """Let the report of an input for a model see all records."""
    report = InputReport(Sample(is_split_at_spaces=False, expected=expected_input(model, None)))
    for number, record in enumerate(records, start=1):
        report.see(Entry(number, record))
    report.end(is_complete=True)


@pytest.mark.parametrize(
    ("model", "tokens", "expected"),
    [
        ("original", TEXT, None),
        ("seqvec", PROTEIN, None),
        ("seqvec", TEXT[:7], None),
        ("my-model", PROTEIN, None),
        ("pt", PROTEIN, "proteins, but the model pt was trained on Portuguese text. --model s"),
        ("SeqVec", TEXT, "text, but the model SeqVec was trained on proteins. --model original"),
    ],
)
def test_another_domain_logs_one_warning(
    model: str, tokens: Sentence, expected: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    report_on([Record("", tokens)] * (3 if len(tokens) > 7 else 1), model)
    assert len(caplog.messages) == (expected is not None)
    assert all(expected in message for message in caplog.messages if expected)


def test_short_fasta_for_a_model_of_text_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    report_on([Record("", list("MKV"))], "mini")
    assert caplog.messages == []
    report_on([Record("", list("MKV"), "p1", {"original_id": "p1"})], "mini")
    assert len(caplog.messages) == 1
    assert "seems to be proteins" in caplog.messages[0]
