"""Support of an answer by the documents: one noisy count of the experts that find it likely.

Where documents do not agree, the public model goes on by itself. The text is private all the same,
and may mislead. So one number is released beside it: how many experts find the released tokens
likely by their own documents, with Gaussian noise. Each expert's opinion is a function of its own
unit and of released tokens, so a unit that comes or goes moves the count by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from dpicl_rag.answering.proposals import Proposal
from dpicl_rag.language_models.base import BlockRows, GrowingRows, SpeakingRows
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.privacy_filters import PrivacyFilter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import DistantStep, Step
from dpicl_rag.retrieval.base import NoisyCount

# Of 704 medical records that state a right answer 704 agree, of 264 others that are near to the
# question none (python -m benchmarks.spending). The first is the mean log-probability of a token,
# the second what an expert adds to the bare model in all.
_LIKELY, _NEWS = -1.0, 3.0
_LINE = 3.0  # sigmas: noise alone passes 13 times in 10,000
_LINE_AGAIN = 2.0  # and 2 times in 100, of what documents agreed on when it was released

# An expert speaks against a token where it is that unlikely, and so much less likely than to the
# bare model (benchmarks/README.md, "What is marked as supported").
_AGAINST = -2.0

_MOST = 0.5  # of the units found must support a proposal, as far as their number is known
_NAMING = 0.3  # must name by themselves what it does, which none does that knows nothing of it
_PLACES = 16  # are read at once: what many experts say at many places is large

Naming = Callable[[SpeakingRows], torch.Tensor]
"""Experts that name by themselves what is proposed: bool [n]. Private."""

Stating = Callable[[str], torch.Tensor]
"""Experts whose documents have what a released text brings in: bool [n]. Private."""


def supports(own: float, tokens: int, bare: Callable[[], float]) -> bool:
    """True of an expert that supports an answer: it finds it likely, and adds to the bare model.

    Args:
        own: Log-probability of the answer to the expert.
        tokens: Of the answer; nothing has no support.
        bare: Log-probability of it to the bare model; asked where it matters alone.
    """
    return tokens > 0 and own / tokens > _LIKELY and own - bare() > _NEWS


def speaks_against(step: Step, token: int, bare: float) -> torch.Tensor:
    """Experts whose documents say something else here: bool [n].

    Args:
        step: What the token would be drawn from.
        token: The token.
        bare: Its log-probability to the bare model.
    """
    own = step.log_probs(token).cpu()
    return (own < _AGAINST) & (own - bare < _AGAINST)


class Witness:
    """Likelihoods of the released tokens under each expert, and under the bare model. Private."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._experts: torch.Tensor | None = None
        self._later: deque[Callable[[], torch.Tensor]] = deque()
        self._public = 0.0

    def __repr__(self) -> str:
        return "Witness(<private>)"

    def record(self, step: Step, token: int) -> None:
        """Note what was released.

        Args:
            step: What the token was drawn from.
            token: The token.
        """
        if isinstance(step, DistantStep):
            self._later.append(step.log_probs_later(token))
        else:
            self._add(step.log_probs(token))
        self._public += float(step.public[token])
        self.tokens.append(token)

    def agreeing(self, public: float | None = None) -> torch.Tensor:
        """Experts that support the released tokens: bool [n].

        Args:
            public: Log-probability of the tokens to the bare model, where the public row of the
                steps knew more than that.
        """
        while self._later:
            self._add(self._later.popleft()())
        assert self._experts is not None
        bare = self._public if public is None else public
        likely = self._experts / len(self.tokens) > _LIKELY
        return likely & (self._experts - bare > _NEWS)

    def _add(self, own: torch.Tensor) -> None:
        own = own.cpu()
        self._experts = own if self._experts is None else self._experts + own


@dataclass(frozen=True, slots=True)
class SupportCount:
    """The noise and the price of a count of experts. Public.

    Attributes:
        noise: On the count.
        sensitivity: By how much one unit moves the count at most.
        sigmas: Of the noise, which a count must be above.
    """

    noise: DiscreteGaussian
    sensitivity: int
    sigmas: float = _LINE

    @staticmethod
    def within(rho: float, sensitivity: int, *, fine: bool = False) -> SupportCount:
        """The least noise that a zCDP rho pays for; see `DiscreteGaussian`."""
        return SupportCount(DiscreteGaussian.within(rho, sensitivity, fine=fine), sensitivity)

    @property
    def rho(self) -> float:
        """Rho of zCDP that the count costs any unit at most."""
        return self.sensitivity**2 * self.noise.rho

    def up_to(self, line: float) -> SupportCount:
        """The same count with as much noise as such a line allows, and so at its least price.

        Args:
            line: Public.
        """
        sigma = max(self.noise.sigma, line / self.sigmas)
        return replace(self, noise=DiscreteGaussian(sigma, fine=self.noise.fine))

    @property
    def line(self) -> float:
        """The count that noise alone hardly passes."""
        return self.sigmas * self.noise.sigma

    def passes(
        self,
        agreeing: torch.Tensor,
        spend: PrivacyFilter,
        randomness: Randomness,
        *,
        line: float = 0.0,
    ) -> bool:
        """Pay for the count, draw it, and say whether it passes the public line.

        Args:
            agreeing: Which experts support the answer, bool [n]. Private.
            spend: Pays, and says which experts can.
            randomness: Where the noise comes from.
            line: A higher line than that of the noise. Public.
        """
        counted = spend.pay_aside(self.rho, agreeing)
        noisy = int(counted.sum()) + self.noise.draw(randomness)
        return noisy > max(self.line, line)


class Support:
    """The support of one answer by the documents: what they say of it, and how that is counted.

    A proposal is put to them whole, before any token is drawn. Tokens that are drawn are recorded
    one by one, and counted when the last one is there.

    Args:
        count: The count, at its highest price.
        spend: Pays for it.
        randomness: Where its noise comes from.
        proposal: What public knowledge answers by itself, if it does.
        found: Released number of units that were found, if any.
        bare: Log-probability of tokens to the bare model, where the public row knows more than
            that: support is what documents add to the model, not to what was known before.
        silent: Whether experts say so themselves where their documents do not tell: those who
            support a proposal then need not be most of the units found.
        stating: Those without it do not support what was drawn, however likely they find it.

    Attributes:
        proposal: See above.
        confirmed: Whether the documents confirmed it. Public.
    """

    def __init__(
        self,
        count: SupportCount,
        spend: PrivacyFilter,
        randomness: Randomness,
        *,
        proposal: Proposal | None = None,
        found: NoisyCount | None = None,
        bare: Callable[[Sequence[int]], float] | None = None,
        silent: bool = False,
        stating: Stating | None = None,
    ) -> None:
        self._silent = silent
        self._stating = stating
        self.proposal = proposal
        self.confirmed = False
        self._count = count
        self._found = found
        self._spend = spend
        self._randomness = randomness
        self._bare = bare
        self._witness = Witness()

    def __repr__(self) -> str:
        return "Support(<private>)"

    def confirms(self, rows: GrowingRows, naming: Naming | None = None) -> bool:
        """Confirmation of the proposal by documents; without it rows stand where they stood before.

        Args:
            rows: The public row and the experts, nothing appended yet.
            naming: Which experts name what the proposal does; where it has names and numbers.
        """
        if self.proposal is None or not isinstance(rows, BlockRows):
            return False
        if naming is None:
            agreeing, most = _confirming(rows, self.proposal), _MOST
        else:
            assert isinstance(rows, SpeakingRows)
            agreeing, most = naming(rows), _NAMING
        # Those who support something else may be many too.
        count, found = self._count, self._found
        if self.proposal.counted:
            count = replace(count, sigmas=_LINE_AGAIN)
        if self._silent:
            line = count.line
        else:
            line = 2 * count.line if found is None else most * found.low
            count = count if found is None else count.up_to(line)
        self.confirmed = count.passes(agreeing, self._spend, self._randomness, line=line)
        if not self.confirmed and naming is None:
            rows.rewind(len(self.proposal.suffix) + len(self.proposal.tokens) - 1)
        return self.confirmed

    def record(self, step: Step, token: int) -> None:
        """Note a token that was drawn, see `Witness.record`."""
        self._witness.record(step, token)

    def decide(self, tokens: int, text: str) -> bool:
        """Support of what was released by documents: of their proposal, or by a count.

        Args:
            tokens: How many were released. Nothing has no support, and no price.
            text: What they say.
        """
        if self.confirmed or not tokens:
            return self.confirmed
        bare = None if self._bare is None else self._bare(self._witness.tokens)
        agreeing, stating = self._witness.agreeing(bare), self._stating
        if stating is not None:
            agreeing &= stating(text)
        return self._count.passes(agreeing, self._spend, self._randomness)

    def forget(self) -> None:
        """Let go of the documents: an ended answer keeps none."""
        self._stating = None


def _confirming(rows: BlockRows, proposal: Proposal) -> torch.Tensor:
    """Experts that support every word of a proposal: bool [n]."""
    tokens, bare = proposal.tokens, proposal.bare
    witness, against = Witness(), torch.zeros(1, dtype=torch.bool)
    for start in range(0, len(tokens), _PLACES):
        places = range(start, min(start + _PLACES, len(tokens)))
        before = proposal.suffix if start == 0 else tokens[start - 1 : start]
        steps = rows.extend_each((*before, *tokens[start : places[-1]]), len(places))
        for step, at in zip(steps, places, strict=True):
            witness.record(step, tokens[at])
            # Where an answer ends is no matter of fact.
            if at + 1 < len(tokens):
                against = against | speaks_against(step, tokens[at], bare[at])
    return witness.agreeing(sum(bare)) & ~against
