"""Support of an answer by the documents: one noisy count of the experts that find it likely.

Where documents do not agree, the public model goes on by itself. The text is private all the same,
and may mislead. So one number is released beside it: how many experts find the released tokens
likely by their own documents, with Gaussian noise. Each expert's opinion is a function of its own
unit and of released tokens, so a unit that comes or goes moves the count by one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch

from dpicl_rag.answering.privacy_filters import Filter
from dpicl_rag.mechanisms.gaussian import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import DistantStep, Step

# Of 704 medical records that state a right answer 704 agree, of 264 others that are near to the
# question none (python -m benchmarks.spending). The first is the mean log-probability of a token,
# the second what an expert adds to the bare model in all.
_LIKELY, _NEWS = -1.0, 3.0
_LINE = 3.0  # sigmas: noise alone passes 13 times in 10,000

# An expert speaks against a token where it is that unlikely, and so much less likely than to the
# bare model (benchmarks/README.md, "What is marked as supported").
_AGAINST = -2.0


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

    def hear(self, step: Step, token: int) -> None:
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
class Support:
    """The count's noise and its price. Public.

    Attributes:
        noise: On the count.
        sensitivity: By how much one unit moves the count at most.
    """

    noise: DiscreteGaussian
    sensitivity: int

    @staticmethod
    def within(rho: float, sensitivity: int) -> Support:
        """The least noise that a zCDP rho pays for."""
        # Rounded up, so that the price is not above rho.
        sigma = sensitivity / math.sqrt(2 * rho) * (1 + 1e-12)
        return Support(DiscreteGaussian(sigma), sensitivity)

    @property
    def rho(self) -> float:
        """Rho of zCDP that the count costs any unit at most."""
        return self.sensitivity**2 * self.noise.rho

    def up_to(self, line: float) -> Support:
        """The same count with as much noise as such a line allows, and so at its least price.

        Args:
            line: Public.
        """
        sigma = max(self.noise.sigma, line / _LINE)
        return Support(DiscreteGaussian(sigma), self.sensitivity)

    @property
    def line(self) -> float:
        """The count that noise alone hardly passes."""
        return _LINE * self.noise.sigma

    def decide(
        self, agreeing: torch.Tensor, spend: Filter, randomness: Randomness, *, line: float = 0.0
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
