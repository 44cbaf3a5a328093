"""Answers that cost nothing: to small talk, and those that were released before.

No document is searched, nothing is reserved, charged or kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace

from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.answering.prompt_rows import likeliest_tokens, read_public_row
from dpicl_rag.answering.written_sentences import with_counts
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.knowledge.bundle import PublishedItem
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.language_models.hardware import enough_memory
from dpicl_rag.language_models.readers.base import Reader
from dpicl_rag.language_models.readers.notes import NOTE, notes
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.languages.request_kinds import one_person_reply
from dpicl_rag.prompts import Example, PromptTemplate
from dpicl_rag.results import (
    UNSUPPORTED,
    AgreedPart,
    PrivateAnswer,
    ReleasedBy,
    StoppedBy,
)

_REPLY = PromptTemplate(
    system=(
        "You greet people who ask questions about documents. Reply to small talk in its own "
        "language with one short sentence. State no facts."
    ),
    user="{document}\n\n{question}",
    examples=(
        Example("Small talk:", "Hello!", "Hello! What would you like to know?"),
        Example("Small talk:", "Vielen Dank!", "Gern geschehen!"),
        Example(
            "Small talk:", "How are you?", "I am well, thank you. What would you like to know?"
        ),
    ),
    no_document="Small talk:",
)


def public_reply(
    text: str, model: LanguageModel, reader: Reader | None, config: PrivacyConfig, corpus: str
) -> PrivateStream:
    """A reply of the public model by itself.

    Args:
        text: What was said, see `is_small_talk`.
        model: Replies, by its likeliest words.
        reader: Does so in its place, if there is one.
        config: Has the longest answer, and what ends it.
        corpus: Whose documents are not asked.
    """
    most = config.max_tokens

    def finish(said: str, tokens: int, stopped: StoppedBy, whole: bool) -> PrivateAnswer:
        ended: StoppedBy = "end" if stopped == "budget" else stopped  # nobody pays
        return _free_answer(said, corpus, "public", ended, tokens=tokens)

    return PrivateStream(
        _words(text, model, most) if reader is None else _read_out(text, model, reader, most),
        model.tokenizer,
        stop=config.stop,
        max_tokens=most,
        start="",
        question=text,
        close=lambda: None,
        finish=finish,
    )


def _words(text: str, model: LanguageModel, most: int) -> Generator[int, None, None]:
    prompt = _REPLY.cut(model.tokenizer, text)
    with enough_memory():
        rows = read_public_row(model, prompt, room=most)
        yield from likeliest_tokens(lambda ids: rows.extend(ids).public, prompt.suffix, most)


def _read_out(
    text: str, model: LanguageModel, reader: Reader, most: int
) -> Generator[int, None, None]:
    read = notes(reader, text, f"{_REPLY.system}\n\n{_REPLY.user}")
    [said] = read([(_REPLY.no_document,)], None)
    yield from model.tokenizer.encode(" ".join(said))[:most]


def released_before(
    text: str,
    question: str,
    corpus: str,
    tokenizer: Tokenizer,
    max_tokens: int,
    polish: Callable[[str], str] | None = None,
    parts: tuple[AgreedPart, ...] = (),
) -> PrivateStream:
    """A stream of an answer that was released before.

    Args:
        text: The answer.
        question: What is asked now.
        corpus: Whose it is.
        tokenizer: Of the model.
        max_tokens: Of an answer.
        polish: Writes it in other words, if anybody does.
        parts: What was released with it, see `PrivateAnswer`.
    """

    def finish(text: str, tokens: int, stopped: StoppedBy, whole: bool) -> PrivateAnswer:
        ended: StoppedBy = "end" if whole else "length"
        released = _free_answer(text, corpus, "memory", ended, supported=True, from_memory=True)
        if polish is not None and whole:
            released = released.polished(polish)
        return with_counts(replace(released, parts=parts), question)

    return _said(
        text, question, tokenizer, max_tokens, finish, held=polish is not None or bool(parts)
    )


def published_answer(
    item: PublishedItem | None, question: str, corpus: str, tokenizer: Tokenizer, max_tokens: int
) -> PrivateStream:
    """A stream of an answer that was published.

    Args:
        item: Of a bundle; None where it does not tell.
        question: What is asked now.
        corpus: Whose it is.
        tokenizer: Of the model.
        max_tokens: Of an answer.
    """
    told = item is not None

    def finish(text: str, tokens: int, stopped: StoppedBy, whole: bool) -> PrivateAnswer:
        ended: StoppedBy = "end" if whole else "length"
        by: ReleasedBy | None = "published" if told else None
        return _free_answer(text, corpus, by, ended, supported=told, from_memory=told)

    text = UNSUPPORTED if item is None else item.text
    return _said(text, question, tokenizer, max_tokens, finish)


def _said(
    text: str,
    question: str,
    tokenizer: Tokenizer,
    max_tokens: int,
    finish: Callable[[str, int, StoppedBy, bool], PrivateAnswer],
    *,
    held: bool = False,
) -> PrivateStream:
    """A stream of words that are there already."""
    return PrivateStream(
        _no_tokens(),
        tokenizer,
        stop=(),
        max_tokens=max_tokens,
        start=text,
        question=question,
        held=held,
        close=lambda: None,
        finish=finish,
    )


def ready_stream(answer: PrivateAnswer, question: str, tokenizer: Tokenizer) -> PrivateStream:
    """A stream of an answer that is there already, and paid for.

    Args:
        answer: Comes whole, wherever the stream is closed.
        question: What is asked.
        tokenizer: Of the model.
    """
    return PrivateStream(
        _no_tokens(),
        tokenizer,
        stop=(),
        max_tokens=1,
        start=answer.text,
        question=question,
        close=lambda: None,
        finish=lambda *_: answer,
    )


def reply_about_one(question: str, corpus: str) -> PrivateAnswer:
    """A fixed sentence in place of what one person said: what can be asked instead. It is free.

    Args:
        question: Public.
        corpus: Whose documents are not asked.
    """
    reply = one_person_reply(question)
    return replace(
        _free_answer(reply, corpus, "public", "end", supported=False),
        kind="person",
        question=question,
    )


def _no_tokens() -> Generator[int, None, None]:
    yield from ()


def _free_answer(
    text: str,
    corpus: str,
    by: ReleasedBy | None,
    stopped: StoppedBy,
    *,
    tokens: int = 0,
    supported: bool | None = None,
    from_memory: bool = False,
) -> PrivateAnswer:
    return PrivateAnswer(
        text=text,
        epsilon=0.0,
        delta=0.0,
        rho=0.0,
        tokens=tokens,
        stopped_by=stopped,
        corpus=corpus,
        supported=supported,
        from_memory=from_memory,
        by=by,
    )


def form_of(template: PromptTemplate, stop: Sequence[str]) -> str:
    """A digest of all that shapes an answer beside question and documents, for the memory."""
    shaping: list[object] = [template.system, template.user, template.answer_prefix, stop]
    if template.note != NOTE:
        shaping.append(("note", template.note))
    return hashlib.sha256(repr(tuple(shaping)).encode("utf-8", "replace")).hexdigest()[:16]
