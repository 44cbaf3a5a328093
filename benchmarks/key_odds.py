"""The odds of an answer by keys: what experts of a model that can be silent say, counted again.

Such experts vote for keys of their answers, and the kind of a question decides how these are
counted: by selection, over a public list, behind a top count. So the library's own counts are drawn
many times over the same votes, as an answer draws them once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

from dpicl_rag.answering.canonical_form import SentenceVote
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.answering.question import Question
from dpicl_rag.answering.sentence_votes import vote_reader, votes_of_rows
from dpicl_rag.answering.whole_answers import WholeAnswer
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.language_models.base import SpeakingRows
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.mechanisms.privacy_filters import FixedFilter
from dpicl_rag.mechanisms.randomness import SeededRandomness
from dpicl_rag.prompts import PromptTemplate


def votes_for_keys(
    model: TransformersModel, text: str, documents: Sequence[str]
) -> list[SentenceVote | None]:
    """What each document's expert votes for, with default settings and worked examples of NOTHING.

    Args:
        model: Can be silent.
        text: The question.
        documents: One unit each.
    """
    question = Question(text, PromptTemplate(), model, PrivacyConfig.create(), silent=True)
    passages = [(one,) for one in documents]
    most = question.config.max_tokens
    rows = read(model, question.prompt, [question.digest(own) for own in passages], room=most)
    assert isinstance(rows, SpeakingRows)
    suffixes = [phrasing.suffix for phrasing in question.phrasings]
    return votes_of_rows(rows, vote_reader(question, passages), suffixes, most)


def key_odds(
    plan: Plan[Any],
    tokenizer: Tokenizer,
    keys: int,
    votes: Sequence[SentenceVote | None],
    right: Callable[[str], bool],
    draws: int,
    seed: int,
) -> tuple[float, float, float]:
    """Shares of draws with a right and with a wrong release, and mean rho of the counts.

    Args:
        plan: Of the answer.
        tokenizer: Of the model.
        keys: Of one unit, at most.
        votes: Of the units that are asked.
        right: Whether a released key is right.
        draws: How many.
        seed: Of their noise.
    """
    assert plan.ladder is not None
    randomness, said, paid = SeededRandomness(seed), [], []
    for _ in range(draws):
        spend = FixedFilter(plan.rho, plan.rho)
        answer = WholeAnswer(
            plan.ladder,
            spend,
            randomness,
            spell=list,
            show=", ".join,
            lead="",
            sentences=1,
            most=1,
            keys=keys,
            only_agreement=True,
        )
        for _ in answer.speak(lambda *_: votes, tokenizer):
            pass
        said.append(None if answer.agreed is None else right(answer.agreed.key))
        paid.append(spend.rho)
    return said.count(True) / draws, said.count(False) / draws, mean(paid)
