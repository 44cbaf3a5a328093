"""DP-KSA: words that enough replies have, and a text that the model writes from them."""

from __future__ import annotations

from benchmarks.leaderboard.method import (
    Asked,
    Method,
    Setting,
    Told,
    budget_beside_search,
    find,
    read_units,
)
from benchmarks.rival_budget import beside_any, keywords
from dpicl_rag.answering.prompt_rows import greedy_answer
from dpicl_rag.language_models.base import SpeakingRows
from dpicl_rag.languages.sentences import first_sentence
from dpicl_research.keyword_aggregation import KeywordAggregation


class KeywordRAG(Method):
    """The release of `KeywordAggregation` beside the search; half of delta is for its test."""

    name = "DP-KSA"
    source = "Tang, Flemings, Wang, Annavaram 2026, arXiv 2602.14374, Algorithms 1 to 3"

    def charge(self, setting: Setting, epsilon: float, delta: float) -> float:
        """The search beside the worst (epsilon', delta / 2)-DP mechanism: `beside_any` is exact."""
        return epsilon

    def needed(self, setting: Setting, epsilon: float) -> int | None:
        """See `Method.needed`."""
        return keywords(epsilon, 2)

    def answer(self, setting: Setting, asked: Asked) -> Told:
        """See `Method.answer`."""
        budget, own = budget_beside_search(asked.epsilon, asked.delta), asked.delta / 2
        found = find(setting, asked, budget)
        prompt, rows, many = read_units(setting, asked.question, found.units.values())
        assert isinstance(rows, SpeakingRows)
        said = rows.continue_each(prompt.suffix, setting.max_tokens, [True] * many)
        decode = setting.model.tokenizer.decode

        def ask(keywords: str) -> str:
            # A small model does best where they stand in a document's place.
            return greedy_answer(
                setting.model,
                setting.template,
                asked.question,
                [keywords],
                max_tokens=setting.max_tokens,
                stop=setting.stop,
            )

        text = KeywordAggregation().answer(
            asked.question,
            [first_sentence(decode(one.tokens)) for one in said],
            ask,
            epsilon=beside_any(asked.epsilon, asked.delta, own, budget.search_rho),
            delta=own,
            randomness=asked.randomness,
        )
        return Told(text, bool(text))


METHOD = KeywordRAG()
