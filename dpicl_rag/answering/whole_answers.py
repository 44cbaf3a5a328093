"""Whole answers: sentences that experts say by themselves, released where enough of them agree.

An answer that is drawn token by token pays for every token that is news. Experts do not disagree
token by token: each says one whole sentence, and where many units state a fact most say the same.
One noisy count with a threshold releases it, whatever its length (docs/privacy.md, "Answers by
agreement").
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial

import torch

from dpicl_rag.answering.canonical_form import SentenceVote, shown_form
from dpicl_rag.answering.experts import Experts
from dpicl_rag.answering.ladder import Ladder
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.question import Question
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.mechanisms.privacy_filters import AnswerFilter
from dpicl_rag.mechanisms.private_counts import Agreed
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.selection import Mechanism

SentenceVotes = Callable[[int, Sequence[int], int], Sequence[SentenceVote | None]]
"""The votes for the next sentence: its number, the tokens released before, most of its tokens."""

_END = "."


def whole_answer(
    question: Question, plan: Plan[Mechanism], experts: Experts[Mechanism], randomness: Randomness
) -> WholeAnswer | None:
    """The agreement on whole sentences; None where the plan counts none, or no pool pays.

    Args:
        question: What is asked.
        plan: Of the answer.
        experts: The experts, and how they pay.
        randomness: Where noise comes from.
    """
    if not plan.ladder or not experts.thresholds:
        return None
    config, text = question.config, question.text
    return WholeAnswer(
        plan.ladder,
        experts.spend,
        randomness,
        show=partial(shown_form, question=text, begins=not question.template.answer_prefix),
        lead=question.prompt.lead,
        sentences=config.sentences,
        most=config.max_tokens,
        # Of experts that cannot carry a word, what is drawn would be refused.
        only_agreement=plan.only_agreement
        or (config.unsupported == "refuse" and experts.mechanism.rho == 0),
    )


class WholeAnswer:
    """The sentences of one answer on which experts agree.

    Args:
        ladder: The counts of one sentence.
        spend: Pays for them, and says which experts can.
        randomness: Where their noise comes from.
        show: The text of a released form.
        lead: What stands before the first sentence.
        sentences: Most sentences.
        most: Tokens of the answer at most, and so of what each expert says. Public.
        only_agreement: Whether no token is drawn where experts do not agree.

    Attributes:
        agreed: The first sentence and its count, once it is released. Public.
        only_agreement: See above.
    """

    def __init__(
        self,
        ladder: Ladder,
        spend: AnswerFilter,
        randomness: Randomness,
        *,
        show: Callable[[str], str],
        lead: str,
        sentences: int,
        most: int,
        only_agreement: bool,
    ) -> None:
        self.agreed: Agreed | None = None
        self.only_agreement = only_agreement
        self._ladder = ladder
        self._spend = spend
        self._randomness = randomness
        self._show = show
        self._lead = lead
        self._sentences = sentences
        self._most = most

    def __repr__(self) -> str:
        return "WholeAnswer(<private>)"

    def speak(self, votes: SentenceVotes, tokenizer: Tokenizer) -> Generator[int, None, None]:
        """Release sentences until experts do not agree.

        Args:
            votes: Of experts for what they say by themselves.
            tokenizer: Of the model.
        """
        released: list[int] = []
        for at in range(self._sentences):
            left = self._most - len(released)
            if not left:
                return
            found = self._count(votes(at, released, left))
            if found is None:
                return
            self.agreed = self.agreed or found
            lead = " " if at else self._lead
            text = f"{lead}{self._show(found.key)}{_END}"
            tokens = tokenizer.encode(text)[:left]
            released += tokens
            yield from tokens

    def _count(self, votes: Sequence[SentenceVote | None]) -> Agreed | None:
        """The first agreement on the ladder, every step of it paid for before it is drawn.

        Whole sentences are counted at the first of several steps. Where they differ, names and
        numbers may not; so these are counted at the later ones, and by a top count.
        """
        short = [None if one is None else one.short for one in votes]
        steps = self._ladder.steps
        if (top := self._ladder.top) is not None:
            if not self._spend.can_count(top.rho):
                return None
            steps = self._ladder.after(top.draw(self._paid(top.rho, short), self._randomness))
        whole = [None if one is None else one.sentence for one in votes]
        for at, step in enumerate(steps):
            if not self._spend.can_count(step.rho):
                return None
            keys = short if at or len(steps) == 1 else whole
            agreed = step.draw(self._paid(step.rho, keys, step.delta), self._randomness)
            if agreed is not None:
                return agreed
        return None

    def _paid(self, rho: float, votes: Sequence[str | None], delta: float = 0.0) -> list[str]:
        """The votes of those who can pay for a count of them."""
        voting = torch.tensor([vote is not None for vote in votes], dtype=torch.bool)
        able = self._spend.pay_votes(rho, voting, delta).tolist()
        return [vote for vote, counts in zip(votes, able, strict=True) if counts and vote]
