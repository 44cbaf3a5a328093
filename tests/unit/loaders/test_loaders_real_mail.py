"""The public Enron corpus, as a check on real mail."""

import os
from collections import Counter
from pathlib import Path

import pytest

from dpicl_rag.loaders import load

DATA = Path(os.environ.get("DPICL_RAG_DATA", Path(__file__).parents[4] / "shared" / "data"))


def data(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not in DPICL_RAG_DATA")
    return path


def test_every_message_of_a_real_mailbox_is_accounted_for() -> None:
    found = load(data("enron_skilling_600.mbox.gz"))
    assert found.report.read == 600
    assert found.report.loaded == 600
    threads = Counter(document.unit for document in found.documents)
    # These mails refer to no others, so all that ties them is a subject between two people.
    assert len(threads) == 600 - len(found.report.joined) == 590
    assert max(threads.values()) == 3
    assert all(document.metadata["sender"].count("@") == 1 for document in found.documents)


def test_records_of_patients_are_composed_of_all_fields() -> None:
    found = load(data("medical_synth_dev.jsonl.gz"), unit="patient")
    assert found.report.read == found.report.loaded == 3554
    first = found.documents[0]
    assert first.unit == first.metadata["patient"]
    assert all(f"{name}: {value}" in first.text for name, value in first.metadata.items() if value)


def test_a_real_table() -> None:
    found = load(data("tab_adult_train.csv.gz"))
    assert found.report.read == found.report.loaded == 5000
    assert len({document.unit for document in found.documents}) == 5000
