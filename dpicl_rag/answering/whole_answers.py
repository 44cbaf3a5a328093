"""Whole answers: sentences that experts say by themselves, released where enough of them agree.

An answer that is drawn token by token pays for every token that is news. Experts do not disagree
token by token: each says one whole sentence, and where many units state a fact most say the same.
One noisy count with a threshold releases it, whatever its length (docs/privacy.md, "Answers by
agreement").
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial

import torch

from dpicl_rag.answering.canonical_form import SentenceVote, shown_form
from dpicl_rag.answering.experts import Experts
from dpicl_rag.answering.ladder import KeyCounts, Ladder
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.question import Question
from dpicl_rag.answering.written_sentences import spelled, written_sentence
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.mechanisms.privacy_filters import AnswerFilter
from dpicl_rag.mechanisms.private_counts import Agreed
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.selection import Mechanism
from dpicl_rag.results import AgreedPart

SentenceVotes = Callable[[int, Sequence[int], int], Sequence[SentenceVote | None]]
"""The votes for the next sentence: its number, the tokens released before, most of its tokens."""

_END = "."


def whole_answer(
    question: Question, plan: Plan[Mechanism], experts: Experts[Mechanism], randomness: Randomness
) -> WholeAnswer | None:
    """The agreement on whole sentences; None where the plan counts none, or no pool pays."""
    if not plan.ladder or not experts.thresholds:
        return None
    config = question.config
    return WholeAnswer(
        plan.ladder,
        experts.spend,
        randomness,
        spell=partial(spelled, question),
        show=partial(shown, question),
        lead=question.prompt.lead,
        sentences=config.sentences,
        most=config.max_tokens,
        keys=question.keys_counted or 1,
        # Of experts that cannot carry a word, what is drawn would be refused.
        only_agreement=plan.only_agreement
        or (config.unsupported == "refuse" and experts.mechanism.rho == 0),
    )


def shown(question: Question, keys: Sequence[str]) -> str:
    """The text of released keys: a sentence of the public model, where it says them and no more.

    Args:
        question: What was asked.
        keys: What was released. Public, as all that follows from it.
    """
    if question.silent and (sentence := written_sentence(question, keys)):
        return sentence
    begins = not question.template.answer_prefix
    return shown_form(", ".join(keys), question.text, begins=begins)


class WholeAnswer:
    """The sentences of one answer on which experts agree.

    Args:
        ladder: The counts of one sentence.
        spend: Pays for them, and says which experts can.
        randomness: Where their noise comes from.
        spell: Released keys as people write them.
        show: The text of what was released, without the mark at its end.
        lead: What stands before the first sentence.
        sentences: Most sentences.
        most: Tokens of the answer at most, and so of what each expert says. Public.
        keys: Of one unit, at most. Of several all that are released are the answer, as of a list;
            else the largest.
        only_agreement: Whether no token is drawn where experts do not agree.

    Attributes:
        agreed: The first sentence and its count, once it is released. Public.
        parts: Keys that are released, of units that may have several; the largest count first.
        only_agreement: See above.
    """

    def __init__(
        self,
        ladder: Ladder,
        spend: AnswerFilter,
        randomness: Randomness,
        *,
        spell: Callable[[Sequence[str]], Sequence[str]],
        show: Callable[[Sequence[str]], str],
        lead: str,
        sentences: int,
        most: int,
        keys: int,
        only_agreement: bool,
    ) -> None:
        self.agreed: Agreed | None = None
        self.parts: list[AgreedPart] = []
        self.only_agreement = only_agreement
        self._ladder = ladder
        self._spend = spend
        self._randomness = randomness
        self._spell = spell
        self._show = show
        self._lead = lead
        self._sentences = sentences
        self._most = most
        self._keys = keys

    def __repr__(self) -> str:
        return "WholeAnswer(<private>)"

    def speak(self, votes: SentenceVotes, tokenizer: Tokenizer) -> Generator[int, None, None]:
        """Release sentences until experts do not agree."""
        released: list[int] = []
        for at in range(self._sentences):
            left = self._most - len(released)
            if not left:
                return
            found = self._count(votes(at, released, left))
            if not found:
                return
            names = self._spell([one.key for one in found])
            found = [replace(one, key=name) for one, name in zip(found, names, strict=True)]
            self.agreed = self.agreed or found[0]
            if self._keys > 1:
                self.parts += map(self._part, found)
            lead = " " if at else self._lead
            keys = [one.key for one in found]
            while len(keys) > 1 and len(tokenizer.encode(", ".join(keys))) > left:
                del keys[-1]  # a list that is too long ends with a whole item
            text = f"{lead}{self._show(keys)}{_END}"
            tokens = tokenizer.encode(text)[:left]
            released += tokens
            yield from tokens

    def _count(self, votes: Sequence[SentenceVote | None]) -> list[Agreed]:
        """The first agreement on the ladder, every step of it paid for before it is drawn.

        Whole sentences are counted at the first of several steps. Where they differ, their keys
        may not; so these are counted at the later ones, and by a top count.
        """
        ladder, steps = self._ladder, self._ladder.steps
        # What stands outside a public domain is no vote, and pays nothing.
        keys = [() if one is None else steps[-1].counted(one.keys) for one in votes]
        if ladder.first is not None and (agreed := self._agreed(ladder.first, keys)):
            return agreed
        if (top := ladder.top) is not None:
            if not self._spend.can_count(top.rho):
                return []
            steps = ladder.after(top.draw(self._paid(top.rho, keys), self._randomness))
        whole = [() if one is None or one.sentence is None else (one.sentence,) for one in votes]
        for at, step in enumerate(steps):
            held = keys if at or ladder.single or len(steps) == 1 else whole
            if agreed := self._agreed(step, held):
                return agreed
        return []

    def _agreed(self, step: KeyCounts, held: Sequence[Sequence[str]]) -> list[Agreed]:
        """What one count releases; nothing where the budget does not cover it."""
        if not self._spend.can_count(step.rho):
            return []
        agreed = step.draw(self._paid(step.rho, held, step.delta), self._randomness)
        return agreed if self._keys > 1 else agreed[:1]

    def _part(self, agreed: Agreed) -> AgreedPart:
        """A key with its count; without one where keys of a unit share its vote."""
        whole = all(step.parts == 1 for step in self._ladder.counts)
        return AgreedPart(agreed.key, agreed.estimate if whole else None)

    def _paid(
        self, rho: float, held: Sequence[Sequence[str]], delta: float = 0.0
    ) -> list[Sequence[str]]:
        """The keys of those who have some and can pay for a count of them."""
        voting = torch.tensor([bool(own) for own in held], dtype=torch.bool)
        able = self._spend.pay_votes(rho, voting, delta).tolist()
        return [own for own, counts in zip(held, able, strict=True) if counts]
