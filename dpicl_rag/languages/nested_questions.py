"""Nested questions, such as "When does the person in charge of invoices have office hours?".

No document that says when Ms Weber has office hours says what she is in charge of. So what is only
described is asked for first ("Who is in charge of invoices?"); what is found takes the place of the
description ("When does Ms Weber have office hours?"). All of it follows from the question by rules,
and is public.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_rag.languages.languages import Language, QuestionKind, language_data, language_of

_NAMED = re.compile(r"[^\W_][\w.'\u2019-]*")


@dataclass(frozen=True, slots=True)
class NestedQuestion:
    """A question about something that is described in it. Public."""

    first: str
    before: str
    after: str

    def about(self, found: str) -> str:
        """The question about what was found."""
        return f"{self.before}{found}{self.after}"


def nested_question(question: str) -> NestedQuestion | None:
    """What a question describes, the innermost first; None where it names all it asks about.

    Args:
        question: Public text.
    """
    language = language_of(question)
    ways = _ways(language.code)
    found = [(match, ask) for way, ask in ways for match in way.finditer(question)]
    if not found:
        return None
    last, ask = max(found, key=lambda pair: pair[0].start())
    before, after = question[: last.start()], question[last.end() :]
    if not language.content_words(before + after):
        return None  # "Who is the person in charge of invoices?" asks for nothing else
    before += _instead_of(last["article"].casefold(), before, language)
    return NestedQuestion(ask.format(**last.groupdict("")), before, after)


def _instead_of(article: str, before: str, language: Language) -> str:
    """What stands before a name where an article had a preposition in it: "della" is "di la"."""
    word = _data()[language.code].get("instead_of", {}).get(article)
    *first, last = before.split() or [""]
    # "Telefonnummer der Kollegin" is of hers, "hat der Kollege" is not.
    if word is None or (language.nouns_have_capitals and not (first and last[:1].isupper())):
        return ""
    return f"{word} "


def name_in(answer: str, question: str) -> str | None:
    """What an answer names, without the words of the question that it repeats.

    Args:
        answer: "Ms Weber is in charge of invoices." Public, as it was released.
        question: "Who is in charge of invoices?"

    Returns:
        "Ms Weber"; None where nothing is left.
    """
    keys = answer_keys(question)
    words = list(_NAMED.finditer(answer))
    runs = list(_runs_of_names(words, keys.language, keys.language.content_words(question)))
    if not runs:
        return next(iter(keys.of(answer, by_parts=True)), None)
    named = keys.of(answer)[:1]
    found = next((run for run in runs if any(key in answer[slice(*run)] for key in named)), runs[0])
    return answer[slice(*found)].rstrip(".")


def _runs_of_names(
    words: list[re.Match[str]], language: Language, asked: frozenset[str]
) -> Iterator[tuple[int, int]]:
    """Where names begin and end, with their titles: words with capitals, some of them news."""
    for named, run in groupby(words, lambda word: _has_capital(word[0], language)):
        found = list(run)
        if named and any(language.stem(_folded(word[0])) not in asked for word in found):
            yield found[0].start(), found[-1].end()


def _has_capital(word: str, language: Language) -> bool:
    folded = _folded(word)
    return folded in language.titles or (word[:1].isupper() and not language.says_little(folded))


def _folded(word: str) -> str:
    return word.casefold().rstrip(".")


@cache
def _ways(code: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Descriptions of a language, and how they are asked for."""
    data: dict[str, Any] = _data()[code]
    end = rf"(?=\s*(?:[?!.,]|$)|\s+(?:{data['verbs']})(?!\w))"
    parts = {
        "ARTICLE ": f"(?P<article>{data['articles']}) ?",
        "PERSON": f"(?:{data['persons']})",
        "PLACE": f"(?:{data['places']})",
        "WORDS": r"[^?!.,]+?",
        "END": end,
        "CLOSED": r"(?:,|(?=\s*(?:[?!.]|$)))",
    }

    def written(find: str) -> re.Pattern[str]:
        for part, means in parts.items():
            find = find.replace(part, means)
        return re.compile(rf"(?<!\w){find}", re.IGNORECASE)

    return tuple((written(way["find"]), way["ask"]) for way in data["ways"])


@cache
def _data() -> dict[str, Any]:
    return language_data("nested_questions.toml")


_LONGEST = 5  # words of a phrase
_MARKS = " ?!.,¿¡"


def filled_in(question: str, before: str, language: Language) -> str | None:
    """The question in whole words; None where it is no phrase, or its place is not sure.

    "And at weekends?" after "When does the pool open on weekdays?": the phrase behind "and" takes
    the place of the phrase of its kind that the earlier question ends with, or stands behind it.

    Args:
        question: The last question. Public.
        before: The question before it, in whole words. Public.
        language: Of both.
    """
    bare = language.without_conjunction(question)
    phrase, earlier = bare.strip(_MARKS).split(), before.rstrip(" ?!.").split()
    if bare == question or not 0 < len(phrase) <= _LONGEST or not earlier or "?" not in before:
        return None
    if language.kind(bare) is not QuestionKind.OTHER:
        return None
    folded = [word.casefold() for word in phrase]
    said = [word.casefold().strip(_MARKS) for word in earlier]
    time = _time_at_end(said, language)
    if _time_at_end(folded, language) == 0:
        kept = earlier[:time]
    elif folded[0] in language.prepositions and not any(map(language.is_time, folded)):
        at = _phrase_at_end(said[:time], language)
        if at is None or said[at] != folded[0]:
            return None
        kept = earlier[:at]
        phrase += earlier[time:]
    else:
        return None
    end = before.rstrip()[len(before.rstrip(" ?!.")) :]
    return " ".join([*kept, *phrase]) + end if len(kept) > 1 else None


def _time_at_end(words: list[str], language: Language) -> int:
    """Where the phrase of time begins that words end with; their number where there is none."""
    at = len(words)
    while at and (
        language.is_time(words[at - 1])
        or words[at - 1].isdigit()
        or words[at - 1] in language.determiners
        or words[at - 1] in language.prepositions
    ):
        at -= 1
    return at if any(map(language.is_time, words[at:])) else len(words)


def _phrase_at_end(words: list[str], language: Language) -> int | None:
    """Where the last phrase with a preposition begins, if it is short."""
    places = range(max(1, len(words) - _LONGEST), len(words) - 1)
    return max((at for at in places if words[at] in language.prepositions), default=None)
