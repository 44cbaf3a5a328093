"""DP-KSA: words that enough replies have, and a text that the model writes from them."""

from __future__ import annotations

from benchmarks.leaderboard.method import (
    Setting,
    Told,
    budget_beside_search,
    read_units,
    search_for,
)
from benchmarks.rival_budget import beside_any, keywords
from dpicl_rag.answering.prompt_rows import greedy_answer
from dpicl_rag.language_models.base import SpeakingRows
from dpicl_rag.languages.sentences import first_sentence
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.retrievers import Documents
from dpicl_research.keyword_aggregation import KeywordAggregation


class KeywordRAG:
    """The release of `KeywordAggregation` beside the search; half of delta is for its test."""

    name = "DP-KSA"
    source = "Tang, Flemings, Wang, Annavaram 2026, arXiv 2602.14374, Algorithms 1 to 3"

    def charge(self, setting: Setting, epsilon: float, delta: float) -> float:
        """The search beside the worst (epsilon', delta / 2)-DP mechanism: `beside_any` is exact."""
        return epsilon

    def needed(self, setting: Setting, epsilon: float) -> int | None:
        """See `Method.needed`."""
        return keywords(epsilon, 2)

    def answer(
        self,
        setting: Setting,
        question: str,
        documents: Documents,
        epsilon: float,
        delta: float,
        randomness: Randomness,
    ) -> Told:
        """See `Method.answer`."""
        budget = budget_beside_search(epsilon, delta)
        found = search_for(setting, documents, budget).search(question)
        units = found.choose(randomness=randomness).units
        prompt, rows, many = read_units(setting, question, units.values())
        assert isinstance(rows, SpeakingRows)
        said = rows.continue_each(prompt.suffix, setting.max_tokens, [True] * many)
        decode = setting.model.tokenizer.decode

        def ask(keywords: str) -> str:
            # A small model does best where they stand in a document's place.
            return greedy_answer(
                setting.model,
                setting.template,
                question,
                [keywords],
                max_tokens=setting.max_tokens,
                stop=setting.stop,
            )

        text = KeywordAggregation().answer(
            question,
            [first_sentence(decode(one.tokens)) for one in said],
            ask,
            epsilon=beside_any(epsilon, delta, delta / 2, budget.search_rho),
            delta=delta / 2,
            randomness=randomness,
        )
        return Told(text, bool(text))


METHOD = KeywordRAG()
