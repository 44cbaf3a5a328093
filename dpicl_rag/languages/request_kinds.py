"""Kinds of requests by the words of a question: a fact, a count, a tally, a survey, one person.

A function of the public question alone, by rules in five languages (``request_kinds.toml``). What
no rule knows is a fact: only documents that say the same answer it, so that error costs least.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from dpicl_rag.languages.languages import (
    Language,
    QuestionKind,
    language_data,
    language_of,
    languages,
)

AskedKind = Literal["answer", "count", "tally", "summary", "survey", "person"]
"""A fact that many state; how many; which of these; a summary; what about; one person."""

MOST_LABELS = 12
"""Labels that are read from a question, at most."""

_LONGEST = 1000  # characters: a longer text brings more than a question
_LABEL_WORDS = 6
_APOSTROPHES = re.compile(r"[\u2019'\u02bc`\u00b4]")
_WORD = re.compile(r"[^\s'\u2019]+['\u2019](?=\w)|\S+")
_UNITS_THAT = re.compile(
    r"((?:[\w-]+ )??[\w-]+s|people|staff) (?:who |that )?(\S+) (\S.*)", re.IGNORECASE
)
_FIRST = {"are": "Is", "is": "Is", "were": "Was", "was": "Was", "do": "Does", "had": "Had"}
_FIRST |= {word: word.capitalize() for word in ("can", "could", "will", "would", "should", "must")}
"""What stands first in a question for one, by what stands behind several."""

_ED = re.compile(r"(?<!e)ed$")  # not "need"
_PAST = frozenset(
    "bought broke came felt fell found gave got kept left lost made paid said saw "  # noqa: SIM905
    "sent thought told took went written wrote".split()
)
_ENDS = ' \t\n?!.,;:\u00bf\u00a1"\u00ab\u00bb\u201c\u201d\u201e()'


@dataclass(frozen=True, slots=True)
class AskedFor:
    """The kind of a question, and what else it says of how it is asked. Public.

    Attributes:
        kind: Of request.
        labels: Those that the question names, and one for all else; of a tally.
        of_all: Whether it asks about whole documents, and about nothing in them.
    """

    kind: AskedKind
    labels: tuple[str, ...] = ()
    of_all: bool = False


def asked_for(question: str) -> AskedFor:
    """The kind of a question, by its words.

    Args:
        question: Public, in whole words.
    """
    if len(question) > _LONGEST:
        return AskedFor("answer")
    text = _folded(question)
    for language in _likeliest_first(question):
        rules = _rules(language.code)
        if rules.names_one(question, language):
            return AskedFor("person")
        if rules.finds("tally", text) and (labels := labels_in(question)):
            return AskedFor("tally", labels)
        if rules.counts(text):
            return AskedFor("count")
        for name, kind, of_all in _ABOUT:
            if rules.finds(name, text):
                return AskedFor(kind, of_all=of_all)
    return AskedFor("answer")


_ABOUT: tuple[tuple[str, AskedKind, bool], ...] = (
    ("summary_of_all", "summary", True),
    ("about_all", "survey", True),
    ("summary", "summary", False),
    ("survey", "survey", False),
)
"""Rules of what is about many: their names, what they ask for, and whether about all there is."""


def _likeliest_first(question: str) -> list[Language]:
    """All languages, that of the question first: of few words it is told by chance."""
    likeliest = language_of(question)
    return [likeliest, *(one for one in languages() if one is not likeliest)]


def unit_question(question: str) -> str:
    """The question of a count, as each unit answers it with yes or no.

    "How many mails are about the lift?" becomes "Is it about the lift?", and "How many tenants
    complain about it?" "Does the tenant complain about it?"; or what needs less grammar: "Is this
    one of the tenants that ...?", "Is this one of them: ...?". A model that reads "how many" says
    no; to the last two public documents do not say no as clearly.

    Args:
        question: Public.
    """
    language = language_of(question)
    rules = _rules(language.code)
    if not rules.counts(_folded(question)) and language.kind(question) is not QuestionKind.NUMBER:
        return question
    said = question.strip().strip(_ENDS)
    asked = rules.how_many.search(said)
    if asked is None:
        return question
    rest = said[asked.end() :].strip()
    if language.code == "en" and (found := _UNITS_THAT.match(rest)):
        units, verb, behind = found.groups()
        one = rules.one_of_them(units.casefold())
        if one and not language.leads_on(verb.casefold()):
            return _of_one(one, verb, behind) or f"Is this one of the {units} that {verb} {behind}?"
    return rules.one_of.format(rest)


def _of_one(one: str, verb: str, behind: str) -> str | None:
    """What asks one in English what several are said to do; None of verbs that are not known."""
    word = verb.casefold()
    if word in _FIRST:
        return f"{_FIRST[word]} {one} {behind}?"
    if word == "have" and _ED.search(behind.partition(" ")[0]):
        return f"Has {one} {behind}?"
    if _ED.search(word):
        return f"Has {one} {verb} {behind}?"
    known = word.isalpha() and word not in _PAST and not word.endswith("ing")
    return f"Does {one} {verb} {behind}?" if known else None


def one_person_reply(question: str) -> str:
    """What is said, in its language, to a question about one person."""
    return _rules(language_of(question).code).one_person


def labels_in(question: str) -> tuple[str, ...]:
    """The labels that a question names ("a refund, an exchange or a repair"), and one for all else.

    Args:
        question: Public.

    Returns:
        None at all where fewer than two are read from it.
    """
    language = language_of(question)
    rules = _rules(language.code)
    listed = question.strip().strip(_ENDS)
    joined = "|".join(rules.joining)
    _, colon, text = listed.rpartition(":")
    first, *others = re.split(rf"\s*,\s*(?:(?:{joined})\s+)?|\s+(?:{joined})\s+", text)
    if not others or not re.search(rf"\s(?:{joined})\s", text):
        return ()
    others[-1] = _without_end(others[-1], rules)
    parts = [first if colon else _last_part(first, others[-1], language, rules), *others]
    labels = dict.fromkeys(_without_preposition(part.strip(_ENDS), language) for part in parts)
    if len(labels) != len(parts) or not 2 <= len(parts) <= MOST_LABELS:
        return ()
    if not all(0 < len(label.split()) <= _LABEL_WORDS for label in labels):
        return ()
    return (*labels, rules.other)


def _last_part(first: str, last: str, language: Language, rules: _Rules) -> str:
    """The end of what stands before the first comma that is of the same form as the last label."""
    words, like = _WORD.findall(first), _WORD.findall(last)
    plain = [_plain(word) for word in words]
    lead = _plain(like[0]) if like else ""

    def last_of(listed: Set[str]) -> int | None:
        ends = (at for at in range(len(plain) - 1, 0, -1) if _is_one_of(plain[at], listed))
        return next(ends, None)

    at = None
    if _is_one_of(lead, language.prepositions):
        at = last_of({lead}) or last_of(language.prepositions)
    elif _is_one_of(lead, language.determiners):
        at = last_of(language.determiners)
    if at is None:
        at = max(0, len(words) - len(like))
        leads = language.prepositions | language.determiners
        for place in range(at, len(words)):
            if _is_one_of(plain[place], leads) or rules.is_said(plain[place]):
                at = place + 1
    return re.sub(r"(['\u2019]) ", r"\1", " ".join(words[at:]))


def _without_end(label: str, rules: _Rules) -> str:
    """Without adverbs of the whole question, and participles, behind the last label."""
    words = label.split()
    while len(words) > 1 and (
        _plain(words[-1]) in rules.behind or rules.is_said(_plain(words[-1]))
    ):
        words.pop()
    return " ".join(words)


def _without_preposition(label: str, language: Language) -> str:
    words = _WORD.findall(label)
    if len(words) > 1 and _is_one_of(_plain(words[0]), language.prepositions):
        words = words[1:]
    return re.sub(r"(['\u2019]) ", r"\1", " ".join(words))


def _is_one_of(word: str, listed: Set[str]) -> bool:
    """Whether a word is listed, also one that has lost its vowel: "sull'", "d'"."""
    return word in listed or any(f"{word}{vowel}" in listed for vowel in "aeo")


def _plain(word: str) -> str:
    return word.strip(_ENDS + "'\u2019").casefold()


def _folded(question: str) -> str:
    return " ".join(_APOSTROPHES.sub(" ", question).casefold().split()).strip(_ENDS)


@dataclass(frozen=True, eq=False)
class _Rules:
    """Rules of a language.

    Attributes:
        one_of: Asks a unit whether it is one of those that are counted.
        how_many: What asks for a number.
        other: A label for all that has none.
        one_person: Said of questions about one person.
        joining: Words between two labels.
        behind: Words behind the last label that belong to no label.
    """

    one_of: str
    how_many: re.Pattern[str]
    other: str
    one_person: str
    joining: tuple[str, ...]
    behind: frozenset[str]
    _found: dict[str, re.Pattern[str]]
    _said: re.Pattern[str]
    _units: re.Pattern[str]
    _documents: re.Pattern[str]

    def finds(self, name: str, text: str) -> bool:
        """Whether a rule of this name holds for a folded text."""
        return self._found[name].search(text) is not None

    def counts(self, text: str) -> bool:
        """Whether a folded text asks how many units say something."""
        return self.finds("count", text) and not self.finds("not_count", text)

    def one_of_them(self, units: str) -> str:
        """In English what one of some units is called: "it", "the tenant"; else nothing."""
        if self._documents.fullmatch(units):
            return "it"
        if units in ("people", "staff"):
            return "the person"
        persons = self._units.fullmatch(units.split()[-1]) and units.endswith("s")
        return f"the {units.removesuffix('s')}" if persons else ""

    def is_said(self, word: str) -> bool:
        """True of a verb in small letters for what units say."""
        return self._said.fullmatch(word) is not None

    def names_one(self, question: str, language: Language) -> bool:
        """Whether a question is about what one person said, or has."""
        text = " ".join(_APOSTROPHES.sub(" ", question).split())
        return any(_can_be_one(name, self._units, language) for name in self._named(text))

    def _named(self, text: str) -> Iterator[str]:
        """The names by which rules of one person hold; empty where one has no name."""
        for found in self._found["person"].finditer(text):
            yield next((name for name in found.groups() if name), "")


def _can_be_one(name: str, units: re.Pattern[str], language: Language) -> bool:
    """Whether a capital word can name a person: no month, no country, no noun of units."""
    words = name.split()
    if len(words) != 1:  # with a title, or no name is needed
        return True
    word = words[0].casefold()
    dull = language.is_date(word) or language.is_language_or_country(word)
    return not (dull or language.says_little(word) or units.fullmatch(word))


@cache
def _rules(code: str) -> _Rules:
    data: dict[str, Any] = language_data("request_kinds.toml")[code]
    language = next(one for one in languages() if one.code == code)
    title = rf"(?:(?i:{'|'.join(sorted(language.titles, key=len, reverse=True))})\.? )"
    name = r"[A-Z\u00c0-\u00de][a-z\u00df-\u00ff]+(?:-[A-Z\u00c0-\u00de][a-z\u00df-\u00ff]+)?\b"
    words = {**data["words"], "name": f"({title}*{name})", "titled": f"({title}+{name})"}

    def whole(pattern: str) -> str:
        while (found := re.search(r"<([a-z]+)>", pattern)) and found[1] in words:
            pattern = pattern.replace(found[0], words[found[1]])
        return pattern

    def rule(name: str, patterns: list[str]) -> re.Pattern[str]:
        joined = "|".join(map(whole, patterns))
        return re.compile(joined if name == "person" else joined.replace("\u00df", "ss"))

    units = f"{words['persons']}|{words['people']}|{words['documents']}"
    return _Rules(
        one_of=data["one_of"],
        how_many=re.compile(rf"(?<!\w)(?:{data['how_many']})(?!\w)", re.IGNORECASE),
        other=data["other"],
        one_person=data["one_person"],
        joining=tuple(data["or"].split()),
        behind=frozenset(data["behind"].split()),
        _found={name: rule(name, patterns) for name, patterns in data["asks"].items()},
        _said=re.compile(f"{words['says']}|{words['said']}"),
        _units=re.compile(units.replace("\u00df", "ss")),
        _documents=re.compile(words["documents"]),
    )
