"""The settlement of an answer: whether documents support it, what it cost, what is remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpicl_rag.answering.answers import PrivateAnswer, StoppedBy
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.privacy_filters import Filter
from dpicl_rag.answering.prompt_rows import bare_log_probs
from dpicl_rag.answering.proposals import Consent
from dpicl_rag.answering.support import Witness
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.prompts import Prompt

UNSUPPORTED = "The documents do not say."
"""Takes the place of an answer that they do not support, where that was asked for."""


@dataclass(frozen=True)
class Settlement:
    """What is done once with an answer, when its last token is drawn.

    Attributes:
        config: The settings.
        plan: Of the answer.
        spend: Of the answer; no documents are kept by it.
        corpus: Whose budget paid.
        witness: What the experts said of each token; None where nobody asks.
        consent: The count that may have confirmed a proposal.
        model: What reads a document's place without what was known before.
        prompt: Of the question.
        informed: Whether the public row read anything in a document's place.
        recalled: How many texts of public knowledge were found.
        randomness: Of the count.
        keep: Remembers an answer that documents support; None where there is no memory.
    """

    config: PrivacyConfig
    plan: Plan
    spend: Filter
    corpus: str
    witness: Witness | None
    consent: Consent | None
    model: LanguageModel
    prompt: Prompt
    informed: bool
    recalled: int
    randomness: Randomness
    keep: Callable[[PrivateAnswer], None] | None

    def __repr__(self) -> str:
        return "Settlement(<private>)"

    def __call__(self, text: str, tokens: int, stopped: StoppedBy, whole: bool) -> PrivateAnswer:
        """The answer, and what is to be done about it; see `PrivateStream`."""
        supported = None
        if whole and self.consent is not None and self.consent.given:
            supported = True
        elif whole and self.plan.support is not None and self.witness is not None:
            # Support is what documents add to the model, not to what was known before.
            bare = None
            if self.informed:
                bare = sum(bare_log_probs(self.model, self.prompt, self.witness.tokens))
            supported = tokens > 0 and self.plan.support.decide(
                self.witness.agreeing(bare), self.spend, self.randomness
            )
        if self.config.unsupported == "refuse" and not supported:
            # Whether documents support it was not asked where the engine was gone.
            text = "" if stopped == "unavailable" else UNSUPPORTED
        answer = PrivateAnswer(
            text=text,
            epsilon=self.config.epsilon,
            delta=self.config.delta,
            rho=self.spend.rho,
            tokens=tokens,
            stopped_by=stopped,
            corpus=self.corpus,
            supported=supported,
            recalled=self.recalled,
        )
        if self.keep is not None and supported:
            self.keep(answer)
        return answer
