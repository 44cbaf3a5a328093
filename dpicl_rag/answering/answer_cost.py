"""The cost of an answer before it is asked for: public numbers, split by what they pay for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dpicl_rag.answering.few_units import units_to_agree
from dpicl_rag.answering.plan import answer_plan, priced_search, with_agreement
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.notebook_table import notebook_table
from dpicl_rag.retrieval.search import Search


@dataclass(frozen=True, slots=True)
class AnswerCost:
    """What one answer may cost any privacy unit at most. Nothing private has a part in it.

    An answer that public knowledge proposes has the same bound: its search takes less of it, and it
    may be counted twice. One from memory costs nothing.

    Attributes:
        epsilon: The answer is (epsilon, delta)-DP.
        delta: See ``epsilon``.
        rho: The whole, zCDP.
        search_rho: For finding the units, and how many they are.
        support_rho: For the count of units that support the answer.
        agreement_rho: For counts of whole sentences, each expert's own. Only units that have a vote
            pay, where accounting is individual.
        thresholds: How many documents must say the same, about, at each of those counts.
        tokens_rho: For its words, token by token: what is left.
        token_rho: What one word costs a unit that has all of it to tell.
        individual: Whether each unit pays for what it tells, and so most units far less.
        units_to_agree: About how many units must say the same, where the utility has such a number.
        budget_left: What the ledger has left for the corpus and the caller, zCDP rho; None without
            a limit.
        calls: About how many calls a reader is asked for; None without a reader, and where only the
            documents tell.
    """

    epsilon: float
    delta: float
    rho: float
    search_rho: float
    support_rho: float
    agreement_rho: float
    thresholds: tuple[int, ...]
    tokens_rho: float
    token_rho: float
    individual: bool
    units_to_agree: int | None
    budget_left: float | None
    calls: int | None = None

    @staticmethod
    def of(
        config: PrivacyConfig,
        search: Search,
        budget_left: float | None,
        *,
        booked: bool,
        speaks: bool,
        read: bool = False,
    ) -> AnswerCost:
        """The cost with these settings, as an answer is charged. Nothing is searched.

        Args:
            config: Public settings.
            search: Finds its units.
            budget_left: See the attribute.
            booked: Whether a ledger books the answer: budgets keep a part of their delta apart.
            speaks: Whether rows of the engine can go on each by itself.
            read: Whether a reader reads the units.

        Raises:
            ConfigurationError: The settings do not fit the retriever, or cost more than the budget.
        """
        config = with_agreement(config, search.stability, speaks=speaks or read)
        price = priced_search(config, search, booked=booked).rho(config.adjacency)
        plan = answer_plan(config, search.stability, price, booked=booked)
        agreement = config.sentences * plan.ladder_rho
        return AnswerCost(
            epsilon=config.epsilon,
            delta=config.delta,
            rho=plan.rho,
            search_rho=plan.search_rho,
            support_rho=plan.support_rho,
            agreement_rho=agreement,
            thresholds=tuple(step.threshold for step in plan.ladder.steps) if plan.ladder else (),
            tokens_rho=plan.rho - plan.search_rho - plan.support_rho - agreement,
            token_rho=plan.mechanism.rho,
            individual=plan.individual,
            units_to_agree=units_to_agree(config, plan),
            budget_left=budget_left,
            calls=search.aim if read else None,
        )

    @property
    def answers_left(self) -> int | None:
        """Answers at this price that the budget surely pays for; None without a limit."""
        return None if self.budget_left is None else int(self.budget_left / self.rho)

    def rows(self) -> list[tuple[str, float, str]]:
        """Name, zCDP rho and explanation of every part, and of the whole as the last."""
        alike = "each unit for what it tells of them" if self.individual else "every unit alike"
        thresholds = " or ".join(map(str, reversed(self.thresholds)))
        agreement = ("agreement", self.agreement_rho, f"released where about {thresholds} say so")
        return [
            ("search", self.search_rho, "the units near to the question, and their number"),
            ("support", self.support_rho, "whether documents say so: one count of units"),
            *([agreement] if self.thresholds else []),
            ("words", self.tokens_rho, f"{alike}; {self.token_rho:.4g} at most for one of them"),
            ("whole", self.rho, f"epsilon {self.epsilon:g}, delta {self.delta:g}"),
        ]

    def notes(self) -> list[str]:
        """Sentences on how many units must agree, and on the budget."""
        found = []
        if self.units_to_agree is not None:
            found.append(f"about {self.units_to_agree} units must say the same")
        if self.calls is not None:
            found.append(f"about {self.calls} calls to the reader, one for each unit found")
        if self.budget_left is not None:
            many = "one answer" if self.answers_left == 1 else f"{self.answers_left} answers"
            found.append(f"the budget has rho {self.budget_left:.4g} left, {many} at this price")
        return found

    def as_dict(self) -> dict[str, Any]:
        """All numbers, for JSON."""
        return {**asdict(self), "answers_left": self.answers_left}

    def __str__(self) -> str:
        lines = [f"{name:<9}  rho {rho:<9.4g}  {what}" for name, rho, what in self.rows()]
        return "\n".join([*lines, *self.notes()])

    def _repr_html_(self) -> str:
        rows = [(name, f"rho {rho:.4g}: {what}") for name, rho, what in self.rows()]
        return notebook_table(". ".join(self.notes()), rows)
