"""Polish: a released answer in a fluent sentence, by a reader that sees public text alone."""

from __future__ import annotations

from functools import partial

from dpicl_rag.errors import DPICLError
from dpicl_rag.language_models.readers.base import Reader
from dpicl_rag.language_models.readers.notes import first_line

_POLISH = (
    "Write the answer to the question as one fluent sentence. Say what the answer says, in its own "
    "words where you can, and add nothing.\n\nQuestion: {question}\n\nAnswer: {answer}"
)


def polished(reader: Reader, question: str, released: str) -> str:
    """The released text in other words, or as it is where the reader gives none.

    Post-processing of what was released, so it costs no budget.

    Args:
        reader: Asked once.
        question: Public text.
        released: Public too, by now.
    """
    asked, answered = _POLISH.split("{answer}")
    prompt = partial(str.replace, asked, "{question}")
    try:
        (reply,) = reader.replies([prompt(question) + released + answered])
    except DPICLError:
        return released
    return first_line(reply) or released
