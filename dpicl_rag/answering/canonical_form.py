"""Forms of sentences: canonical, short for counting, as a vote, and as they are shown.

The canonical form is what two experts must have in common to say the same. It is what is released,
so nothing that only one expert said can be in it.

Threads word a fact each in its own way, and yet give the same number, date or name. So where too
few experts say the same sentence, what is counted is that part of it, the short form. English, like
`content_words`: names are words with a capital.

The shown form has the articles of the question: post-processing of what was released.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter

from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_rag.languages.content_words import (
    FUNCTION_WORDS,
    content_words,
    digits_for_words,
    has_digit,
)
from dpicl_rag.languages.languages import Language, languages
from dpicl_rag.normal_forms import normal_form

CanonicalForm = Callable[[str], str | None]
"""From an expert's words to the words that stand for them; None, or no text, for no vote. Public:
a function of its argument alone."""

_QUOTES = str.maketrans("", "", '"`*\u201c\u201d\u201e\u00ab\u00bb')
_AROUND = " \t\r\n.,;:!?'\u3002"

# "The refund", "a refund" and "our refund" are the same; "plan A" stays.
_ARTICLES = re.compile(r"(?:^(?:A|An|The|Our|Your|My)|\b(?:a|an|the|our|your|my))\s+(?=\w)")

_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTHS})\b")
_MONTH_FIRST = re.compile(rf"\b({_MONTHS})\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?![.:]\d)")
_CENTS = re.compile(r"(?<=\d)\.00(?=\s|$)")
_DOTTED_TIME = re.compile(r"\b(\d{1,2})\.(\d\d)(?=\s*[ap]\.?m\b)", re.IGNORECASE)
_LEADING_ZERO = re.compile(r"\b0(?=\d:\d\d\b)")
_HALF_DAY = re.compile(r"(?<=\d)\s*([ap])\.?m\b\.?", re.IGNORECASE)
_UNITS = {"s": "seconds", "sec": "seconds", "secs": "seconds", "min": "minutes", "mins": "minutes"}
_UNIT = re.compile(rf"(?<=\d)\s*({'|'.join(_UNITS)})\b\.?")


def canonical_form(text: str) -> str | None:
    """NFKC, single spaces, no marks around, no articles; numbers, dates and times in one form."""
    form = normal_form("NFKC", text).translate(_QUOTES)
    if not all(character.isprintable() or character.isspace() for character in form):
        return None
    plain = _ARTICLES.sub("", _numbers(" ".join(form.split())))
    return " ".join(plain.split()).strip(_AROUND) or None


def _numbers(text: str) -> str:
    """Numbers in digits, dates as "3 March", times as "6:40"."""
    text = _DOTTED_TIME.sub(r"\1:\2", _CENTS.sub("", digits_for_words(text)))
    text = _LEADING_ZERO.sub("", text)
    text = _MONTH_FIRST.sub(r"\2 \1", _DAY_FIRST.sub(r"\1 \2", text))
    text = _HALF_DAY.sub(lambda found: f" {found.group(1).lower()}m", text)
    return _UNIT.sub(lambda found: f" {_UNITS[found.group(1)]}", text)


_MARKS = ".,;:!?()"
_WITH_NUMBER = 2  # words that belong to a number before them: "9 working days"

# "How do I ...", "Why ...", "What should I do ..." ask for more than a name or a number.
_AUXILIARY = "am|are|can|could|did|do|does|is|may|might|must|shall|should|to|was|were|will|would"
_HOW = re.compile(
    rf"\b(?:how\s+(?:{_AUXILIARY})|why|what\s+(?:{_AUXILIARY})\b.*\bdo)\b", re.IGNORECASE
)


def asks_how(question: str) -> bool:
    """True of a question that asks for more than a name or a number."""
    return _HOW.search(question) is not None


def short_form(form: str, asked: frozenset[str], language: Language | None = None) -> str:
    """Names and numbers of a sentence, and the words that belong to them; all of it without any.

    In German a capital tells nothing: there one run of nouns that are news is a name, of several
    none is: "Arbeiten Stadtwerke" is a fragment.

    Args:
        form: Canonical form of the sentence.
        asked: Content words of the question: they say nothing new.
        language: Of the question; English if None.
    """
    language = language or languages()[0]
    words = [word.strip(_MARKS) for word in form.split()]
    kept = {at for at, word in enumerate(words) if _is_value(word) and _is_news(word, asked)}
    # The first word has a capital anyhow.
    if 0 in kept and not (has_digit(words[0]) or words[0][1:].lower() != words[0][1:]):
        kept -= set() if 1 in kept and words[1][1:].islower() else {0}
    # "Tallow Street" is the name, also where a street was asked for.
    names = [name for name in _names(words, language) if kept.intersection(name)]
    if language.nouns_have_capitals:
        firm = {at for at in kept if has_digit(words[at]) or language.is_date(words[at].casefold())}
        kept, names = (firm, []) if firm else (kept, names if len(names) == 1 else [])
        if not firm and not names:
            return form
    kept |= {at for name in names for at in name}
    for at in sorted(at for at in kept if has_digit(words[at])):
        for after in range(at + 1, min(at + 1 + _WITH_NUMBER, len(words))):
            # "45 EUR per" is no phrase.
            if _is_little(words[after], language):
                break
            kept.add(after)
            # "12 Uhr", and not "12 Uhr abgestellt".
            if language.nouns_have_capitals and words[after][:1].isupper():
                break
    return " ".join(words[at] for at in sorted(kept)) or form


def _is_little(word: str, language: Language) -> bool:
    return word.casefold() in FUNCTION_WORDS or language.says_little(word.casefold())


def _names(words: Sequence[str], language: Language) -> Iterator[list[int]]:
    """Places of words with a capital that stand together."""
    capital = (word[:1].isupper() and not _is_little(word, language) for word in words)
    for is_name, group in groupby(enumerate(capital), key=itemgetter(1)):
        if is_name:
            yield [at for at, _ in group]


def _is_value(word: str) -> bool:
    return has_digit(word) or word[:1].isupper()


def _is_news(word: str, asked: frozenset[str]) -> bool:
    """True of a word that says something that the question does not."""
    return word.casefold() not in FUNCTION_WORDS and not content_words(word) <= asked


@dataclass(frozen=True, slots=True, repr=False)
class SentenceVote:
    """The vote of one expert. Private.

    Attributes:
        sentence: Its whole sentence, in canonical form; None where keys are all.
        keys: What it has in common with other wordings: the time that was asked for, names and
            numbers, or the sentence where the question asks for more. At least one.
        words: Content words of the sentence that the question has not.
        named: The same of ``keys``.
        of_kind: Whether the keys are of the kind that the question asks for, see `AnswerKeys`: a
            document may state them in other words.
    """

    sentence: str | None = field(repr=False)
    keys: tuple[str, ...] = field(repr=False)
    words: frozenset[str] = field(repr=False)
    named: frozenset[str] = field(repr=False)
    of_kind: bool = False

    @property
    def short(self) -> str:
        """The keys in one."""
        return ", ".join(self.keys)

    def within(
        self, document: Set[str], states: Callable[[str], bool] | None = None
    ) -> SentenceVote | None:
        """The part of it that a document with these words carries; None if that is nothing.

        "You need to calculate 9 working days" may be said of a document that calculates nothing.

        Args:
            document: Content words of it.
            states: Whether it states a key, in whatever form; None asks for the words of the keys.
        """
        whole = self.sentence if self.words <= document else None
        if states is None:
            return replace(self, sentence=whole) if whole or self.named <= document else None
        if keys := tuple(key for key in self.keys if states(key)):
            return replace(self, sentence=whole, keys=keys)
        return None if whole is None else replace(self, keys=(whole,), of_kind=False)


def vote_for(
    sentence: str, question: str, form: CanonicalForm, *, by_parts: bool = False
) -> SentenceVote | None:
    """The vote for a sentence; None of what cannot be read, without an error.

    Args:
        sentence: What is said.
        question: Public text.
        form: Canonical form of an answer; one of one's own is the only one.
        by_parts: Whether words of reasons, ways and lists are keys, too, and keys are all: a
            sentence without one is no vote.
    """
    asked = content_words(question)
    try:
        key, words = form(sentence), content_words(sentence) - asked
        if not isinstance(key, str) or not key.strip():
            return None
        if form is not canonical_form:
            return SentenceVote(key, (key,), words, words)
        of_question = answer_keys(question)
        if of_question.by_value or by_parts:
            found = of_question.parts if by_parts else of_question.of
            if keys := found(sentence, by_parts=by_parts):
                return SentenceVote(key, keys, words, content_words(" ".join(keys)), of_kind=True)
            if by_parts:
                return None  # it is no answer of the kind that was asked for
        whole = of_question.by_value or asks_how(question)
        short = key if whole else short_form(key, asked, of_question.language)
        return SentenceVote(
            key, (short,), words, words if short == key else content_words(short) - asked
        )
    except Exception:
        return None  # one unit's words


_SPOKEN_FOR = frozenset({"a", "an", "the", "our", "your", "my", "no", "this", "that"})
_ARTICLE = re.compile(r"\b(a|an|the)\s+(\w+)", re.IGNORECASE)


def shown_form(form: str, question: str, *, begins: bool) -> str:
    """A canonical form as a sentence, or as the end of one; without the mark at its end.

    Args:
        form: The form.
        question: "How long does a refund take?" says that it is "a refund".
        begins: Whether it begins a sentence.
    """
    articles: dict[frozenset[str], str] = {}
    for article, word in _ARTICLE.findall(question):
        articles.setdefault(content_words(word), article.lower())
    shown: list[str] = []
    for word in form.split(" "):
        article = articles.pop(content_words(word), None)
        # "No refund" and "9 refunds" have none.
        fits = not shown or (shown[-1].islower() and shown[-1] not in _SPOKEN_FOR)
        shown += [article, word] if article and fits else [word]
    text = " ".join(shown)
    return text[:1].upper() + text[1:] if begins else text
