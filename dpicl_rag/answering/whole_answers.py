"""Whole answers: sentences that experts say by themselves, released where enough of them agree.

An answer that is drawn token by token pays for every token that is news. Experts do not disagree
token by token: each says one whole sentence, and where many units state a fact most say the same.
One noisy count with a threshold releases it, whatever its length (docs/privacy.md, "Answers by
agreement").
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import torch

from dpicl_rag.answering.ballots import Ballots
from dpicl_rag.answering.experts import Gathered
from dpicl_rag.answering.ladder import Ladder
from dpicl_rag.answering.privacy_filters import AnswerFilter
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel, SpeakingRows, speaks
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.mechanisms.agreement import Agreed, Agreement
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.prompts import Prompt

_END = "."


class WholeAnswer:
    """The sentences of one answer on which experts agree.

    Args:
        ladder: The counts of one sentence.
        spend: Pays for them, and says which experts can.
        randomness: Where their noise comes from.
        sentences: Most sentences.
        most: Tokens of the answer at most, and so of what each expert says. Public.

    Attributes:
        agreed: The first sentence and its count, once it is released. Public.
    """

    def __init__(
        self,
        ladder: Ladder,
        spend: AnswerFilter,
        randomness: Randomness,
        *,
        sentences: int,
        most: int,
    ) -> None:
        self.agreed: Agreed | None = None
        self._ladder = ladder
        self._spend = spend
        self._randomness = randomness
        self._sentences = sentences
        self._most = most

    def __repr__(self) -> str:
        return "WholeAnswer(<private>)"

    def speak(
        self, rows: SpeakingRows, prompt: Prompt, ballots: Ballots, tokenizer: Tokenizer
    ) -> Generator[int, None, None]:
        """Release sentences until experts do not agree; the rows stand where they stood before.

        Args:
            rows: The public row and the experts, nothing appended yet.
            prompt: Public text before and after the document.
            ballots: Reads what they say.
            tokenizer: Of the model.
        """
        released: list[int] = []
        for at in range(self._sentences):
            before = (*prompt.suffix, *released)
            left = self._most - len(released)
            if not left:
                return
            found = self._count(ballots.votes(before, rows.continue_each(before, left)))
            if found is None:
                return
            self.agreed = self.agreed or found
            tokens = tokenizer.encode(f"{' ' if at else prompt.lead}{found.key}{_END}")[:left]
            released += tokens
            yield from tokens

    def _count(self, votes: Sequence[str | None]) -> Agreed | None:
        """The first agreement on the ladder, every step of it paid for before it is drawn."""
        for step in self._ladder:
            if not self._spend.can_count(step.rho):
                return None
            found = self._draw(step, votes)
            if found is not None:
                return found
        return None

    def _draw(self, step: Agreement, votes: Sequence[str | None]) -> Agreed | None:
        voting = torch.tensor([vote is not None for vote in votes], dtype=torch.bool)
        able = self._spend.pay_votes(step.rho, voting, step.delta).tolist()
        keys = [vote for vote, counts in zip(votes, able, strict=True) if counts and vote]
        return step.draw(keys, self._randomness)


def whole_answer(
    ladder: Ladder, config: PrivacyConfig, gathered: Gathered, randomness: Randomness
) -> WholeAnswer | None:
    """What asks experts for whole sentences; None where nobody does, or no pool pays for it."""
    if not ladder or not gathered.thresholds:
        return None
    most = config.max_tokens
    return WholeAnswer(ladder, gathered.spend, randomness, sentences=config.sentences, most=most)


def require_agreement(config: PrivacyConfig, model: LanguageModel) -> None:
    """Raise where settings ask for whole sentences and cannot have them. Nothing is paid yet.

    Raises:
        ConfigurationError: Rows of the model do not go on each by itself.
    """
    if config.agreement != "off" and not speaks(model):
        raise ConfigurationError(
            "experts of this engine cannot answer each by itself (SpeakingRows, docs/engines.md); "
            "use agreement='off'"
        )
