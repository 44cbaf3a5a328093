"""The findings of an audit on one page."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, fields
from typing import Any

from dpicl_rag._packaged import optional
from dpicl_rag.auditing.attacks import AgreementAudit, ExtractionAudit
from dpicl_rag.auditing.canaries import CanaryAudit
from dpicl_rag.auditing.channels import ChannelAudit
from dpicl_rag.auditing.near_ties import AttackName, NearTieAudit
from dpicl_rag.auditing.neighbours import NeighbourAudit

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
        """Those that were run."""
        found = (getattr(self, one.name) for one in fields(self))
        return [part for part in found if part is not None]

    @property
    def whole(self) -> bool:
        """Whether every part was run."""
        return len(self.parts) == len(fields(self))

    @property
    def holds(self) -> bool:
        """Whether every part that was run stayed within the claim."""
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
        blocks = (
            f"Privacy audit: {self._verdict()}",
            self._figures(),
            self._charges(),
            self._canary(),
            self._near_ties(),
            self._agreement(),
            self._extraction(),
            self._channels(),
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
        optional("matplotlib", "eval")
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        bars = [(name, value, shade) for name, value, shade in self._bars() if value is not None]
        names, values, shades = zip(*bars, strict=True) if bars else ((), (), ())
        left.barh(names, [min(value, _TALLEST) for value in values], color=shades)
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

    def _bars(self) -> list[tuple[str, float | None, str]]:
        worst = max((one.worst_epsilon for one in self._exact), default=None)
        bound = None if self.canary is None else self.canary.lower_bound
        return [
            ("claimed", self._first("claimed_epsilon"), "0.7"),
            ("exact worst case", worst, "tab:blue"),
            ("empirical bound", bound, "tab:orange"),
        ]

    def _figures(self) -> str:
        notes = {
            "claimed": f"at delta {self._first('delta') or 0.0:g}",
            "exact worst case": f"{self._pairs} pairs of neighbours",
        }
        if self.canary is not None:
            sure, runs = self.canary.confidence, self.canary.runs
            notes["empirical bound"] = f"{sure:.0%} confidence, {runs} answers of either kind"
        names = {
            "claimed": "claimed epsilon",
            "exact worst case": "exact worst case found",
            "empirical bound": "empirical lower bound",
        }
        return "\n".join(
            f"{names[name]:<25} {value:8.3f}   {notes[name]}"
            for name, value, _ in self._bars()
            if value is not None
        )

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

    def _canary(self) -> str:
        canary = self.canary
        if canary is None:
            return ""
        return (
            f"Canary, with {canary.others} other documents: the attacker's event held in "
            f"{canary.hit_rate:.1%}\nof the answers with it and in {canary.false_rate:.1%} of "
            "those without."
        )

    def _near_ties(self) -> str:
        ties = self.near_ties
        if ties is None:
            return ""

        def used(attack: AttackName) -> str:
            found = ties.used(attack)
            return "(not tried)" if found is None else f"{found:.1%}"

        return (
            f"Near ties, with {ties.copies} copies of a text and two nearly equal labels, by the "
            "worst of all\nutilities and methods. Share of the claim that one unit more used: "
            f"{used('a newcomer')};\nwhere it joins a row that was alone: {used('a joined row')};\n"
            f"where it has rows read anew that were read elsewhere: {used('kept rows')}."
        )

    def _agreement(self) -> str:
        found = self.agreement
        if found is None:
            return ""
        shares = ", ".join(f"{units}: {share:.0%}" for units, share in found.released.items())
        return (
            f"Agreement: of {found.runs} answers each, those that gave a made-up sentence, by how "
            f"many units\nsay it (one of them shouts): {shares}.\nThe sentence of one unit comes "
            f"out with probability {found.lower_bound:.2g} at least ({found.confidence:.0%}\n"
            f"confidence); claimed is {found.delta:.2g} at most."
        )

    def _extraction(self) -> str:
        found = self.extraction
        if found is None:
            return ""
        return (
            f"Extraction: of {found.attempts} adversarial questions, private answers gave the "
            f"secret in {found.private_leaks}\nand ordinary RAG in {found.ordinary_leaks}. Longest "
            f"run of words copied: {found.private_words} private, {found.ordinary_words} ordinary."
        )

    def _channels(self) -> str:
        channels = self.channels
        if channels is None:
            return ""
        if channels.holds:
            return f"Beside the answer, none of {channels.pairs} neighbours could be told apart."
        return "\n".join(["Neighbours CAN BE TOLD APART without the answer:", *channels.found])
