"""Subjects: what each unit is about, in a word or a few, as a model or a reader says.

A subject is a function of its own unit and of public text. No list of subjects is needed before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.language_models.base import LanguageModel, Progress, SpeakingRows
from dpicl_rag.language_models.hardware import enough_memory
from dpicl_rag.language_models.readers.notes import phrases
from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_rag.languages.content_words import content_words
from dpicl_rag.languages.languages import Language, language_data, language_of, says_nothing
from dpicl_rag.languages.prose import prose_for
from dpicl_rag.languages.sentences import first_sentence, mail_as_read
from dpicl_rag.prompts import Example, Prompt, PromptTemplate
from dpicl_rag.surveys.count_plans import units_of_a_step
from dpicl_rag.surveys.opinions import units_in_steps

_TOKENS = 12
_SYSTEM = "You read a document and say in one word what it is about."


def subject_template(language: Language) -> PromptTemplate:
    """How a model is asked for the subject of a document, with examples in several languages."""
    own = language_data("subject_examples.toml")[language.code]
    shown = tuple(Example(question=own["question"], **one) for one in own["shown"])
    return PromptTemplate(system=_SYSTEM, examples=shown)


def subjects(
    units: Mapping[str, Sequence[str]],
    request: str | None,
    run: PrivateRun,
    on_progress: Progress | None,
) -> list[str]:
    """The subject of each unit; empty where it says none. Private.

    Args:
        units: Passages of each. Private.
        request: In whose language subjects are wanted. Public.
        run: Reads them.
        on_progress: Called with the part of the units that is read.

    Raises:
        EngineUnavailableError: What reads them does not answer.
    """
    template = subject_template(language_of(request or ""))
    question = template.examples[0].question
    passages = [tuple(own) for own in units.values()]
    if run.reader is not None:
        said = phrases(run.reader, question, 1)(passages, on_progress, list(units))
        return [own[0] if own else "" for own in said]
    prompt = template.cut(run.model.tokenizer, question)
    most = prompt.allowance(run.model, run.config.unit_tokens, _TOKENS)
    together = units_of_a_step(most + len(prompt.suffix) + _TOKENS)
    shown = content_words(" ".join(one.answer for one in template.examples))
    found: list[str] = []
    for own, _ in units_in_steps(passages, together, on_progress):
        for unit, text in zip(own, _said(own, run.model, prompt, most), strict=True):
            found.append(_own_subject(text, unit, shown))
    return found


def _said(
    units: Sequence[Sequence[str]], model: LanguageModel, prompt: Prompt, most: int
) -> list[str]:
    """What a model says of each unit; empty of one without words."""
    inputs = [model.digest(list(map(mail_as_read, own)), most) for own in units]
    some = [one for one in inputs if one]  # no row reads nothing: an error would tell of it
    with enough_memory():
        rows = read(model, prompt, some, room=_TOKENS)
        assert isinstance(rows, SpeakingRows)
        said = iter(rows.continue_each(prompt.suffix, _TOKENS, [True] * len(some)))
    decode = model.tokenizer.decode
    return [first_sentence(decode(next(said).tokens)) if one else "" for one in inputs]


def subject_words(subject: str, request: str | None) -> tuple[str, ...]:
    """Words of a subject, each in one form: those that say something.

    Args:
        subject: What a unit says.
        request: In whose language subjects are wanted.
    """
    # As a reason is, a subject is told in words of its own.
    keys = answer_keys(prose_for(request).sentence("why"))
    try:
        return keys.parts(subject)
    except Exception:
        return ()  # one unit's words


def _own_subject(said: str, passages: Sequence[str], shown: Set[str]) -> str:
    """What a model says, if it is a subject and no copy of what it was shown. No error."""
    try:
        words = content_words(said)
        copied = words <= shown and not words <= content_words("\n".join(passages))
        return "" if copied or says_nothing(said) else said
    except Exception:
        return ""  # one unit's words
