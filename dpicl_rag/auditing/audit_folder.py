"""The folder of a report: it grows with each part of an audit, which can be stopped and go on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from dpicl_rag.documents import Document
from dpicl_rag.files.run_files import write_whole

if TYPE_CHECKING:
    from dpicl_rag.auditing.audit_report import AuditReport

REPORT, PLOT, FIGURES = "audit.txt", "audit.png", "summary.json"
"""Files: for reading, plotted, and the figures by name."""

_UNFINISHED = "unfinished.json"


def identity(documents: Sequence[Document], *rest: object) -> str:
    """Identity that the parts of one report share: documents, question, settings, model.

    Args:
        documents: Which the audit reads, in their order.
        rest: Whatever else its figures follow from, of types that JSON has.
    """
    texts = [(document.unit, document.text) for document in documents]
    return sha256(json.dumps([texts, *rest]).encode()).hexdigest()


@dataclass(frozen=True, slots=True, repr=False)
class AuditFolder:
    """The folder of a report. As private as the documents it is about."""

    path: Path

    def __repr__(self) -> str:
        return "AuditFolder()"

    @property
    def unfinished(self) -> bool:
        """Presence of an audit that was stopped here."""
        return (self.path / _UNFINISHED).exists()

    def go_on(self, of: str) -> AuditReport:
        """Parts that an audit of the same identity has found; those of another one are deleted."""
        from pydantic import TypeAdapter

        from dpicl_rag.auditing.audit_report import AuditReport

        try:
            found = json.loads((self.path / _UNFINISHED).read_bytes())
        except FileNotFoundError:
            return AuditReport()
        except ValueError:
            found = None
        if isinstance(found, dict) and found.get("of") == of:
            return TypeAdapter(AuditReport).validate_python(found["report"])
        for name in (_UNFINISHED, REPORT, PLOT, FIGURES):
            (self.path / name).unlink(missing_ok=True)
        return AuditReport()

    def keep(self, report: AuditReport, of: str) -> list[Path]:
        """Write what was found so far. A kill at any instant leaves every file whole.

        Returns:
            The files to look at.

        Raises:
            MissingDependencyError: matplotlib is not installed; nothing was written.
        """
        plot = report.plot()
        self.path.mkdir(parents=True, exist_ok=True)
        parts = json.dumps({"of": of, "report": asdict(report)})
        # First what an audit goes on from: the rest can be made of it.
        write_whole(self.path / _UNFINISHED, parts.encode(), 0o600)
        figures = json.dumps(report.summary(), allow_nan=False)
        contents = {REPORT: report.text().encode(), PLOT: plot, FIGURES: figures.encode()}
        for name, content in contents.items():
            write_whole(self.path / name, content)
        if report.whole:
            (self.path / _UNFINISHED).unlink()
        return [self.path / name for name in contents]
