"""How units are read over labels: by the language model, or by a reader that says them in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from dpicl_rag.answering.label_draw import label_step
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Input, LanguageModel, Progress
from dpicl_rag.language_models.readers.base import Reader
from dpicl_rag.language_models.readers.notes import UnitReading, choices
from dpicl_rag.mechanisms.step import DenseStep, Step
from dpicl_rag.prompts import Prompt

LABEL_TOKENS = 2**20
"""Tokens of labels that all units of a question are asked at most: each is asked every label."""

_UNITS = 1024  # where only the documents tell how many are read
_UNSAID = 1e-6  # of a vote, for each label that was not said


@dataclass(frozen=True, slots=True, repr=False)
class LabelReading:
    """See the module.

    Attributes:
        digest: What one expert reads, see ``gather``.
        reading: What a reader makes of each unit first, if there is one.
        step: The rows of experts over the labels, of what they read.
    """

    digest: Callable[[Sequence[str]], Input]
    reading: UnitReading | None
    step: Callable[[Sequence[Input], Progress | None], Step]


def most_label_tokens(units: int | None = None) -> int:
    """How many tokens the labels of a question may have in all. Public.

    Args:
        units: About how many units are asked; None where only the documents tell.
    """
    return LABEL_TOKENS // (units or _UNITS)


def require_few_tokens(tokens: Sequence[Sequence[int]], units: int | None, remedy: str) -> None:
    """See that labels are no more work than documents.

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

    def step(inputs: Sequence[Input], on_progress: Progress | None) -> Step:
        return label_step(model, prompt, blank, tokens, inputs, informed, on_progress)

    return LabelReading(lambda passages: model.digest(passages, allowance), None, step)


def _said_step(labels: Sequence[str], inputs: Sequence[Any], _: Progress | None) -> Step:
    """Rows that are all but sure of what was said, of a group in parts of its units."""
    said = [[own.count(label) + _UNSAID for label in labels] for own in inputs]
    rows = torch.tensor(said, dtype=torch.float64).reshape(len(said), len(labels))
    public = torch.full((len(labels),), -math.log(len(labels)), dtype=torch.float64)
    return DenseStep(public, (rows / rows.sum(dim=1, keepdim=True)).log())
