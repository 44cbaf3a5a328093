"""Rows that are perturbed anew for each query.

LDP-TabICL (Carey et al. 2024) perturbs once: rows that were reported (`local_privacy`) may be drawn
from again as often as one likes. Here a curator, who is trusted, draws k of the n private rows in
secret for every query, and perturbs these anew.

**Charge**, for a row that is replaced (n is public then): one query is k reports of a secret
sample of k in n, and costs ``log(1 + k/n (e^report - 1))`` (Balle, Barthe, Gaboardi 2018, Theorem
9). Fresh noise is a fresh release, so the charge is that once for every query. To charge the report
once, however many queries there are, is what a test of this module's must find wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpicl_rag import _validate
from dpicl_rag.accounting import zcdp
from dpicl_rag.accounting.prices import Price, PricedPlan
from dpicl_rag.accounting.pure_dp import epsilon_on_sample
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.tabular.charge import paid
from dpicl_rag.tabular.local_privacy import LocalMethod, RowBits, local_report, row_of_bits
from dpicl_rag.tabular.schema import Row, Schema

if TYPE_CHECKING:
    from dpicl_rag.ledger import Ledger


@dataclass(frozen=True, slots=True)
class FreshCharge(PricedPlan):
    """The cost of k rows perturbed anew for each query. Public, under replace-one adjacency.

    Attributes:
        epsilon: All queries together are epsilon-DP for every row.
        k: Rows that one query shows.
        queries: How many there will be.
        people: n, how many rows there are.

    Raises:
        ConfigurationError: A number is outside its range.
    """

    epsilon: float
    k: int
    queries: int
    people: int

    def __post_init__(self) -> None:
        _validate.positive("epsilon", self.epsilon)
        for name in ("k", "queries", "people"):
            _validate.count(name, getattr(self, name))
        if self.k > self.people:
            raise ConfigurationError("k is at most the number of rows")

    @property
    def query_epsilon(self) -> float:
        """Of one query; the charge is the sum over all of them."""
        share = self.epsilon / self.queries
        above = Fraction(share) * self.queries > Fraction(self.epsilon)
        return math.nextafter(share, 0) if above else share

    @property
    def rate(self) -> float:
        """Share of the rows that one query shows, rounded up."""
        share = self.k / self.people
        return math.nextafter(share, 1) if Fraction(share) * self.people < self.k else share

    @property
    def report_epsilon(self) -> float:
        """Of one row's report, once it is drawn."""
        return epsilon_on_sample(self.query_epsilon, self.rate)

    @property
    def query_rho(self) -> float:
        """The charge of one query in a ledger, zCDP rho."""
        return zcdp(self.query_epsilon)

    @property
    def rho(self) -> float:
        """The charge of all queries, zCDP rho."""
        return self.queries * self.query_rho

    @property
    def delta(self) -> float:
        """Zero: reports are purely private."""
        return 0.0

    @property
    def parts(self) -> tuple[Price, ...]:
        """The queries, each of them paid for by itself."""
        what = f"{self.queries} queries, each at {self.query_rho:.4g}"
        return (Price("queries", self.rho, what),)


class FreshRows:
    """Rows for one query after the other. Neighbours are tables of as many rows: n is public.

    Args:
        rows: Private, one of each person. A row without a listed label is reported with a random
            one; what is no row at all counts as an empty one.
        schema: Public.
        epsilon: Of all queries together.
        k: Rows that one query shows.
        queries: How many there will be.
        method: ``bits`` or ``one-hot``.
        ledger: Keeps the budget of ``corpus``; each query is paid for by itself.
        corpus: Whose budget.
        randomness: Where samples and reports come from.

    Raises:
        ConfigurationError: A setting is outside its range, or the method has no bits.
    """

    def __init__(
        self,
        rows: Iterable[Row],
        schema: Schema,
        epsilon: float,
        *,
        k: int,
        queries: int,
        method: LocalMethod = "bits",
        ledger: Ledger | None = None,
        corpus: str = "default",
        randomness: Randomness | None = None,
    ) -> None:
        if method not in ("bits", "one-hot"):
            raise ConfigurationError("method must be bits or one-hot")
        own: list[object] = list(rows)
        self._rows: list[Row] = [row if isinstance(row, Mapping) else {} for row in own]
        self.charge = FreshCharge(epsilon, k, queries, len(self._rows))
        self._layout = RowBits(schema, method == "one-hot")
        self._method: LocalMethod = method
        self._ledger, self._corpus = ledger, corpus
        self._coins = randomness or Randomness()
        self._asked = 0

    def __repr__(self) -> str:
        return f"FreshRows({self.charge!r})"

    def for_query(self) -> list[dict[str, Any]]:
        """The k rows of the next query, with labels. Paid before anybody sees them.

        Raises:
            BudgetExceededError: The ledger has not as much left.
            ConfigurationError: All queries of the charge were asked.
        """
        if self._asked == self.charge.queries:
            raise ConfigurationError(
                f"all {self._asked} queries are asked; others cost a charge of their own"
            )
        shown = paid(self._ledger, self._corpus, self.charge.query_rho, self._drawn)
        self._asked += 1
        return shown

    def _drawn(self) -> list[dict[str, Any]]:
        schema, epsilon = self._layout.schema, self.charge.report_epsilon
        shown = []
        for row in self._sampled():
            report = local_report(row, schema, epsilon, method=self._method, randomness=self._coins)
            shown.append(row_of_bits(report.bits, self._layout))
        return shown

    def _sampled(self) -> list[Row]:
        """Rows of one query: each set of k, in each order, is as likely as any other."""
        left = list(range(len(self._rows)))
        drawn = [left.pop(self._coins.below(len(left))) for _ in range(self.charge.k)]
        return [self._rows[at] for at in drawn]
