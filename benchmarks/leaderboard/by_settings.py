"""Methods that are settings of this library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.leaderboard.method import Asked, Method, Setting, Told, budget_beside_search
from dpicl_rag import PrivateContextLLM
from dpicl_rag.accounting import DIRECT, Budget, rho_to_epsilon
from dpicl_rag.answering.answer_plan import answer_plan
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.mechanisms.selection import Mechanism
from dpicl_rag.results import UNSUPPORTED

Needed = Callable[[Setting, float], int | None]


@dataclass(frozen=True)
class Defaults(Method):
    """The library itself.

    Attributes:
        name: See `Method`.
        source: See `Method`.
        settings: Other than the defaults.
        needs: See `Method.needed`.
    """

    name: str
    source: str
    settings: dict[str, Any]
    needs: Needed = lambda setting, epsilon: None

    def charge(self, setting: Setting, epsilon: float, delta: float) -> float:
        """What its plan says: tests/unit/test_exact_*.py compare it with neighbouring corpora."""
        return epsilon

    def needed(self, setting: Setting, epsilon: float) -> int | None:
        """See `Method.needed`."""
        return self.needs(setting, epsilon)

    def answer(self, setting: Setting, asked: Asked) -> Told:
        """See `Method.answer`."""
        llm = PrivateContextLLM(
            setting.model,
            template=setting.template,
            randomness=asked.randomness,
            **self.given(setting, asked.epsilon, asked.delta),
        )
        answer = llm.answer(asked.question, asked.documents)
        text = "" if answer.text == UNSUPPORTED else answer.text
        # Where nobody asks whether documents support it, a method stands by what it says.
        supported = bool(text) if answer.supported is None else answer.supported
        return Told(text, supported)

    def given(self, setting: Setting, epsilon: float, delta: float) -> dict[str, Any]:
        """All settings of an answer."""
        return {
            "epsilon": epsilon,
            "delta": delta,
            "max_tokens": setting.max_tokens,
            "stop": setting.stop,
            "units": setting.units,
            **self.settings,
        }


@dataclass(frozen=True)
class TokenByToken(Defaults):
    """A published method whose every token has the same price, as in its paper.

    Attributes:
        shares: Settings, for a budget and the number of tokens that share it.
    """

    shares: Callable[[Budget, int], dict[str, Any]] = lambda budget, tokens: {}

    def charge(self, setting: Setting, epsilon: float, delta: float) -> float:
        """The search, and all tokens at the price of the mechanism that draws them."""
        search = budget_beside_search(epsilon, delta).search_rho
        tokens = setting.max_tokens * self.mechanism(setting, epsilon, delta).rho
        return rho_to_epsilon(search + tokens, delta)

    def mechanism(self, setting: Setting, epsilon: float, delta: float) -> Mechanism:
        """Draws one token."""
        config = PrivacyConfig.create(**self.given(setting, epsilon, delta))
        search = budget_beside_search(epsilon, delta).search_rho
        return answer_plan(config, DIRECT, search, 0).mechanism

    def given(self, setting: Setting, epsilon: float, delta: float) -> dict[str, Any]:
        """See `Defaults.given`."""
        budget = budget_beside_search(epsilon, delta)
        return {
            **super().given(setting, epsilon, delta),
            "accounting": "fixed",
            "agreement": "off",
            "unsupported": "ignore",
            **self.shares(budget, setting.max_tokens),
        }
