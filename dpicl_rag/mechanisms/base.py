"""The interface of mechanisms: a price, and a draw from a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NoReturn, Protocol

import torch

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.privacy_filters import PrivacyFilter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import Step


class Charged(Protocol):
    """A release that was calibrated to a budget beforehand, from public numbers alone."""

    @property
    def rho(self) -> float:
        """Rho of zCDP of one draw, in its worst case, for every unit."""
        ...


class Mechanism(Charged, Protocol):
    """Draws one of several candidates."""

    @property
    def delta(self) -> float:
        """Delta of one draw and of the search before it; 0 where both are purely private."""
        ...

    def draw(self, step: Step, spend: PrivacyFilter, randomness: Randomness) -> int:
        """Pay for one draw, then draw.

        Args:
            step: What the engine computed.
            spend: Pays, and says how much each expert may count.
            randomness: Where the coins come from.

        Returns:
            Index of a candidate. It may be released: it is paid for.
        """
        ...

    def distribution(self, step: Step) -> torch.Tensor:
        """Exact output distribution where every expert counts in full, float64 [candidates]."""
        ...


class ChargedAlike(ABC):
    """Draws from the exact distribution. Only a charge that is the same for all units is sound."""

    __slots__ = ()

    @abstractmethod
    def distribution(self, step: Step) -> torch.Tensor:
        """See ``Mechanism``."""

    def draw(self, step: Step, spend: PrivacyFilter, randomness: Randomness) -> int:
        """See ``Mechanism``.

        Raises:
            ConfigurationError: The filter charges each unit for its own range.
        """
        spend.weigh(no_ranges)
        log_probs = torch.log(self.distribution(step))
        spend.pay()
        return randomness.draw(log_probs)


def no_ranges() -> NoReturn:
    """The argument of `PrivacyFilter.weigh` for a mechanism that has no charge of a unit's own.

    Raises:
        ConfigurationError: The filter asks.
    """
    raise ConfigurationError(
        "this mechanism is charged the same for every unit; use accounting='fixed'"
    )
