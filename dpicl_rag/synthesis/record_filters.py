"""Filters of records: they look at a record's own text alone, so they cost nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dpicl_rag.answering.prompt_rows import read_public_row
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.prompts import PromptTemplate, label_tokens

Keep = Callable[[str], bool]
"""Whether a record is kept, from its text. It must look at nothing private."""

_QUESTION = "Is this a complete and plausible record? Answer Yes or No."


def matching(pattern: str) -> Keep:
    """Keep records in which a regular expression is found.

    Raises:
        ConfigurationError: It is none.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"not a regular expression: {error}") from None
    return lambda text: compiled.search(text) is not None


def judged(model: LanguageModel, question: str = _QUESTION) -> Keep:
    """Keep records of which the public model says yes rather than no.

    Args:
        model: Reads the record, and nothing else.
        question: What it is asked, to be answered by Yes or No.
    """
    template = PromptTemplate(system="You check records.", examples=())
    prompt = template.cut(model.tokenizer, question)
    answers = label_tokens(model.tokenizer, ("Yes", "No"), prompt.lead)
    room = max(map(len, answers))

    def keep(text: str) -> bool:
        allowance = prompt.allowance(model, model.context_length, room)
        rows: Any = read_public_row(
            model, prompt, room=room, informed=model.digest([text], allowance)
        )
        rows.extend(prompt.suffix)
        yes, no = rows.score(answers).public.tolist()
        return bool(yes > no)

    return keep
