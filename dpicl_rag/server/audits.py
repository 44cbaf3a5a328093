"""Audits that owners start: the command ``dpicl-rag audit`` in a process of its own.

An audit compares what a process prints and logs between neighbours, so it has one to itself. It
also ends with that process, wherever it is.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpicl_rag.auditing.audit_report import FIGURES, PLOT, REPORT, AuditFolder
from dpicl_rag.errors import ConfigurationError, DPICLError
from dpicl_rag.server.child_command import own_command, run_command
from dpicl_rag.server.jobs import Job

_NEW = "new"  # the folder of a report that is not whole yet

AuditCommand = Callable[[str, str, int, Path, Mapping[str, Any]], Sequence[str]]
"""A command line, from a corpus, a question, the number of runs, a folder for the report and the
settings served."""


@dataclass(frozen=True)
class Auditor:
    """Runs audits and keeps the last report of each corpus, which is as private as the documents.

    A report that was begun is shown in place of the last one as soon as it has a part. An audit
    that was stopped goes on from there when it is asked for again.
    """

    folder: Path
    command: AuditCommand

    def __repr__(self) -> str:
        return "Auditor()"

    def begin(
        self, corpus: str, question: str, runs: int, settings: Mapping[str, Any]
    ) -> list[str]:
        """The command line for a corpus, and a question that its documents answer.

        Raises:
            ConfigurationError: They cannot be audited.
        """
        return list(self.command(corpus, question, runs, self._begun(corpus), settings))

    async def run(self, job: Job, command: Sequence[str]) -> dict[str, Any]:
        """Audit a corpus until it has ended or is stopped.

        Raises:
            DPICLError: No report came out.
        """
        job.at("Reading the documents")
        audit = run_command(command, on_progress=lambda part, done: job.at(part, done, 100))
        ended = await job.until_stopped(audit)
        return self._keep(job.corpus, "".join(ended.lines[-1:]))

    def report(self, corpus: str) -> dict[str, Any] | None:
        """Figures and text of the audit under way, or of the last one; None if there was none."""
        shown = self._shown(corpus)
        try:
            text = (shown / REPORT).read_text(encoding="utf-8")
            return {"summary": json.loads((shown / FIGURES).read_bytes()), "text": text}
        except FileNotFoundError:
            return None

    def plot(self, corpus: str) -> bytes | None:
        """The plot of the same audit; None if there was none."""
        try:
            return (self._shown(corpus) / PLOT).read_bytes()
        except FileNotFoundError:
            return None

    def forget(self, corpus: str) -> None:
        """Delete the report of a corpus, for another that is made under its name."""
        shutil.rmtree(self.folder / corpus, ignore_errors=True)

    def _shown(self, corpus: str) -> Path:
        kept = self.folder / corpus
        return kept / _NEW if (kept / _NEW / FIGURES).exists() else kept

    def _keep(self, corpus: str, said: str) -> dict[str, Any]:
        kept = self.folder / corpus
        try:
            figures = json.loads((kept / _NEW / FIGURES).read_bytes())
        except FileNotFoundError:
            figures = {"whole": False}
        if not figures["whole"]:
            raise DPICLError(f"the audit ended without a whole report{': ' * bool(said)}{said}")
        for name in (REPORT, PLOT, FIGURES):  # the last one last: until then all are in the new one
            (kept / _NEW / name).replace(kept / name)
        return {"holds": figures["holds"]}

    def _begun(self, corpus: str) -> Path:
        """The folder of a report that was stopped or is new; the last one is kept until its end."""
        new = self.folder / corpus / _NEW
        if not AuditFolder(new).unfinished:
            shutil.rmtree(new, ignore_errors=True)
        for part in (self.folder, new.parent, new):
            part.mkdir(exist_ok=True, mode=0o700)
        return new


def audit_command(known: Sequence[str], *options: str) -> AuditCommand:
    """A command line of ``dpicl-rag audit``."""

    def command(
        corpus: str, question: str, runs: int, out: Path, settings: Mapping[str, Any]
    ) -> list[str]:
        unknown = sorted(set(settings) - set(known))
        if unknown:
            raise ConfigurationError(
                f"`dpicl-rag audit` does not know {', '.join(unknown)}, which this corpus is "
                "served with; audit it from Python, see dpicl_rag.auditing"
            )
        given = [
            word
            for name, value in settings.items()
            if value is not None
            for word in (f"--{name.replace('_', '-')}", str(value))
        ]
        where = ("--corpus", corpus, "--out", str(out))
        # One word each: a question may look like an option.
        asked = (f"--question={question}", f"--runs={runs}")
        return own_command("audit", *where, *asked, "--quiet", *options, *given)

    return command
