"""Answers to questions for yes or no, in a word or in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

from dpicl_rag.languages.languages import Language


def yes_or_no(said: Sequence[str], asked: Set[str], language: Language) -> Iterator[str]:
    """Yes or no in a language: what an answer begins with, or what it says of all that is asked.

    "The sauna is closed until May." denies "Is the sauna open now?", as it says the opposite. A
    sentence with a negation is neither: what it denies is not looked for.
    """
    if said and said[0] in language.yes | language.no:
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
