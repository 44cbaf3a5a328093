"""Labels: how units are read over them, and the one draw that chooses one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.answering.answer_plan import label_plan
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Input, LanguageModel, Progress
from dpicl_rag.language_models.hardware import enough_memory
from dpicl_rag.language_models.readers.base import Reader
from dpicl_rag.language_models.readers.notes import UnitReading, choices
from dpicl_rag.languages.sentences import mail_as_read, names_a_day
from dpicl_rag.mechanisms.selection import Mechanism
from dpicl_rag.mechanisms.step import DenseStep, Step
from dpicl_rag.methods.registry import over_documents
from dpicl_rag.prompts import CONTENT_FREE, Prompt, label_tokens
from dpicl_rag.requests import Request
from dpicl_rag.results import PrivateLabel
from dpicl_rag.retrieval.retrievers import Documents
from dpicl_rag.retrieval.search import Search

LABEL_TOKENS = 2**20
"""Tokens of labels that all units of a question are asked at most: each is asked every label."""

_UNITS = 1024  # where only the documents tell how many are read
_UNSAID = 1e-6  # of a vote, for each label that was not said


@dataclass(frozen=True, slots=True, repr=False)
class LabelReading:
    """Functions that read units over labels.

    Attributes:
        digest: What one expert reads, see ``gather``: of a mail what `mail_as_read` leaves.
        reading: What a reader makes of each unit first, if there is one.
        step: The rows of experts over the labels, of what they read.
    """

    digest: Callable[[Sequence[str]], Input]
    reading: UnitReading | None
    step: Callable[[Sequence[Input], Progress | None], Step]


def most_label_tokens(units: int | None = None) -> int:
    """Most tokens of all labels of a question. Public.

    Args:
        units: About how many units are asked; None where only the documents tell.
    """
    return LABEL_TOKENS // (units or _UNITS)


def require_few_tokens(tokens: Sequence[Sequence[int]], units: int | None, remedy: str) -> None:
    """Check that labels are no more work than documents.

    Args:
        tokens: Of each label.
        units: About how many units are asked; None where only the documents tell.
        remedy: Beside fewer and shorter labels.

    Raises:
        ConfigurationError: They are.
    """
    asked, most = sum(map(len, tokens)), most_label_tokens(units)
    if asked > most:
        raise ConfigurationError(
            f"the labels have {asked:,} tokens, and each unit can be asked {most:,}; give fewer or "
            f"shorter labels, {remedy}"
        )


def label_step(
    model: LanguageModel,
    prompt: Prompt,
    blank: Prompt | None,
    labels: Sequence[Sequence[int]],
    inputs: Sequence[Input],
    informed: Input | None = None,
    on_progress: Progress | None = None,
) -> Step:
    """The rows over some labels.

    Args:
        model: What reads.
        prompt: With the question.
        blank: The same with a content-free question, where a prior is taken out of each expert.
        labels: Tokens of each label.
        inputs: What each expert reads. Private.
        informed: What the public row reads in a document's place.
        on_progress: Called with the part of the documents that is read.
    """

    def said(prompt: Prompt, on_progress: Progress | None) -> Step:
        rows = read(
            model=model,
            prompt=prompt,
            inputs=inputs,
            room=max(map(len, labels)),
            informed=informed,
            on_progress=on_progress,
        )
        rows.extend(prompt.suffix)
        return rows.score(labels)

    step = said(prompt, on_progress)
    # Progress is reported once: the documents are kept for the second question.
    return step if blank is None else step.corrected(said(blank, None))


def label_reading(
    reader: Reader | None,
    model: LanguageModel,
    question: str,
    labels: Sequence[str],
    prompt: Prompt,
    tokens: Sequence[Sequence[int]],
    allowance: int,
    *,
    most: int = 1,
    blank: Prompt | None = None,
    informed: Input | None = None,
) -> LabelReading:
    """The likelihood of each label, see `label_step`, or what a reader says, see `choices`.

    Args:
        reader: Reads in the model's place, if there is one.
        model: As in `label_step`.
        question: Public text.
        labels: Their words.
        prompt: As in `label_step`.
        tokens: Of each label.
        allowance: Tokens of a unit that the model reads.
        most: Labels that a reader may say of one unit.
        blank: As in `label_step`; of the model alone.
        informed: As in `label_step`.

    Raises:
        ConfigurationError: A prior is asked of a reader.
    """
    if reader is not None:
        if blank is not None:
            raise ConfigurationError(
                "a reader says a label and no prior of it; take a method without one, such as votes"
            )
        return LabelReading(
            tuple, choices(reader, question, labels, most), partial(_said_step, labels)
        )

    dated = names_a_day(" ".join((question, *labels)))

    def digest(passages: Sequence[str]) -> Input:
        return model.digest([mail_as_read(one, dated=dated) for one in passages], allowance)

    def step(inputs: Sequence[Input], on_progress: Progress | None) -> Step:
        return label_step(model, prompt, blank, tokens, inputs, informed, on_progress)

    return LabelReading(digest, None, step)


def _said_step(labels: Sequence[str], inputs: Sequence[Any], _: Progress | None) -> Step:
    """Rows that are all but sure of what was said, of a group in parts of its units."""
    said = [[own.count(label) + _UNSAID for label in labels] for own in inputs]
    rows = torch.tensor(said, dtype=torch.float64).reshape(len(said), len(labels))
    public = torch.full((len(labels),), -math.log(len(labels)), dtype=torch.float64)
    return DenseStep(public, (rows / rows.sum(dim=1, keepdim=True)).log())


def draw_label(request: Request, documents: Documents, run: PrivateRun) -> PrivateLabel:
    """Choose a label; see `PrivateContextLLM.classify` for errors.

    Args:
        request: A question and its labels.
        documents: Private.
        run: Reads them, and pays.
    """
    config, model, question = run.config, run.model, request.asked()
    prompt = run.prompt(question)
    tokens = label_tokens(model.tokenizer, request.labels, prompt.lead)
    room = max(map(len, tokens))
    search = run.search(documents)
    require_few_tokens(tokens, search.aim, "or let fewer units be read (units=)")
    search, plan = _planned_label(request, search, config)
    blank = run.prompt(CONTENT_FREE) if plan.takes_priors else prompt
    # Both questions find the same tokens of a document.
    allowance = min(one.allowance(model, config.unit_tokens, room) for one in (prompt, blank))
    run.require_memory(search)
    known = [] if run.reader is not None else run.knowledge.recall(question)
    how = label_reading(
        run.reader,
        model,
        question,
        request.labels,
        prompt,
        tokens,
        allowance,
        blank=blank if plan.takes_priors else None,
        informed=model.digest(known, allowance),
    )
    experts = run.experts((question,), search, plan, how.digest, how.reading)
    with experts.paying(), enough_memory():
        step = how.step(experts.inputs, run.on_progress)
        chosen = experts.mechanism.draw(step, experts.spend, run.randomness)
    return PrivateLabel(request.labels[chosen], plan.epsilon, plan.delta, experts.spend.rho)


def plan_of_label(
    request: Request, documents: Documents, run: PrivateRun
) -> tuple[Plan[Mechanism], int | None]:
    """The plan of a label, and about how many units are read for it."""
    search, plan = _planned_label(request, run.search(documents), run.config)
    return plan, search.aim


def _planned_label(
    request: Request, search: Search, config: PrivacyConfig
) -> tuple[Search, Plan[Mechanism]]:
    search = search.within(epsilon_to_rho(config.epsilon, config.delta), config.adjacency)
    method = request.method
    made = None if method is None else partial(over_documents, method, config)
    return search, label_plan(config, search.stability, search.rho(config.adjacency), made)
