"""One page on what an audit found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpicl_rag._packaged import optional
from dpicl_rag.auditing.attacks import AttackName
from dpicl_rag.auditing.canaries import CanaryAudit
from dpicl_rag.auditing.extraction import ExtractionAudit
from dpicl_rag.auditing.near_ties import NearTieAudit
from dpicl_rag.auditing.neighbours import NeighbourAudit
from dpicl_rag.auditing.observed import ChannelAudit

_TALLEST = 1e3  # what is infinite is drawn this high


@dataclass(frozen=True, slots=True, repr=False)
class AuditReport:
    """Findings of all audits of one private path. As private as the documents it is about.

    Attributes:
        documents: Exact audit on a sample of the corpus.
        synthetic: Exact audit with made-up worst-case experts.
        canary: Empirical lower bound.
        extraction: Verbatim extraction attack.
        channels: What neighbours can be told apart by, beside the answer.
        near_ties: Planted texts near a tie, and units that might move the rows of others.
    """

    documents: NeighbourAudit
    synthetic: NeighbourAudit
    canary: CanaryAudit
    extraction: ExtractionAudit
    channels: ChannelAudit
    near_ties: NearTieAudit

    @property
    def claimed(self) -> float:
        """Claimed epsilon."""
        return self.documents.claimed_epsilon

    @property
    def worst(self) -> float:
        """Largest exact epsilon that was found."""
        return max(self.documents.worst_epsilon, self.synthetic.worst_epsilon)

    @property
    def holds(self) -> bool:
        """Whether every audit stayed within the claim."""
        return (
            self.documents.holds
            and self.synthetic.holds
            and self.canary.holds
            and self.extraction.holds
            and self.channels.holds
            and self.near_ties.holds
        )

    def summary(self) -> dict[str, Any]:
        """The figures by name, for JSON; None where one has no bound."""
        figures = {
            "holds": self.holds,
            "claimed_epsilon": self.claimed,
            "delta": self.documents.delta,
            "exact_worst_case": self.worst,
            "empirical_lower_bound": self.canary.lower_bound,
            "confidence": self.canary.confidence,
            "runs": self.canary.runs,
            "exact_on_documents": self.documents.worst_epsilon,
            "exact_on_worst_experts": self.synthetic.worst_epsilon,
            "charge_used_by_documents": self.documents.usage,
            "charge_used_by_worst_experts": self.synthetic.usage,
            "neighbours": self.documents.pairs + self.synthetic.pairs,
            "extraction_attempts": self.extraction.attempts,
            "private_leaks": self.extraction.private_leaks,
            "ordinary_leaks": self.extraction.ordinary_leaks,
            "channels_compared": self.channels.pairs,
            "channels_that_differ": list(self.channels.found),
            "near_tie_claim_used": self.near_ties.worst.usage,
            "near_tie_worst": str(self.near_ties.worst),
            "joined_row_claim_used": self.near_ties.used("a joined row"),
            "kept_rows_claim_used": self.near_ties.used("kept rows"),
        }
        return {name: None if value == math.inf else value for name, value in figures.items()}

    def text(self) -> str:
        """The report as plain text, one page."""
        canary, extraction, ties = self.canary, self.extraction, self.near_ties
        verdict = "within the claim" if self.holds else "THE CLAIM DOES NOT HOLD"
        return f"""Privacy audit: {verdict}

claimed epsilon           {self.claimed:8.3f}   at delta {self.documents.delta:g}
exact worst case found    {self.worst:8.3f}   {self._pairs()} pairs of neighbours
empirical lower bound     {canary.lower_bound:8.3f}   {canary.confidence:.0%} confidence, \
{canary.runs} answers of either kind

Share of the charged rho that was used
  units of the corpus     {self.documents.usage:8.1%}
  worst-case experts      {self.synthetic.usage:8.1%}   above 100% a charge is too small

Canary, with {canary.others} other documents: the attacker's event held in {canary.hit_rate:.1%}
of the answers with it and in {canary.false_rate:.1%} of those without.

Near ties, with {ties.copies} copies of a text and two nearly equal labels, by the worst of all
utilities and methods. Share of the claim that one unit more used: {self._used("a newcomer")};
where it joins a row that was alone: {self._used("a joined row")};
where it has rows read anew that were read elsewhere: {self._used("kept rows")}.

Extraction: of {extraction.attempts} adversarial questions, private answers gave the secret in \
{extraction.private_leaks}
and ordinary RAG in {extraction.ordinary_leaks}. Longest run of words copied: \
{extraction.private_words} private, {extraction.ordinary_words} ordinary.

{self._channels()}

The exact figures are of the outputs that were enumerated and can only grow with more of them.
They were computed from the documents without noise: keep this report where the documents are.
"""

    def save(self, folder: Path) -> list[Path]:
        """Write ``audit.txt`` and ``audit.png``.

        Args:
            folder: Made if it is not there.

        Returns:
            The files.

        Raises:
            MissingDependencyError: matplotlib is not installed; nothing was written.
        """
        figure = self._figure()
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / "audit.txt", folder / "audit.png"]
        files[0].write_text(self.text(), encoding="utf-8")
        figure.savefig(files[1], dpi=120)
        return files

    def _channels(self) -> str:
        channels = self.channels
        if channels.holds:
            return f"Beside the answer, none of {channels.pairs} neighbours could be told apart."
        return "\n".join(["Neighbours CAN BE TOLD APART without the answer:", *channels.found])

    def _used(self, attack: AttackName) -> str:
        found = self.near_ties.used(attack)
        return "(not tried)" if found is None else f"{found:.1%}"

    def _pairs(self) -> int:
        return self.documents.pairs + self.synthetic.pairs

    def _figure(self) -> Any:
        optional("matplotlib", "eval")
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        names = ["claimed", "exact worst case", "empirical bound"]
        values = [self.claimed, self.worst, self.canary.lower_bound]
        left.barh(
            names,
            [min(value, _TALLEST) for value in values],
            color=["0.7", "tab:blue", "tab:orange"],
        )
        left.invert_yaxis()
        left.set_xlabel("epsilon")
        for audit, name in ((self.synthetic, "worst-case experts"), (self.documents, "documents")):
            steps = range(1, len(audit.steps) + 1)
            right.plot(steps, [min(step, _TALLEST) for step in audit.steps], marker="o", label=name)
        right.set_xlabel("token")
        right.set_ylabel("realised range (nats)")
        right.legend()
        figure.suptitle("Privacy audit: " + ("holds" if self.holds else "does not hold"))
        return figure
