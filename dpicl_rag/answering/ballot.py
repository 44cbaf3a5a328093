"""The vote of one expert: a sentence, and the names and numbers of it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace

from dpicl_rag.answering.canonical_form import CanonicalForm, asks_how, canonical_form, short_form
from dpicl_rag.language_models.content_words import content_words


@dataclass(frozen=True, slots=True, repr=False)
class Ballot:
    """The vote of one expert. Private.

    Attributes:
        sentence: Its whole sentence, in canonical form; None where names and numbers are all.
        short: The names and numbers of it; the sentence where the question asks for more.
        words: Content words of the sentence that the question has not.
        named: The same of ``short``.
    """

    sentence: str | None = field(repr=False)
    short: str = field(repr=False)
    words: frozenset[str] = field(repr=False)
    named: frozenset[str] = field(repr=False)

    def within(self, document: Set[str]) -> Ballot | None:
        """What a document with these words carries of it; None if that is nothing.

        "You need to calculate 9 working days" may be said of a document that calculates nothing.
        """
        if self.words <= document:
            return self
        return replace(self, sentence=None) if self.named <= document else None


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
        short = short_form(key, asked) if shortens else key
        return Ballot(key, short, words, words if short == key else content_words(short) - asked)
    except Exception:
        return None  # one unit's words
