"""Answers in steps: a nested question asks for what it describes first (`nested_questions.py`).

Each step is an answer of its own, with a price of its own, and what it releases is public: so the
next question is public too, and the whole is the composition of its steps. Where the first step
finds nothing, the question is asked as it is, for the price of the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dpicl_rag.answering.free_answers import ready_stream
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.errors import (
    BudgetExceededError,
    DeltaSpentError,
    EngineUnavailableError,
    StoppedError,
)
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.languages.nested_questions import name_in, nested_question
from dpicl_rag.mechanisms.selection import Mechanism
from dpicl_rag.results import UNSUPPORTED, PrivateAnswer, StoppedBy

STEPS = 3
"""Questions that one takes at most."""

_SOMETHING = "X"


def answered_in_steps(
    question: str, begin: Callable[[str], PrivateStream], tokenizer: Tokenizer
) -> PrivateStream:
    """The stream of the last step; its answer has the cost of all.

    Args:
        question: Public.
        begin: Begins the answer to a question.
        tokenizer: Of the model.
    """
    earlier: list[PrivateAnswer] = []
    while len(earlier) < STEPS - 1 and (nested := nested_question(question)):
        found = _step(begin, nested.first, earlier, tokenizer).whole()
        earlier.append(found)
        name = None if found.supported is False else name_in(found.text, nested.first)
        if name is None:
            break
        question = nested.about(name)
    return _step(begin, question, earlier, tokenizer)


def questions_of(question: str) -> tuple[str, ...]:
    """The questions of all steps, with X for what is not known yet."""
    found: list[str] = []
    while len(found) < STEPS - 1 and (nested := nested_question(question)):
        found.append(nested.first)
        question = nested.about(_SOMETHING)
    return (*found, question)


def plan_of_steps(questions: Sequence[str], plans: Sequence[Plan[Mechanism]]) -> Plan[Mechanism]:
    """One plan of several answers: the last one's, with the price of all."""
    *first, last = plans
    if not first:
        return last
    parts = [
        replace(part, name=f"{part.name} {step}")
        for step, plan in enumerate(first, start=1)
        for part in plan.parts
    ]
    rho = sum(plan.rho for plan in plans)
    return replace(
        last,
        epsilon=sum(plan.epsilon for plan in plans),
        delta=sum(plan.delta for plan in plans),
        rho=rho,
        least_rho=rho - last.rho + last.least_rho if last.least_rho is not None else None,
        parts=(*parts, *last.parts),
        steps=tuple(questions),
    )


def _step(
    begin: Callable[[str], PrivateStream],
    question: str,
    earlier: Sequence[PrivateAnswer],
    tokenizer: Tokenizer,
) -> PrivateStream:
    """A step; where a later one cannot be paid, what was released is the answer."""
    if not earlier:
        return begin(question)
    stopped: StoppedBy
    try:
        stream = begin(question)
    except (BudgetExceededError, DeltaSpentError):
        stopped = "budget"
    except EngineUnavailableError:
        stopped = "unavailable"
    except StoppedError as error:
        error.rho += sum(one.rho for one in earlier)
        raise
    else:
        stream.add_cost(earlier)
        return stream
    text = "" if stopped == "unavailable" else UNSUPPORTED
    free = replace(earlier[-1], text=text, epsilon=0.0, delta=0.0, rho=0.0, tokens=0, parts=())
    ended = replace(free, stopped_by=stopped, supported=False, by=None, agreeing=None)
    stream = ready_stream(ended, question, tokenizer)
    stream.add_cost(earlier)
    return stream
