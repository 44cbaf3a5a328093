"""Replies of the public model to small talk: no document is asked, so nothing is paid."""

from __future__ import annotations

from collections.abc import Generator

from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.answering.prompt_rows import likeliest_tokens, read_alone
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.language_models.out_of_memory import enough_memory
from dpicl_rag.language_models.readers.base import Reader
from dpicl_rag.language_models.readers.notes import notes
from dpicl_rag.prompts import Example, PromptTemplate
from dpicl_rag.results import PrivateAnswer, StoppedBy

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
    """A reply of the public model by itself: nothing is searched, reserved, charged or kept.

    Args:
        text: What was said, see `is_small_talk`.
        model: Replies, by its likeliest words.
        reader: Does so in its place, if there is one.
        config: Has the longest answer, and what ends it.
        corpus: Whose documents are not asked.
    """
    most = config.max_tokens

    def settle(said: str, tokens: int, stopped: StoppedBy, whole: bool) -> PrivateAnswer:
        return PrivateAnswer(
            text=said,
            epsilon=0.0,
            delta=0.0,
            rho=0.0,
            tokens=tokens,
            stopped_by="end" if stopped == "budget" else stopped,  # nobody pays
            corpus=corpus,
            by="public",
        )

    return PrivateStream(
        _words(text, model, most) if reader is None else _read_out(text, model, reader, most),
        model.tokenizer,
        stop=config.stop,
        max_tokens=most,
        start="",
        question=text,
        finish=lambda: None,
        settle=settle,
    )


def _words(text: str, model: LanguageModel, most: int) -> Generator[int, None, None]:
    prompt = _REPLY.cut(model.tokenizer, text)
    with enough_memory():
        rows = read_alone(model, prompt, room=most)
        yield from likeliest_tokens(lambda ids: rows.extend(ids).public, prompt.suffix, most)


def _read_out(
    text: str, model: LanguageModel, reader: Reader, most: int
) -> Generator[int, None, None]:
    read = notes(reader, text, f"{_REPLY.system}\n\n{_REPLY.user}")
    [said] = read([(_REPLY.no_document,)], None)
    yield from model.tokenizer.encode(" ".join(said))[:most]
