"""A report that grows, is stopped, and goes on."""

from __future__ import annotations

import json
import math

import pytest

from dpicl_rag.auditing import (
    AgreementAudit,
    AuditFolder,
    AuditReport,
    ChannelAudit,
    NeighbourAudit,
)
from dpicl_rag.auditing.attacks import ExtractionAudit
from dpicl_rag.auditing.audit_report import identity
from dpicl_rag.auditing.canaries import CanaryAudit
from dpicl_rag.auditing.near_ties import NearTie, NearTieAudit
from dpicl_rag.documents import Document

PARTS = {
    "synthetic": NeighbourAudit(8.0, 1e-5, 7.1234567890123, 0.9, (0.1, 0.2), 3),
    "agreement": AgreementAudit({1: 0.0, 40: 0.75}, 0.0, 0.95, 5e-6, 100),
    "near_ties": NearTieAudit((NearTie("a newcomer", "votes", 1.0, 0.5, 0.125, 0.1),), 32),
    "documents": NeighbourAudit(8.0, 1e-5, math.inf, math.inf, (math.inf,), 2),
    "canary": CanaryAudit(0.5, 0.95, 8.0, 1e-5, 8, 3, 0.5, 0.25),
    "extraction": ExtractionAudit(4, 0, 3, 1, 7),
    "channels": ChannelAudit(10, ("a unit more: log",)),
}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("parts", range(1, len(PARTS)))
def test_what_was_kept_is_what_an_audit_goes_on_from(tmp_path, parts):
    found = AuditReport(**dict(list(PARTS.items())[:parts]))
    folder = AuditFolder(tmp_path / "report")
    files = folder.keep(found, "one")
    assert folder.unfinished
    assert folder.go_on("one") == found
    assert files[0].read_text() == found.text()
    assert files[1].read_bytes().startswith(b"\x89PNG")
    assert json.loads(files[2].read_bytes()) == found.summary()


def test_a_whole_report_leaves_nothing_to_go_on_from(tmp_path):
    folder = AuditFolder(tmp_path)
    folder.keep(AuditReport(**PARTS), "one")
    assert not folder.unfinished
    assert folder.go_on("one") == AuditReport()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "audit.png",
        "audit.txt",
        "summary.json",
    ]


def test_parts_of_another_audit_are_not_mixed_in(tmp_path):
    folder = AuditFolder(tmp_path)
    folder.keep(AuditReport(synthetic=PARTS["synthetic"]), "one")
    assert folder.go_on("other") == AuditReport()
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_begun_anew(tmp_path):
    folder = AuditFolder(tmp_path)
    folder.keep(AuditReport(synthetic=PARTS["synthetic"]), "one")
    (tmp_path / "unfinished.json").write_text('{"of": "one", "rep')
    assert folder.go_on("one") == AuditReport()


def test_a_whole_report_is_not_deleted_by_an_audit_that_begins(tmp_path):
    folder = AuditFolder(tmp_path)
    (text, *_) = folder.keep(AuditReport(**PARTS), "one")
    folder.go_on("other")
    assert text.exists()


def test_the_identity_follows_from_everything_that_figures_follow_from():
    documents = [Document("one", "a"), Document("two", "b")]
    found = {
        identity(documents, "Where?", {"epsilon": 8}),
        identity(documents[::-1], "Where?", {"epsilon": 8}),
        identity(documents[:1], "Where?", {"epsilon": 8}),
        identity([documents[0], Document("two", "c")], "Where?", {"epsilon": 8}),
        identity(documents, "When?", {"epsilon": 8}),
        identity(documents, "Where?", {"epsilon": 4}),
    }
    assert len(found) == 6
    assert identity(documents, "Where?") == identity(list(documents), "Where?")


def test_a_folder_names_no_path():
    assert repr(AuditFolder("/home/ann/secret")) == "AuditFolder()"
