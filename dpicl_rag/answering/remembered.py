"""Answers from memory: nothing is searched, reserved, drawn or kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence

from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.language_models.readers.notes import NOTE
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.prompts import PromptTemplate
from dpicl_rag.results import PrivateAnswer, StoppedBy


def released_before(
    text: str,
    question: str,
    corpus: str,
    tokenizer: Tokenizer,
    max_tokens: int,
    polish: Callable[[str], str] | None = None,
) -> PrivateStream:
    """A stream of an answer that was released before.

    Args:
        text: The answer.
        question: What is asked now.
        corpus: Whose it is.
        tokenizer: Of the model.
        max_tokens: Of an answer.
        polish: Writes it in other words, if anybody does.
    """

    def settle(text: str, tokens: int, stopped: StoppedBy, whole: bool) -> PrivateAnswer:
        released = PrivateAnswer(
            text=text,
            epsilon=0.0,
            delta=0.0,
            rho=0.0,
            tokens=0,
            stopped_by="end" if whole else "length",
            corpus=corpus,
            supported=True,
            from_memory=True,
            by="memory",
        )
        return released if polish is None or not whole else released.polished(polish)

    return PrivateStream(
        _no_tokens(),
        tokenizer,
        stop=(),
        max_tokens=max_tokens,
        start=text,
        question=question,
        held=polish is not None,
        finish=lambda: None,
        settle=settle,
    )


def form_of(template: PromptTemplate, stop: Sequence[str]) -> str:
    """A digest of all that shapes an answer beside question and documents, for the memory."""
    shaping: list[object] = [template.system, template.user, template.answer_prefix, stop]
    if template.note != NOTE:
        shaping.append(("note", template.note))
    return hashlib.sha256(repr(tuple(shaping)).encode("utf-8", "replace")).hexdigest()[:16]


def _no_tokens() -> Generator[int, None, None]:
    yield from ()
