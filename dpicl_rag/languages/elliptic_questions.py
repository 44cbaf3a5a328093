"""Elliptic questions: "And at weekends?" after "When does the pool open on weekdays?".

What stands behind "and" is a phrase. It takes the place of the phrase of its kind that the earlier
question ends with, or stands behind the question where there is none. "And who cleans it?" asks for
the pool, the one thing that the earlier question names. Where that is not sure, nothing is made of
it.
"""

from __future__ import annotations

import re
from collections.abc import Set

from dpicl_rag.languages.languages import Language, QuestionKind
from dpicl_rag.languages.question_slots import noun_places

_LONGEST = 5  # words of a phrase
_MARKS = " ?!.,¿¡"
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def filled_in(question: str, before: str, language: Language) -> str | None:
    """The question in whole words; None where it is no phrase, or its place is not sure.

    Args:
        question: The last question. Public.
        before: The question before it, in whole words. Public.
        language: Of both.
    """
    bare = language.without_conjunction(question)
    if named := _with_its_thing(bare, before, language):
        return named
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


def _with_its_thing(question: str, before: str, language: Language) -> str | None:
    """The question with the thing of the one before in the place of its pronoun."""
    if (things := language.things) is None:
        return None
    words = list(_WORD.finditer(question))
    folded = [word.group().casefold() for word in words]
    at = [n for n, word in enumerate(folded) if word in things.pronouns]
    if len(at) != 1 or len(words) < 3:
        return None
    # "Is it possible to swim?" asks for no thing, nor do "What time is it?" and "How do I do it?".
    # "I lost a key. Who has it?" names its own.
    own = [noun for noun in noun_places(language, folded) if noun < at[0]]
    if own or things.idle.search(question):
        return None
    thing = _thing_of(before, language, things.joined_by)
    said = language.content_words(question)
    if thing is None or said & language.content_words(thing) or things.many.search(thing):
        return None
    begin, end = words[at[0]].span()
    whole = f"{question[:begin]}{thing}{question[end:]}"
    return whole[:1].upper() + whole[1:]


def _thing_of(question: str, language: Language, joined_by: Set[str]) -> str | None:
    """The one thing that a question names: "the fee for a new key". None where it names more."""
    words = list(_WORD.finditer(question))
    folded = [word.group().casefold() for word in words]
    nouns = noun_places(language, folded)
    things = [
        run for run in _runs(sorted(nouns)) if not all(language.is_time(folded[at]) for at in run)
    ]
    if not things:
        return None
    first, last = things[0][0] - 1, things[0][-1]
    if folded[first] not in language.determiners or folded[first - 1] in language.prepositions:
        return None
    for run in things[1:]:  # "for a new key", and nothing else
        between = folded[last + 1 : run[0]]
        if not (joined_by >= {*between[:1]} and language.determiners >= {*between[1:]}):
            return None
        last = run[-1]
    return question[words[first].start() : words[last].end()]


def _runs(places: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for at in places:
        if runs and runs[-1][-1] == at - 1:
            runs[-1].append(at)
        else:
            runs.append([at])
    return runs


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
