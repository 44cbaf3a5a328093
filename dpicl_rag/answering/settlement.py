"""The settlement of an answer: whether documents support it, what it cost, what is remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpicl_rag.answering.support import Support
from dpicl_rag.answering.whole_answers import WholeAnswer
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.mechanisms.privacy_filters import PrivacyFilter
from dpicl_rag.results import PrivateAnswer, ReleasedBy, StoppedBy

UNSUPPORTED = "The documents do not say."
"""Takes the place of an answer that they do not support, where that was asked for."""


@dataclass(frozen=True)
class Settlement:
    """What is done once with an answer, when its last token is drawn.

    Attributes:
        config: The settings.
        spend: Of the answer; no documents are kept by it.
        corpus: Whose budget paid.
        support: By the documents; None where nobody asks.
        whole: Sentences on which experts agree; None where they are not asked for them.
        recalled: How many texts of public knowledge were found.
        keep: Remembers an answer that documents support, and whether it was drawn (see `Entry`);
            None where there is no memory.
        polish: Writes the released text in other words; None leaves it as it is.
    """

    config: PrivacyConfig
    spend: PrivacyFilter
    corpus: str
    support: Support | None
    whole: WholeAnswer | None
    recalled: int
    keep: Callable[[PrivateAnswer, bool], None] | None
    polish: Callable[[str], str] | None = None

    def __repr__(self) -> str:
        return "Settlement(<private>)"

    def __call__(self, text: str, tokens: int, stopped: StoppedBy, whole: bool) -> PrivateAnswer:
        """The answer, and what is to be done about it; see `PrivateStream`."""
        agreed = None if self.whole is None else self.whole.agreed
        confirmed = self.support is not None and self.support.confirmed
        alone = self.whole is not None and self.whole.alone
        supported = None
        if agreed is not None:
            supported = True  # by what it is
        elif whole and (confirmed or alone):
            supported = confirmed
        elif whole and self.support is not None:
            supported = self.support.decide(tokens)
        if (alone or self.config.unsupported == "refuse") and not supported:
            # Whether documents support it was not asked where the engine was gone.
            text = "" if stopped == "unavailable" else UNSUPPORTED
        by: ReleasedBy | None = "agreement" if agreed else "memory" if confirmed else None
        if by is None and tokens and not alone:
            by = "tokens"
        answer = PrivateAnswer(
            text=text,
            epsilon=self.config.epsilon,
            delta=self.config.delta,
            rho=self.spend.rho,
            tokens=tokens,
            stopped_by=stopped,
            corpus=self.corpus,
            supported=supported,
            by=by,
            agreeing=None if agreed is None else agreed.count,
            agreeing_within=None if agreed is None else agreed.within,
            recalled=self.recalled,
        )
        if self.keep is not None and supported:
            # Where no whole answers are counted, that one was drawn tells nothing.
            self.keep(answer, by == "tokens" and self.config.agreement != "off")
        if self.polish is None or not whole or text in ("", UNSUPPORTED):
            return answer
        return answer.polished(self.polish)
