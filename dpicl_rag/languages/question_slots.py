"""Slots of questions: what two questions must have in common to ask for the same.

"Until when is the lift closed?" has another answer than "Is the lift closed?", which is of another
kind, than "Until when is the pool closed?", which is about another thing, and than "When is the
lift open?", which asks for the opposite. Verbs differ from one wording to the next; nouns, names,
times and numbers do not. A noun is told by its place: it stands with others behind "the", "a",
"on", "for", and who asks about "the new pool" does not ask about "the new sauna".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from dpicl_rag.languages.content_words import has_digit
from dpicl_rag.languages.languages import Language, QuestionKind, language_of

_WORD = re.compile(r"[^\W_]+")
_WHEN = frozenset({QuestionKind.TIME, QuestionKind.DATE, QuestionKind.WEEKDAY})
_BEING = frozenset(
    "am are is was were bin ist sind war waren est sont était étaient es son "  # noqa: SIM905
    "está están era è sono erano".split()
)
"""Auxiliaries that no verb need follow: "Where is the new pool?"."""
_APART = frozenset({QuestionKind.YES_OR_NO, QuestionKind.REASON, QuestionKind.MANNER})


@dataclass(frozen=True)
class QuestionSlots:
    """What a question asks for, and about what. Public.

    Attributes:
        language: Of the question.
        kind: Of answer that it asks for.
        firm: Stems of names and times, and numbers: who asks for the same has them all.
        nouns: Stems of other nouns. One question may have more of them.
        words: Stems of all words that say something.
        bounds: Words like "until".
        plain: All words, in small letters.
    """

    language: Language
    kind: QuestionKind
    firm: frozenset[str]
    nouns: frozenset[str]
    words: frozenset[str]
    bounds: frozenset[str]
    plain: frozenset[str]

    @property
    def names_something(self) -> bool:
        """Whether a noun, a name, a time or a number says what it is about."""
        return bool(self.firm or self.nouns)

    def agree(self, other: QuestionSlots) -> bool:
        """Whether the other asks for the same, in whatever words."""
        return (
            self.language is other.language
            and _same_kind(self.kind, other.kind)
            and self.bounds == other.bounds
            and self.firm <= other.words
            and other.firm <= self.words
            and self._same_things(other)
            and self._about_the_same(other)
            and not self._opposes(other)
        )

    def _same_things(self, other: QuestionSlots) -> bool:
        """True of "the refund" and "the refund on my account", not of pool and sauna."""
        here, there = self.nouns <= other.words, other.nouns <= self.words
        if self.kind is other.kind or {self.kind, other.kind} <= _WHEN:
            return here or there
        # What "what" asks for, the noun behind it says alone.
        return here if self.kind is QuestionKind.OTHER else there

    def _about_the_same(self, other: QuestionSlots) -> bool:
        both = (self.nouns | self.firm) & other.words | (other.nouns | other.firm) & self.words
        return bool(both) or self.words == other.words

    def _opposes(self, other: QuestionSlots) -> bool:
        one, two = self.plain - other.plain, other.plain - self.plain
        return any(
            pair & one and pair & two and pair <= one | two for pair in self.language.opposites
        )


def same_asked(one: str, other: str) -> bool:
    """Whether two public questions agree in kind and in slots."""
    return slots_of(one).agree(slots_of(other))


@lru_cache(maxsize=256)
def slots_of(question: str) -> QuestionSlots:
    """The slots of a question.

    Args:
        question: Public text; the part that asks.
    """
    language = language_of(question)
    words = [found.group() for found in _WORD.finditer(question)]
    folded = [word.casefold() for word in words]
    kind = language.kind(question)
    said = {at for at, word in enumerate(folded) if _says_something(language, word)}
    firm = {at for at in said if _is_firm(language, words, at)}
    nouns = noun_places(language, folded) - firm

    def stems(places: set[int]) -> frozenset[str]:
        return frozenset(language.stem(folded[at]) for at in places)

    when = kind in _WHEN or kind is QuestionKind.YES_OR_NO
    bounds = language.bounds & frozenset(folded) if when else frozenset()
    every = language.content_words(question)
    return QuestionSlots(
        language, kind, stems(firm), stems(nouns), every, bounds, frozenset(folded)
    )


def _says_something(language: Language, word: str) -> bool:
    return not language.says_little(word) and word not in language.generic


def _is_firm(language: Language, words: list[str], at: int) -> bool:
    word = words[at]
    name = at > 0 and word[:1].isupper() and not language.nouns_have_capitals
    return name or has_digit(word) or language.is_time(word.casefold())


def noun_places(language: Language, folded: list[str]) -> set[int]:
    """Places of nouns among words in small letters, and of what stands before them: "new pool".

    They stand behind a preposition or a determiner. The last of several is a verb where another
    determiner follows ("the auditor wants a"), or an auxiliary leads ("does the pool open").
    """
    leading = language.prepositions | language.determiners
    said = {at for at, word in enumerate(folded) if _says_something(language, word)}
    places = set[int]()
    at = 1
    while at < len(folded):
        first, lead = at, folded[at - 1]
        at += 1
        if lead not in leading or lead in language.bounds or lead == "to" or first not in said:
            continue
        while at in said:
            at += 1
        led = first > 1 and folded[first - 2] in language.auxiliaries - _BEING
        verb = led or (at < len(folded) and folded[at] in language.determiners)
        places.update(range(first, max(first + 1, at - verb)))
    return places


def _same_kind(one: QuestionKind, other: QuestionKind) -> bool:
    """Whether an answer to one can be one to the other."""
    if one is other or {one, other} <= _WHEN:
        return True
    # "What is it called?" may ask for a person, a place or a number.
    return QuestionKind.OTHER in (one, other) and not _APART & {one, other}
