"""The findings of an audit on one page, and their folder, which grows with each part of it."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from dpicl_rag._packaged import optional
from dpicl_rag.auditing.attacks import AgreementAudit, ExtractionAudit
from dpicl_rag.auditing.canaries import CanaryAudit
from dpicl_rag.auditing.channels import ChannelAudit
from dpicl_rag.auditing.near_ties import NearTieAudit
from dpicl_rag.auditing.neighbours import NeighbourAudit
from dpicl_rag.documents import Document
from dpicl_rag.files.run_files import write_whole

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


AuditPart = (
    NeighbourAudit | CanaryAudit | ExtractionAudit | ChannelAudit | NearTieAudit | AgreementAudit
)

_TALLEST = 1e3  # what is infinite is drawn this high


@dataclass(frozen=True, slots=True, repr=False)
class AuditReport:
    """Findings of all audits of one private path. As private as the documents it is about.

    A part that was not run is None. Of such a report nothing is said but what was run.

    Attributes:
        documents: Exact audit on a sample of the corpus.
        synthetic: Exact audit with made-up worst-case experts.
        canary: Empirical lower bound.
        extraction: Verbatim extraction attack.
        channels: Differences of neighbours beside the answer.
        near_ties: Planted texts near a tie, and units that might move the rows of others.
        agreement: Units that say what they want to be said.
    """

    documents: NeighbourAudit | None = None
    synthetic: NeighbourAudit | None = None
    canary: CanaryAudit | None = None
    extraction: ExtractionAudit | None = None
    channels: ChannelAudit | None = None
    near_ties: NearTieAudit | None = None
    agreement: AgreementAudit | None = None

    @property
    def parts(self) -> list[AuditPart]:
        """Parts that were run."""
        found = (getattr(self, one.name) for one in fields(self))
        return [part for part in found if part is not None]

    @property
    def whole(self) -> bool:
        """Completeness: every part was run."""
        return len(self.parts) == len(fields(self))

    @property
    def holds(self) -> bool:
        """Verdict: every part that was run stayed within the claim."""
        return all(part.holds for part in self.parts)

    def summary(self) -> dict[str, Any]:
        """The figures by name, for JSON; None where one has no bound or was not looked for."""
        documents, synthetic, canary = self.documents, self.synthetic, self.canary
        extraction, channels, ties = self.extraction, self.channels, self.near_ties
        agreement = self.agreement
        figures = {
            "whole": self.whole,
            "holds": self.holds,
            "claimed_epsilon": self._first("claimed_epsilon"),
            "delta": self._first("delta"),
            "exact_worst_case": max((one.worst_epsilon for one in self._exact), default=None),
            "empirical_lower_bound": canary and canary.lower_bound,
            "confidence": canary and canary.confidence,
            "runs": canary and canary.runs,
            "exact_on_documents": documents and documents.worst_epsilon,
            "exact_on_worst_experts": synthetic and synthetic.worst_epsilon,
            "charge_used_by_documents": documents and documents.usage,
            "charge_used_by_worst_experts": synthetic and synthetic.usage,
            "neighbours": self._pairs,
            "extraction_attempts": extraction and extraction.attempts,
            "private_leaks": extraction and extraction.private_leaks,
            "ordinary_leaks": extraction and extraction.ordinary_leaks,
            "channels_compared": channels and channels.pairs,
            "channels_that_differ": channels and list(channels.found),
            "near_tie_claim_used": ties and ties.worst.usage,
            "near_tie_worst": ties and str(ties.worst),
            "joined_row_claim_used": ties and ties.used("a joined row"),
            "kept_rows_claim_used": ties and ties.used("kept rows"),
            "agreement_lower_bound": agreement and agreement.lower_bound,
            "agreement_delta": agreement and agreement.delta,
            "agreement_of_colluding_units": agreement
            and {str(units): share for units, share in agreement.released.items()},
        }
        return {name: None if value == math.inf else value for name, value in figures.items()}

    def text(self) -> str:
        """The report as plain text, at most a page."""
        figures = (
            f"{name:<25} {value:8.3f}   {note}" for _, name, value, note, _ in self._figures()
        )
        others = (self.canary, self.near_ties, self.agreement, self.extraction, self.channels)
        blocks = (
            f"Privacy audit: {self._verdict()}",
            "\n".join(figures),
            self._charges(),
            *(audit.text() for audit in others if audit is not None),
            "The exact figures are of the outputs that were enumerated and can only grow with more "
            "of them.\nThey were computed from the documents without noise: keep this report where "
            "the documents are.",
        )
        return "\n\n".join(filter(None, blocks)) + "\n"

    def plot(self) -> bytes:
        """The figures as a PNG image.

        Raises:
            MissingDependencyError: matplotlib is not installed.
        """
        optional("matplotlib", "dpicl-rag[plots]")
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        for name, _, value, _, colour in self._figures():
            left.barh(name, min(value, _TALLEST), color=colour)
        left.invert_yaxis()
        left.set_xlabel("epsilon")
        for audit, name in ((self.synthetic, "worst-case experts"), (self.documents, "documents")):
            if audit is None:
                continue
            steps = range(1, len(audit.steps) + 1)
            right.plot(steps, [min(step, _TALLEST) for step in audit.steps], marker="o", label=name)
            right.legend()
        right.set_xlabel("token")
        right.set_ylabel("realised range (nats)")
        figure.suptitle(f"Privacy audit: {self._verdict()}")
        drawn = io.BytesIO()
        figure.savefig(drawn, dpi=120, format="png")
        return drawn.getvalue()

    def _first(self, name: str) -> Any:
        """The common value of the parts that claim something."""
        claims = (self.documents, self.synthetic, self.canary)
        return next((getattr(one, name) for one in claims if one is not None), None)

    @property
    def _exact(self) -> list[NeighbourAudit]:
        return [one for one in (self.documents, self.synthetic) if one is not None]

    @property
    def _pairs(self) -> int:
        return sum(one.pairs for one in self._exact)

    def _verdict(self) -> str:
        run = f"{len(self.parts)} of {len(fields(self))} parts were run"
        if not self.holds:
            return "THE CLAIM DOES NOT HOLD" + ("" if self.whole else f" (unfinished, {run})")
        return "within the claim" if self.whole else f"unfinished, {run}"

    def _figures(self) -> list[tuple[str, str, float, str, str]]:
        """Short name, name, value, note and colour of each epsilon that is known."""
        claimed, at = self._first("claimed_epsilon"), f"at delta {self._first('delta') or 0.0:g}"
        worst = max((one.worst_epsilon for one in self._exact), default=None)
        pairs = f"{self._pairs} pairs of neighbours"
        bound, runs = None, ""
        if self.canary is not None:
            bound = self.canary.lower_bound
            sure = f"{self.canary.confidence:.0%} confidence"
            runs = f"{sure}, {self.canary.runs} answers of either kind"
        figures = (
            ("claimed", "claimed epsilon", claimed, at, "0.7"),
            ("exact worst case", "exact worst case found", worst, pairs, "tab:blue"),
            ("empirical bound", "empirical lower bound", bound, runs, "tab:orange"),
        )
        return [
            (short, name, value, note, colour)
            for short, name, value, note, colour in figures
            if value is not None
        ]

    def _charges(self) -> str:
        lines = ["Share of the charged rho that was used"]
        if self.documents is not None:
            lines.append(f"  units of the corpus     {self.documents.usage:8.1%}")
        if self.synthetic is not None:
            lines.append(f"  worst-case experts      {self.synthetic.usage:8.1%}")
        if not lines[1:]:
            return ""
        lines[-1] += "   above 100% a charge is too small"
        return "\n".join(lines)
