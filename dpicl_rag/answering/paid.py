"""What a result cost: the numbers that stand beside every one of them."""

from __future__ import annotations

from typing import Protocol


class Paid(Protocol):
    """A result with its guarantee and its price."""

    @property
    def epsilon(self) -> float:
        """It is (epsilon, delta)-DP."""
        ...

    @property
    def delta(self) -> float:
        """See ``epsilon``."""
        ...

    @property
    def rho(self) -> float:
        """Rho of zCDP charged for it."""
        ...


def cost_of(result: Paid) -> dict[str, float]:
    """Its guarantee and its price by name, for JSON."""
    return {"epsilon": result.epsilon, "delta": result.delta, "rho": result.rho}
