"""Rehearsal: how well a model answers from public documents, and whether it can say nothing.

It answers as experts do, each from its document alone.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import Context
from dataclasses import dataclass, field, replace
from functools import cache, partial
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
from dpicl_rag.languages.sentences import mail_as_read
from dpicl_rag.prompts import Prompt, PromptTemplate
from dpicl_rag.rehearsal.rehearsal_items import RehearsalItem, rehearsal_items

_RIGHT = 0.7
"""Of what documents tell, the least part that a model answers right that may answer."""

_SILENT = 0.8
"""Of questions about something else than the document, the least part to which it says nothing.

What is asked near to a document has words of it: a filter by words would let it vote, too."""

_HOPELESS = 3 / 8
"""Of what they tell, the part of a model that need not be asked on: one that answers 80 % has so
little of the first eight once in a hundred times."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a model did in its rehearsal: a function of the model and of public text alone.

    A model that misreads most of the first questions is asked no others, and is not shown that a
    document may tell nothing.

    Attributes:
        told: Questions that were asked of documents that tell.
        right: How many of them it answered right, shown that a document may tell nothing.
        right_by_default: The same, not shown it; None where enough was right already.
        far: Questions that were asked of documents about something else.
        silent: How many of them it said nothing to, shown how.
        near: Questions that were asked of documents about the same thing that do not tell.
        silent_near: The same of these.
        by_language: The same of each language that was asked in.
    """

    told: int = 0
    right: int = 0
    right_by_default: int | None = None
    far: int = 0
    silent: int = 0
    near: int = 0
    silent_near: int = 0
    by_language: Mapping[str, Rehearsal] = field(default_factory=dict)

    @property
    def knows_silence(self) -> bool:
        """True of a model that answers where a document tells, and says nothing where it does not.

        Its experts are shown worked examples of both, and what they say decides who may vote.
        """
        return (
            self.told > 0 and self.right >= _RIGHT * self.told and self.silent >= _SILENT * self.far
        )

    @property
    def is_toy(self) -> bool:
        """True of a model that misreads too much, however it is asked."""
        return self.answered < _RIGHT * self.told

    @property
    def is_hopeless(self) -> bool:
        """True of a toy that misreads nearly all: more questions find out nothing more."""
        return self.answered <= _HOPELESS * self.told

    @property
    def verdict(self) -> str:
        """What follows, in plain words."""
        if not self.told:
            return "not rehearsed: its engine does not let a document answer by itself"
        if self.is_toy:
            return f"a toy: answers {self.answered} of {self.told}"
        silence = (
            f"stays silent on {self.silent} of {self.far} documents about something else, and on "
            f"{self.silent_near} of {self.near} that come near"
        )
        if self.knows_silence:
            return f"answers {self.right} of {self.told}, {silence}: may answer"
        return f"answers {self.answered} of {self.told}, but {silence}"

    @property
    def answered(self) -> int:
        """How many it answered right, asked in whatever way it does so best."""
        return max(self.right, self.right_by_default or 0)


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
    silently = _answers(model, list(map(_as_read, items)), usual.silent_for, advance)
    found = _counted(silently, {})
    if not found.is_toy:
        return found
    by_default |= _answers(model, told[_FIRST:], lambda _: usual, advance)
    return _counted(silently, by_default)


@cache
def rehearsal_version() -> str:
    """Hash of all that is read in a rehearsal, as the code makes it, and of what is right."""
    usual = PromptTemplate()
    read = [(_as_read(item), usual.silent_for(item.question)) for item in rehearsal_items()]
    return hashlib.sha256(f"{usual!r} {read!r}".encode()).hexdigest()


def _as_read(item: RehearsalItem) -> RehearsalItem:
    """As experts that may be silent read it, see `Question.digest`."""
    return replace(item, document=mail_as_read(item.document))


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
