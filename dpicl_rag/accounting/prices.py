"""Prices of private releases: the parts of a plan, told before anything is paid, and paid."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dpicl_rag.results import notebook_table


@dataclass(frozen=True, slots=True)
class Price:
    """A part of a plan, and the most that it costs any unit. Public.

    Attributes:
        name: Of the part, such as ``search``, ``words`` or ``counts``.
        rho: zCDP; None where it has no charge in it, as samples have none.
        what: What it pays for, for people.
        delta: What its thresholds cost.
    """

    name: str
    rho: float | None
    what: str
    delta: float = 0.0


class PricedPlan:
    """Public numbers of a private release, fixed before anything private is looked at.

    What it prints is what a run pays from.
    """

    __slots__ = ()

    # For types alone: a field of a dataclass would take a property of its base for its default.
    if TYPE_CHECKING:

        @property
        def epsilon(self) -> float:
            """The whole is (epsilon, delta)-DP for every privacy unit."""

        @property
        def delta(self) -> float:
            """Delta of the whole."""

        @property
        def rho(self) -> float | None:
            """The most that all parts cost any unit, zCDP; None where they have no such charge."""

        @property
        def parts(self) -> tuple[Price, ...]:
            """Parts, in the order of paying; the run pays these and no others."""

    def price(self, name: str) -> float:
        """The most that a part costs any unit, zCDP rho; 0 where there is no such part."""
        return next((part.rho or 0.0 for part in self.parts if part.name == name), 0.0)

    def numbers(self) -> dict[str, Any]:
        """Numbers beside the price, by name: noise, sizes and times. Public."""
        return {}

    def notes(self) -> list[str]:
        """Sentences under the prices, for people."""
        numbers = {name: number for name, number in self.numbers().items() if number is not None}
        return [f"{name.replace('_', ' ')}: {_short(number)}" for name, number in numbers.items()]

    def rows(self) -> list[tuple[str, str, str]]:
        """Name, zCDP rho and explanation of every part, and of the whole as the last."""
        whole = Price("whole", self.rho, f"epsilon {self.epsilon:g}, delta {self.delta:g}")
        return [
            (part.name, "none" if part.rho is None else _short(part.rho), part.what)
            for part in (*self.parts, whole)
        ]

    @property
    def cost(self) -> dict[str, float | None]:
        """The price of the whole."""
        return {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}

    def as_dict(self) -> dict[str, Any]:
        """All numbers, for JSON."""
        return {**self.cost, **self.numbers(), "parts": [asdict(part) for part in self.parts]}

    def __str__(self) -> str:
        lines = [f"{name:<9}  rho {rho:<9}  {what}" for name, rho, what in self.rows()]
        return "\n".join([*lines, *self.notes()])

    def _repr_html_(self) -> str:
        rows = [(name, f"rho {rho}: {what}") for name, rho, what in self.rows()]
        return notebook_table(". ".join(self.notes()), rows)


def _short(number: object) -> str:
    return f"{number:.4g}" if isinstance(number, float) else str(number)
