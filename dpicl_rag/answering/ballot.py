"""The vote of one expert: a sentence, and the names and numbers of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from dpicl_rag.answering.canonical_form import CanonicalForm, canonical_form
from dpicl_rag.answering.short_form import asks_how, short_form
from dpicl_rag.language_models.content_words import content_words


@dataclass(frozen=True, slots=True, repr=False)
class Ballot:
    """The vote of one expert. Private.

    Attributes:
        sentence: Its whole sentence, in canonical form.
        short: The names and numbers of it; the sentence where the question asks for more.
        words: Content words of the sentence that the question has not.
    """

    sentence: str = field(repr=False)
    short: str = field(repr=False)
    words: frozenset[str] = field(repr=False)


def ballot_for(sentence: str, question: str, form: CanonicalForm) -> Ballot | None:
    """The vote of who says a sentence; None of what cannot be read, and nobody is told.

    Args:
        sentence: What is said.
        question: Public text.
        form: Canonical form of an answer; one of one's own is the only one.
    """
    asked = content_words(question)
    try:
        key, words = form(sentence), content_words(sentence) - asked
        if not isinstance(key, str) or not key.strip():
            return None
        shortens = form is canonical_form and not asks_how(question)
        return Ballot(key, short_form(key, asked) if shortens else key, words)
    except Exception:
        return None  # one unit's words
