"""Languages of questions: their function words, the words that ask, times, months and weekdays.

The language of a question is a function of it, and public. Data stand in ``languages.toml``;
months and weekdays come from babel.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

_WORD = re.compile(r"[^\W\d_]+")
_WORD_OR_NUMBER = re.compile(r"[^\W_]{1,99}")
_POSSESSIVE = re.compile(r"(?<=\w)['\u2019]s\b")
_LETTERS = {"de": "ßäöü", "fr": "êçœâîôûë", "es": "¿¡ñ", "it": "òì"}
"""Letters that tell a language from others."""


class QuestionKind(StrEnum):
    """The kind of answer that a question asks for.

    In the order in which they are looked for: "why is it closed" asks for a reason, and "is it
    closed" for yes or no.
    """

    REASON = "reason"
    MANNER = "manner"
    NUMBER = "number"
    WEEKDAY = "weekday"
    TIME = "time"
    DATE = "date"
    PERSON = "person"
    PLACE = "place"
    LIST = "list"
    YES_OR_NO = "yes_or_no"
    OTHER = "other"


@dataclass(frozen=True)
class Things:
    """Words for a thing that was named before.

    Attributes:
        pronouns: Stand for one.
        idle: A question whose pronoun stands for none: "Is it possible to swim?".
        joined_by: Prepositions between what is one thing: "the fee for a key".
        many: The end of a word for several.
    """

    pronouns: frozenset[str]
    idle: re.Pattern[str]
    joined_by: frozenset[str]
    many: re.Pattern[str]

    @staticmethod
    def of(data: Mapping[str, Any]) -> Things:
        """As the file has them."""
        idle = re.compile(rf"\b(?:{'|'.join(data['idle'])})\b", re.IGNORECASE)
        pronouns, joined_by = (frozenset(data[one].split()) for one in ("pronouns", "joined_by"))
        return Things(pronouns, idle, joined_by, re.compile(rf"{data['many']}$", re.IGNORECASE))


@dataclass(frozen=True, eq=False)
class Language:
    """A language, as far as answers need it.

    Attributes:
        code: Of two letters (ISO 639-1).
        function_words: Words that say nothing by themselves, in small letters.
        titles: Words before names of persons.
        asks: For each kind of question, how it begins.
        weekdays: Names in small letters, with their numbers; Monday is 1.
        days: Those that a word names, one or, as "weekends", several.
        yes: Words that affirm.
        no: Words that deny.
        negations: Words that turn what a sentence says into its opposite.
        conjunctions: Words that join a question to one before it.
        prepositions: Words that a phrase begins with.
        determiners: Words that stand before a noun.
        auxiliaries: Verbs that say nothing by themselves.
        day_times: Words of times that are no weekday and no month.
        things: How it speaks of a thing that was named before; None of a language whose words for
            one are those for persons, too.
        person_pronouns: Words for a person who was named before; none of such a language.
        generic: Nouns that one wording of a question has and another lacks.
        at_present: Words of a question that an answer to it leaves out.
        announcing: Words of an answer that only announce a reason.
        timetables: Words of a question for all times, such as opening hours.
        bounds: Words of a time until which something is so.
        contrasts: Words that take back a part of what was said before them.
        opposites: Pairs of words: who asks for one does not ask for the other.
        abbreviations: Before a point that ends no sentence.
        closing_abbreviations: Before one that ends a sentence where the next word has a capital.
        before_numbers: Before one that ends none where a number follows.
    """

    code: str
    function_words: frozenset[str]
    titles: frozenset[str]
    asks: dict[QuestionKind, re.Pattern[str]]
    weekdays: dict[str, int]
    days: dict[str, frozenset[int]]
    yes: frozenset[str]
    no: frozenset[str]
    negations: frozenset[str]
    conjunctions: frozenset[str]
    prepositions: frozenset[str]
    determiners: frozenset[str]
    auxiliaries: frozenset[str]
    day_times: frozenset[str]
    things: Things | None
    person_pronouns: frozenset[str]
    generic: frozenset[str]
    at_present: frozenset[str]
    announcing: frozenset[str]
    timetables: frozenset[str]
    bounds: frozenset[str]
    contrasts: frozenset[str]
    opposites: tuple[frozenset[str], ...]
    abbreviations: frozenset[str]
    closing_abbreviations: frozenset[str]
    before_numbers: frozenset[str]
    _stemmer: str
    _polite: re.Pattern[str]
    _months: dict[str, int]
    _hours: dict[str, int]
    _times: tuple[tuple[re.Pattern[str], int], ...]
    _dates: tuple[re.Pattern[str], ...]

    @property
    def name(self) -> str:
        """Its English name."""
        return self._stemmer.capitalize()

    @property
    def locale(self) -> str:
        """Its name in babel; English has the day before the month."""
        return "en_GB" if self.code == "en" else self.code

    @property
    def nouns_have_capitals(self) -> bool:
        """Whether a capital tells nothing: not all nouns are names."""
        return self.code == "de"

    def is_date(self, word: str) -> bool:
        """True of months and weekdays, in small letters."""
        return word in self._months or word in self.weekdays

    def stem(self, word: str) -> str:
        """What a word in small letters has in common with its other forms."""
        import snowballstemmer

        # A stemmer holds the word that it is at: threads that shared one would stem each other's.
        return str(snowballstemmer.stemmer(self._stemmer).stemWord(word))

    def is_month(self, word: str) -> bool:
        """True of names of months and what is short for them, in small letters."""
        return word in self._months

    def is_language_or_country(self, word: str) -> bool:
        """True of names of languages and countries, in small letters."""
        return word in _languages_and_countries(self.code)

    def begins_month(self, letters: str) -> bool:
        """True of the first letters of a month's name, and of all of it."""
        return any(month.startswith(letters) for month in self._months)

    def is_time(self, word: str) -> bool:
        """True of weekdays, months, parts of a day and of a year, in small letters."""
        return self.is_date(word) or word in self.day_times

    def leads_on(self, word: str) -> bool:
        """True of words in small letters that no phrase ends with: "per", "the", "and"."""
        return word in self.prepositions or word in self.determiners or word in self.conjunctions

    def says_little(self, word: str) -> bool:
        """True of words that say nothing by themselves, in small letters."""
        return word in self.function_words or word in self.auxiliaries or self.leads_on(word)

    def without_conjunction(self, question: str) -> str:
        """The question that stands behind "And", or the question as it is."""
        joined = "|".join(self.conjunctions)
        return re.sub(rf"^[\s¿¡]*(?:(?:{joined})\b[\s,¿]*)+", "", question, flags=re.IGNORECASE)

    def content_words(self, text: str) -> frozenset[str]:
        """Stems of the words of a text that say something, and its numbers."""
        return frozenset(self.content_stems(text))

    def content_stems(self, text: str) -> list[str]:
        """The same in their order."""
        words = _WORD_OR_NUMBER.findall(_POSSESSIVE.sub("", text.casefold()))
        return [self.stem(word) for word in words if not self.says_little(word)]

    def kind(self, question: str) -> QuestionKind:
        """The kind of answer that a question asks for.

        Args:
            question: Public text in this language. What stands behind "And" says its kind.
        """
        text = " ".join(question.casefold().split())
        # "And at weekends, when do you open?"
        sentences = map(self.without_conjunction, re.split(r"[:.!?]\s", text))
        clauses = [part.strip(" ¿¡") for one in sentences for part in re.split(r"[,;]\s", one)]
        # "Could you tell me when it opens?" asks when.
        clauses = [
            part[match.end() :] if (match := self._polite.match(part)) else part for part in clauses
        ]
        for kind, begins in self.asks.items():
            if any(map(begins.match, clauses)):
                # "Quels sont les horaires ?" asks for no items.
                all_times = kind is QuestionKind.LIST and self.asks_for_hours(question)
                return QuestionKind.OTHER if all_times else kind
        return QuestionKind.OTHER

    def asks_for_hours(self, question: str) -> bool:
        """True of a question with a word for all times, such as opening hours."""
        return not self.timetables.isdisjoint(re.findall(r"\w+", question.casefold()))

    def times_in_words(self, text: str) -> Iterator[tuple[int, int]]:
        """Hours and minutes of times like "half past eight"."""
        for pattern, minutes in self._times:
            for found in pattern.finditer(text):
                hour = self._hours.get(found[1].casefold()) or int(found[1])
                total = 60 * hour + minutes
                yield total // 60, total % 60

    def dates(self, text: str) -> Iterator[tuple[int, int]]:
        """Months and days of dates with a name of a month."""
        for pattern in self._dates:
            for found in pattern.finditer(text):
                yield self._months[found["month"].casefold()], int(found["day"])

    def hits(self, words: list[str]) -> int:
        """How many words are of this language."""
        return sum(word in self.function_words or word in self.weekdays for word in words)


def days_named(text: str) -> frozenset[int]:
    """The weekdays that a text names in any language; Monday is 1.

    Args:
        text: Any.
    """
    words = re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", text.casefold())
    named = (one.days[word] for one in languages() for word in words if word in one.days)
    return frozenset().union(*named)


def language_of(text: str) -> Language:
    """The language that most function words of a text are of; English where there is none.

    Args:
        text: Public.
    """
    plain = text.casefold()
    words = _WORD.findall(plain)

    def score(language: Language) -> int:
        letters = _LETTERS.get(language.code, "")
        return language.hits(words) + 2 * any(letter in plain for letter in letters)

    return max(languages(), key=score)


@dataclass(frozen=True)
class WorkedExample:
    """A public document, a question to it, and the answer; SILENT where it does not tell."""

    document: str
    question: str
    answer: str


SILENT = "NOTHING"
"""The answer of a document that does not tell."""


def says_nothing(answer: str) -> bool:
    """True of an answer that is the word for none."""
    return re.match(rf"\W*{SILENT}\b", answer) is not None


@cache
def worked_examples(language: str, kind: QuestionKind) -> tuple[WorkedExample, ...]:
    """Examples of documents that answer and that do not, in a language.

    Args:
        language: Its code, see `Language`.
        kind: Of question: for yes or no, and for reasons, others are shown.
    """
    own = language_data("worked_examples.toml")[language]
    shown = own.get(kind.value, own["told"])
    if kind is QuestionKind.REASON:
        shown = own["told"][:1] + shown
    return tuple(WorkedExample(**each) for each in shown)


@dataclass(frozen=True)
class FollowUp:
    """What was said, the last question, and the same in whole words. Public."""

    said: str
    question: str
    whole: str


@cache
def follow_ups(language: str) -> tuple[FollowUp, ...]:
    """Examples of last questions of conversations, in a language."""
    return tuple(FollowUp(**each) for each in language_data("follow_ups.toml")[language])


@cache
def _languages_and_countries(code: str) -> frozenset[str]:
    from babel import Locale

    locale = Locale(code)
    return frozenset(
        name.casefold() for name in (*locale.languages.values(), *locale.territories.values())
    )


def is_date(word: str) -> bool:
    """True of a weekday or month of any language, in small letters."""
    return any(one.is_date(word) for one in languages())


def is_function_word(word: str) -> bool:
    """True of a word in small letters that says nothing in some language."""
    return any(word in one.function_words for one in languages())


def language_data(name: str) -> dict[str, Any]:
    """What a file of this folder holds, by name."""
    return tomllib.loads(files("dpicl_rag.languages").joinpath(name).read_text("utf-8"))


@cache
def languages() -> tuple[Language, ...]:
    """The languages that are known, English first."""
    return tuple(_language(code, data) for code, data in language_data("languages.toml").items())


def _beginning(ways: list[str]) -> re.Pattern[str]:
    """Of folded text, which has no sharp s."""
    return re.compile(rf"(?:{'|'.join(ways)})(?!\w)[\s,:]*".replace("ß", "ss"))


def _phrases(listed: str) -> frozenset[str]:
    return frozenset(phrase.strip() for phrase in listed.split(","))


def _language(code: str, data: dict[str, Any]) -> Language:
    from babel.dates import get_day_names, get_month_names

    months = {
        name.casefold().rstrip("."): number
        for width in ("abbreviated", "wide")
        for number, name in get_month_names(width, locale=code).items()
    }
    weekdays = {
        name.casefold(): number + 1 for number, name in get_day_names("wide", locale=code).items()
    }
    plurals = {f"{name}s": number for name, number in weekdays.items() if name[-1] != "s"}
    hours = {word: at for at, word in enumerate(data["hours"].split(), start=1)}
    hour = rf"(\d{{1,2}}|{'|'.join(hours)})\b"
    month = "|".join(sorted(map(re.escape, months), key=len, reverse=True))
    day = r"(?P<day>\d{1,2})"
    return Language(
        code=code,
        function_words=frozenset(data["function_words"].split()),
        titles=frozenset(data["titles"].split()),
        asks={
            kind: _beginning(data["asks"][kind]) for kind in QuestionKind if kind in data["asks"]
        },
        weekdays=weekdays | plurals,
        days={name: frozenset((number,)) for name, number in (weekdays | plurals).items()}
        | dict.fromkeys(data["workdays"].split(), frozenset(range(1, 6)))
        | dict.fromkeys(data["weekends"].split(), frozenset((6, 7))),
        yes=frozenset(data["yes"].split()),
        no=frozenset(data["no"].split()),
        negations=frozenset(data["negations"].split()),
        conjunctions=frozenset(data["conjunctions"].split()),
        prepositions=frozenset(data["prepositions"].split()),
        determiners=frozenset(data["determiners"].split()),
        auxiliaries=frozenset(data["auxiliaries"].split()),
        day_times=frozenset(data["day_times"].split()),
        things=Things.of(data["things"]) if "things" in data else None,
        person_pronouns=frozenset(data.get("person_pronouns", "").split()),
        generic=frozenset(data["generic"].split()),
        at_present=frozenset(data["at_present"].split()),
        announcing=frozenset(data["announcing"].split()),
        timetables=frozenset(data["timetables"].split()),
        bounds=frozenset(data["bounds"].split()),
        contrasts=frozenset(data["contrasts"].split()),
        opposites=tuple(
            frozenset(pair.split()) for pair in data["opposites"].casefold().split(",")
        ),
        abbreviations=_phrases(data["abbreviations"]),
        closing_abbreviations=_phrases(data["closing_abbreviations"]),
        before_numbers=_phrases(data["before_numbers"]),
        _stemmer=data["stemmer"],
        _polite=_beginning(data["polite"]),
        _months=months,
        _hours=hours,
        _times=tuple(
            (re.compile(rf"\b{way.format(hour=hour)}", re.IGNORECASE), int(minutes))
            for minutes, way in data["times"].items()
        ),
        _dates=tuple(
            re.compile(way, re.IGNORECASE)
            for way in (
                rf"\b{day}(?:\.|st|nd|rd|th|er)?\s*(?:of |de )?(?P<month>{month})\b",
                rf"\b(?P<month>{month})\.?\s+{day}(?:st|nd|rd|th)?\b(?![:.]\d)",
            )
        ),
    )
