"""Elliptic questions: "And at weekends?" after "When does the pool open on weekdays?".

What stands behind "and" is a phrase. It takes the place of the phrase of its kind that the earlier
question ends with, or stands behind the question where there is none. Where that is not sure,
nothing is made of it.
"""

from __future__ import annotations

from dpicl_rag.languages.languages import Language, QuestionKind

_LONGEST = 5  # words of a phrase
_MARKS = " ?!.,¿¡"


def filled_in(question: str, before: str, language: Language) -> str | None:
    """The question in whole words; None where it is no phrase, or its place is not sure.

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
