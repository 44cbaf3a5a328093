"""Public domains of answers: all that may answer a question of some kinds.

Yes or no, a weekday, a time of day, a day of the year: there all answers are known before a
document is read, in the one form that `AnswerKeys` gives them. Names, reasons and amounts have no
such list: what an amount counts are words.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cache
from itertools import chain

from dpicl_rag.languages.content_words import in_digits
from dpicl_rag.languages.languages import Language, QuestionKind

_LEAP_YEAR = 2024
_CURRENCIES = {
    "EUR": ("€", "eur", "euro", "euros"),
    "USD": ("$", "usd", "dollar", "dollars", "dólares", "dollari"),
    "GBP": ("£", "gbp", "pound", "pounds"),
    "CHF": ("chf", "franc", "francs", "franken", "francos", "franchi"),
}
CURRENCY_OF = {word: code for code, words in _CURRENCIES.items() for word in words}
"""The code of each sign and name of a currency."""

_FROM_TO = re.compile(
    r"(?:(?<![\d:.h])\b(?P<hour>\d{1,2})|(?<=\d))\s?(?:[-\u2013]|to|till|bis|à|a|alle)\s?"
    r"(?=\d{1,2}\b(?!\.?\s(?!Uhr)[A-Z]))"
)
_CLOCK = re.compile(
    r"\b(?P<hour>[01]?\d|2[0-4])(?:\s?[:h]\s?|\.|\sUhr\s)(?P<minute>[0-5]\d)\b(?![.,/]\d)"
    r"(?!\s*(?:[€$£%]|EUR|euro))(?:\s?(?P<half>[ap])\.?\s?m\b)?",
    re.IGNORECASE,
)
FULL_HOUR = re.compile(
    r"\b(?P<hour>[01]?\d|2[0-4])\s?(?:(?P<half>[ap])\.?\s?m|uhr|o'clock|heures?|h|horas|ore)\b",
    re.IGNORECASE,
)
_BARE_HOUR = re.compile(
    r"\b(?i:at|from|until|till|um|ab|bis|à|dès|las|alle|dalle)\s(?P<hour>[01]?\d|2[0-4])\b"
    r"(?![.,:h]\d)(?!\s?(?:[%€$£]|Uhr|EUR|[Ee]uro))(?!\s[A-Z])"
)
HOURS = " \u2013 "
"""Between two times of day."""


@cache
def answer_domain(kind: QuestionKind, language: Language) -> tuple[tuple[str, ...], ...]:
    """All answers of a kind in groups, the likelier ones first; none where they have no list.

    People write most times in tens and quarters of an hour. "8:07" is in the second group.
    """
    match kind:
        case QuestionKind.YES_OR_NO:
            return (tuple(sorted(word.capitalize() for word in language.yes | language.no)),)
        case QuestionKind.WEEKDAY:
            return (_weekdays(language),)
        case QuestionKind.TIME:
            return _times()
        case QuestionKind.DATE:
            # "When" is answered by a day, a weekday or a time.
            usual, odd = _times()
            return (*_days(language), *_weekdays(language), *usual), odd
    return ()


def weekday_form(weekday: int, language: Language) -> str:
    """A weekday in a language; Monday is 1."""
    from babel.dates import get_day_names

    return str(get_day_names("wide", locale=language.locale)[weekday - 1])


def day_form(month: int, day: int, language: Language) -> str | None:
    """A day of the year in a language; None where there is none."""
    from babel.dates import format_skeleton

    try:
        date = datetime.date(_LEAP_YEAR, month, day)
    except ValueError:
        return None
    return str(format_skeleton("MMMMd", date, locale=language.locale))


def time_form(hour: int, minute: int) -> str:
    """A time of day in all languages."""
    return f"{hour}:{minute:02d}"


def hours_form(times: Set[str]) -> Iterator[str]:
    """From when to when, in all languages: "9:00 – 17:30". Of more times nothing: of two spans."""
    ordered = sorted(times, key=lambda time: tuple(map(int, time.split(":"))))
    if 0 < len(ordered) <= 2:
        yield HOURS.join(ordered)


def from_to(text: str) -> str:
    """A text in which both times of "9-17" stand behind a word: "from 9 until 17"."""
    return _FROM_TO.sub(lambda it: f"from {it['hour']} until " if it["hour"] else " until ", text)


def _weekdays(language: Language) -> tuple[str, ...]:
    return tuple(weekday_form(weekday, language) for weekday in range(1, 8))


def _days(language: Language) -> tuple[str, ...]:
    every = (day_form(month, day, language) for month in range(1, 13) for day in range(1, 32))
    return tuple(day for day in every if day is not None)


def _times() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those of full tens and quarters, midnight at both ends of a day, and all others."""
    every = [(hour, minute) for hour in range(24) for minute in range(60)]
    usual = [time_form(*at) for at in every if at[1] % 10 == 0 or at[1] % 15 == 0]
    odd = [time_form(*at) for at in every if at[1] % 10 and at[1] % 15]
    return (*usual, time_form(24, 0)), tuple(odd)


def yes_or_no(said: Sequence[str], asked: Set[str], language: Language) -> Iterator[str]:
    """Yes or no in a language: what an answer begins with, or what it says of all that is asked.

    "The sauna is closed until May." denies "Is the sauna open now?", as it says the opposite. A
    sentence with a negation is neither: what it denies is not looked for. Nor is "Yes, it works,
    but not today": told as "Yes." it would be wrong.
    """
    if said and said[0] in language.yes | language.no:
        if said[0] in language.no or language.contrasts.isdisjoint(said):
            yield said[0].capitalize()
        return
    stated, about = (_parts(words) for words in (said, asked))
    if not language.negations.isdisjoint(stated):
        return
    stems = set(map(language.stem, stated))
    wanted = {
        language.stem(word)
        for word in about
        if not (language.says_little(word) or word in language.at_present)
    }
    opposites = (set(map(language.stem, pair)) for pair in language.opposites)
    if wanted and wanted <= stems:
        yield from (word.capitalize() for word in language.yes)
    elif any(len(pair & wanted) == 1 and wanted ^ pair <= stems for pair in opposites):
        yield from (word.capitalize() for word in language.no)


def _parts(words: Iterable[str]) -> set[str]:
    """Words, and those that a hyphen joins: "est-il"."""
    return {part for word in words for part in word.split("-")}


def times_in_digits(text: str, language: Language) -> Iterator[str]:
    """Times of day like "8.30", "8 am" and "at eight", in the form of `time_form`.

    Args:
        text: Any.
        language: Of the question, whose words for numbers are known.
    """
    digits = in_digits(text, language.code)
    each = (_CLOCK.finditer(text), FULL_HOUR.finditer(text), _BARE_HOUR.finditer(digits))
    for found in chain(*each):
        parts = found.groupdict()
        hour, half = int(parts["hour"]), (parts.get("half") or "").lower()
        hour = hour % 12 + 12 * (half == "p") if half else hour
        yield time_form(hour, int(parts.get("minute") or 0))
