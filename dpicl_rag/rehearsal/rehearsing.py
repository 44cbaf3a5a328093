"""Rehearsing: a model answers public items as experts do, each from its document alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import replace
from itertools import count

from dpicl_rag.errors import ContextLengthError
from dpicl_rag.language_models.base import LanguageModel, Progress, SpeakingRows
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.language_models.tokenizer import sentence_end_of
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.languages.languages import SILENT
from dpicl_rag.prompts import Prompt, PromptTemplate
from dpicl_rag.rehearsal.rehearsal import Rehearsal
from dpicl_rag.rehearsal.rehearsal_items import RehearsalItem, rehearsal_items

_FIRST = 8  # answers, after which a hopeless model is left

_TOGETHER = 12  # documents that are read in one go
_DOCUMENT_TOKENS = 512
_ANSWER_TOKENS = 32

Answers = Mapping[RehearsalItem, str]


def rehearse(model: LanguageModel, on_progress: Progress | None = None) -> Rehearsal:
    """Let a model answer; see `rehearsal_of`, which keeps what comes of it."""
    # In a context of its own it is one step, which shares no pass with answers.
    return Context().run(_rehearse, model, on_progress)


def _rehearse(model: LanguageModel, on_progress: Progress | None) -> Rehearsal:
    if isinstance(model, TransformersModel):
        model = model.with_cache(None)  # its place is for documents that are read again
    items = rehearsal_items()
    whole, answered = sum(2 if item.right else 1 for item in items), count(1)

    def advance() -> None:
        if on_progress is not None:
            on_progress(next(answered), whole)

    usual = PromptTemplate()
    told = [item for item in items if item.right]
    by_default = _answers(model, told[:_FIRST], lambda _: usual, advance)
    found = _counted({}, by_default)
    if found.is_hopeless:
        return found
    silently = _answers(model, items, usual.silent_for, advance)
    found = _counted(silently, {})
    if found.loses_little:
        return found
    by_default |= _answers(model, told[_FIRST:], lambda _: usual, advance)
    return _counted(silently, by_default)


def _counted(silently: Answers, by_default: Answers) -> Rehearsal:
    languages = dict.fromkeys(item.language for item in (*silently, *by_default))
    each = {one: _count(_of(one, silently), _of(one, by_default)) for one in languages}
    return replace(_count(silently, by_default), by_language=each)


def _of(language: str, answers: Answers) -> Answers:
    return {item: answer for item, answer in answers.items() if item.language == language}


def _count(silently: Answers, by_default: Answers) -> Rehearsal:
    asked = silently or by_default
    told = sum(item.right is not None for item in asked)
    return Rehearsal(
        told=told,
        right=_right(silently),
        right_by_default=_right(by_default) if by_default else None,
        untold=len(asked) - told,
        silent=sum(not item.right and says_nothing(answer) for item, answer in silently.items()),
    )


def _right(answers: Answers) -> int:
    return sum(item.is_right(answer) for item, answer in answers.items())


def says_nothing(answer: str) -> bool:
    """True of an answer that is the word for none."""
    return re.match(rf"\W*{SILENT}\b", answer) is not None


def _answers(
    model: LanguageModel,
    items: Sequence[RehearsalItem],
    template_of: Callable[[str], PromptTemplate],
    advance: Callable[[], None],
) -> dict[RehearsalItem, str]:
    """The first sentence that each document leads to; those of one template are read together."""
    templates = {item: template_of(item.question) for item in items}
    found: dict[RehearsalItem, str] = {}
    for template in dict.fromkeys(templates.values()):
        own = [item for item in items if templates[item] == template]
        for start in range(0, len(own), _TOGETHER):
            part = own[start : start + _TOGETHER]
            for item, answer in zip(part, _read(model, template, part), strict=True):
                found[item] = answer
                advance()
    return found


def _read(
    model: LanguageModel, template: PromptTemplate, items: Sequence[RehearsalItem]
) -> list[str]:
    """Answers to items; where they do not fit the model's context, none."""
    prompts = {item.question: template.cut(model.tokenizer, item.question) for item in items}
    first, *_ = prompts.values()
    try:
        most = min(
            prompt.allowance(model, _DOCUMENT_TOKENS, _ANSWER_TOKENS) for prompt in prompts.values()
        )
    except ContextLengthError:
        return [""] * len(items)
    public = model.digest((first.no_document,), most)
    documents = [model.digest((item.document,), most) for item in items]
    room = max(len(prompt.suffix) for prompt in prompts.values()) + _ANSWER_TOKENS
    rows = model.read(first.prefix, [public, *documents], room=room)
    assert isinstance(rows, SpeakingRows)
    said: list[Continuation | None] = [None] * len(items)
    for question, prompt in prompts.items():
        asked = [item.question == question for item in items]
        each = rows.continue_each(prompt.suffix, _ANSWER_TOKENS, asked)
        said = [new if one else old for one, new, old in zip(asked, each, said, strict=True)]
    return [
        _sentence(model, prompts[item.question], own)
        for item, own in zip(items, said, strict=True)
        if own is not None
    ]


def _sentence(model: LanguageModel, prompt: Prompt, said: Continuation) -> str:
    end = sentence_end_of(model.tokenizer)
    return model.tokenizer.decode(said.tokens[: end.at(said, end.words(prompt.suffix))]).strip()
