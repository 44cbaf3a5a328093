"""Rehearsing: a model answers public items as experts do, each from its document alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import Context
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TypeVar

from dpicl_rag.errors import ContextLengthError, MissingDependencyError
from dpicl_rag.language_models.base import LanguageModel, Progress, SpeakingRows
from dpicl_rag.language_models.joint_passes import JointPasses
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.language_models.tokenizer import sentence_end_of
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.languages.languages import says_nothing
from dpicl_rag.prompts import Prompt, PromptTemplate
from dpicl_rag.rehearsal.rehearsal import Rehearsal
from dpicl_rag.rehearsal.rehearsal_items import RehearsalItem, rehearsal_items

_FIRST = 8  # answers, after which a hopeless model is left

_TOGETHER = 12  # questions that share passes
_DOCUMENT_TOKENS = 512
_ANSWER_TOKENS = 32

Answers = Mapping[RehearsalItem, str]
T = TypeVar("T")


def rehearse(model: LanguageModel, on_progress: Progress | None = None) -> Rehearsal:
    """Let a model answer; see `rehearsal_of`, which keeps what comes of it."""
    # In a context of its own it is one step, which shares no pass with answers.
    return Context().run(_rehearse, model, on_progress)


def _rehearse(model: LanguageModel, on_progress: Progress | None) -> Rehearsal:
    if isinstance(model, TransformersModel):
        # Its own place is for documents that are read again; here prefixes are.
        model = model.with_cache(PrefixCache())
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
    if not found.is_toy:
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
    near = {item: answer for item, answer in silently.items() if item.near}
    far = {item: answer for item, answer in silently.items() if not (item.right or item.near)}
    return Rehearsal(
        told=sum(item.right is not None for item in asked),
        right=_right(silently),
        right_by_default=_right(by_default) if by_default else None,
        far=len(far),
        silent=sum(map(says_nothing, far.values())),
        near=len(near),
        silent_near=sum(map(says_nothing, near.values())),
    )


def _right(answers: Answers) -> int:
    return sum(item.is_right(answer) for item, answer in answers.items())


def _answers(
    model: LanguageModel,
    items: Sequence[RehearsalItem],
    template_of: Callable[[str], PromptTemplate],
    advance: Callable[[], None],
) -> dict[RehearsalItem, str]:
    """The first sentence that each document leads to."""
    found: dict[RehearsalItem, str] = {}
    asked = defaultdict[str, list[RehearsalItem]](list)
    for item in items:
        asked[item.question].append(item)
    works = [partial(_read, model, template_of(one), own, advance) for one, own in asked.items()]
    for start in range(0, len(works), _TOGETHER):
        for answers in _side_by_side(works[start : start + _TOGETHER]):
            found |= answers
    return found


def _side_by_side(works: Sequence[Callable[[], T]]) -> list[T]:
    """Results of work that shares passes of the model, where greenlet is installed.

    Of a pass with few rows most is the same work for any number of them, and each keeps its bits.
    """
    try:
        passes = JointPasses()
    except MissingDependencyError:
        return [work() for work in works]
    results: list[Future[T]] = [Future() for _ in works]
    for result, work in zip(results, works, strict=True):
        passes.start(partial(_settle, result, work))
    while passes.waiting:
        passes.run_pass()
    return [result.result() for result in results]


def _settle(result: Future[T], work: Callable[[], T]) -> None:
    try:
        result.set_result(work())
    except Exception as error:
        result.set_exception(error)


def _read(
    model: LanguageModel,
    template: PromptTemplate,
    items: Sequence[RehearsalItem],
    advance: Callable[[], None],
) -> dict[RehearsalItem, str]:
    """Answers of documents to one question; where it does not fit the model's context, none."""
    prompt = template.cut(model.tokenizer, items[0].question)
    try:
        most = prompt.allowance(model, _DOCUMENT_TOKENS, _ANSWER_TOKENS)
    except ContextLengthError:
        return dict.fromkeys(items, "")
    texts = (prompt.no_document, *(item.document for item in items))
    inputs = [model.digest((text,), most) for text in texts]
    rows = model.read(prompt.prefix, inputs, room=len(prompt.suffix) + _ANSWER_TOKENS)
    assert isinstance(rows, SpeakingRows)
    said = rows.continue_each(prompt.suffix, _ANSWER_TOKENS, [True] * len(items))
    found = {}
    for item, own in zip(items, said, strict=True):
        found[item] = _sentence(model, prompt, own)
        advance()
    return found


def _sentence(model: LanguageModel, prompt: Prompt, said: Continuation) -> str:
    end = sentence_end_of(model.tokenizer)
    return model.tokenizer.decode(said.tokens[: end.at(said, end.words(prompt.suffix))]).strip()
