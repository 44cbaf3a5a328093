"""Audits that owners start: the command ``dpicl-rag audit`` in a process of its own.

An audit compares what a process prints and logs between neighbours, so it has one to itself. It
also ends with that process, wherever it is.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpicl_rag.errors import ConfigurationError, DPICLError
from dpicl_rag.server.jobs import Job, Stopped

_RUN = "from dpicl_rag.cli import main; main()"
_POLL = 0.5  # seconds
_REPORT = ("audit.txt", "audit.png", "summary.json")

Command = Callable[[str, str, Path, Mapping[str, Any]], Sequence[str]]
"""From a corpus, a question, a folder for the report and the settings served to a command line."""


@dataclass(frozen=True)
class Auditor:
    """Runs audits and keeps the last report of each corpus, which is as private as the documents.

    Attributes:
        folder: Where reports are kept.
        command: What is run.
    """

    folder: Path
    command: Command

    def __repr__(self) -> str:
        return "Auditor()"

    def begin(self, corpus: str, question: str, settings: Mapping[str, Any]) -> list[str]:
        """The command line for a corpus, and a question that its documents answer.

        Raises:
            ConfigurationError: Its settings cannot be audited.
        """
        return list(self.command(corpus, question, self._fresh(corpus), settings))

    async def run(self, job: Job, command: Sequence[str]) -> dict[str, Any]:
        """Audit a corpus until it has ended or is stopped.

        Raises:
            DPICLError: No report came out.
        """
        job.at("Auditing; this takes minutes")
        # What it says of an error is its own last line, for the owner.
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        ended = asyncio.ensure_future(process.communicate())
        try:
            while not ended.done():
                await asyncio.wait([ended], timeout=_POLL)
                job.at(job.stage)
            told, said = await ended
        except (Stopped, asyncio.CancelledError):
            process.kill()
            await ended
            raise
        return self._keep(job.corpus, told, said)

    def report(self, corpus: str) -> dict[str, Any] | None:
        """Figures and text of the last audit; None if there was none."""
        text, _, summary = self._files(corpus)
        if not (text.exists() and summary.exists()):
            return None
        figures = json.loads(summary.read_text(encoding="utf-8"))
        return {"summary": figures, "text": text.read_text(encoding="utf-8")}

    def plot(self, corpus: str) -> Path | None:
        """The plot of the last audit; None if there was none."""
        _, plot, _ = self._files(corpus)
        return plot if plot.exists() else None

    def _keep(self, corpus: str, told: bytes, said: bytes) -> dict[str, Any]:
        text, _, summary = self._files(corpus)
        try:
            figures = json.loads(told)
        except ValueError:
            figures = None
        if not isinstance(figures, dict) or not text.exists():
            lines = said.decode("utf-8", "replace").strip().splitlines()
            why = f": {lines[-1].strip()}" if lines else ""
            raise DPICLError(f"the audit ended without a report{why}")
        summary.write_text(json.dumps(figures), encoding="utf-8")
        return {"holds": figures.get("holds")}

    def _files(self, corpus: str) -> list[Path]:
        return [self.folder / corpus / name for name in _REPORT]

    def _fresh(self, corpus: str) -> Path:
        folder = self.folder / corpus
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        return folder


def audit_command(known: Sequence[str], *options: str) -> Command:
    """A command line of ``dpicl-rag audit``.

    Args:
        known: Settings that the command takes, by name.
        options: Given in any case: store, model, embedder.
    """

    def command(corpus: str, question: str, out: Path, settings: Mapping[str, Any]) -> list[str]:
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
        start = [sys.executable, "-c", _RUN, "audit", "--corpus", corpus, "--out", str(out)]
        # One word each: a question may look like an option.
        return [*start, f"--question={question}", "--json", "--quiet", *options, *given]

    return command
