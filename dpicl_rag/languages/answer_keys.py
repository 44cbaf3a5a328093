"""Keys of answers: what different wordings of one answer have in common.

"Ms Okafor handles them" and "It is Ngozi Okafor" are one answer to a question for a person; "half
past eight" and "8.30" are one to a question for a time. Which part of an answer counts follows from
the question, which is public: from its language, and from the kind of answer that it asks for. A
key is a function of the question and of one answer alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from dpicl_rag.languages.answer_domains import (
    CURRENCY_OF,
    FULL_HOUR,
    HOURS,
    answer_domain,
    day_form,
    from_to,
    hours_form,
    time_form,
    times_in_digits,
    weekday_form,
    yes_or_no,
)
from dpicl_rag.languages.content_words import (
    content_words,
    has_digit,
    in_digits,
    run_together,
    runs_of,
)
from dpicl_rag.languages.languages import (
    Language,
    QuestionKind,
    is_date,
    is_function_word,
    language_of,
    languages,
)
from dpicl_rag.normal_forms import normal_form

_WORD = re.compile(r"[^\W_]+(?:[-'\u2019][^\W_]+)*")
_ISO_DATE = re.compile(r"\b\d{4}-(?P<month>\d\d)-(?P<day>\d\d)\b")
_NUMERIC_DATE = re.compile(r"\b(?P<day>\d{1,2})([./])(?P<month>\d{1,2})(?:\2(?:\d{2,4})?|(?!\d))")
_NUMBER = re.compile(
    r"(?<![\w.,])(?P<before>[€$£]|EUR|USD|GBP|CHF)?\s?"
    r"(?P<number>\d{1,3}(?:[ '\u00a0]\d{3})+(?!\d)|\d+(?:[.,]\d+)?)"
    r"(?:\s?(?P<after>[€$£%]|[^\W\d_]+))?",
)
_WHICH = re.compile(
    r"\b(?:which|what|welche[mnrs]?|quel(?:le)?s?|qué|cuál|che|quale)\s+([^\W\d_]+)"
)
"""What is asked for: which room."""
_NUMBERED = re.compile(r"(?P<noun>[^\W\d_]+)\s+(?P<number>\d+[a-z]?)\b")
_ELIDED = re.compile(r"\b(?:[Ll]|[djmnst]|qu|dell|all|nell|dall|sull)['\u2019](?=[^\W\d_]{2})")
_CLITIC = re.compile(r"['\u2019](?:s|re|ll|ve|d|m)$")
"""The end of "it's"."""
_WITH_NUMBER = 2
"""Words after a number that may say what is counted: "9 working days"."""

_PARTS = {
    QuestionKind.REASON: 2,
    QuestionKind.MANNER: 2,
    QuestionKind.LIST: 3,
    QuestionKind.OTHER: 1,
}
"""Kinds whose keys are words of the answer, and how many of them each answer has at most."""

_VALUES = (QuestionKind.TIME, QuestionKind.DATE, QuestionKind.WEEKDAY, QuestionKind.NUMBER)
_ITEMS = re.compile(r"[,;/]|\b(?:and|or|und|oder|sowie|et|ou|y|e|o)\b", re.IGNORECASE)
_ITEM_WORDS = 3
_JOINING = frozenset(
    "and of with for und von mit für et de du avec pour y e con para di per".split()  # noqa: SIM905
)
_MUCH, _SHARED = 6, 0.3
"""Words of a question that says much, and the part of them that a document has which answers."""
_LISTED = 3  # parts of a question that lists something
_PLURAL = re.compile(r"[^s]s$")
_SHORT = 3  # letters of words that are left as they are: "gas"
_COMPOUND = 10  # of a German noun that says what two words do elsewhere: "Stromausfall"
_PREPOSITIONS = frozenset().union(*(one.prepositions for one in languages()))


class AnswerKeys:
    """Keys of answers to one question. All of it is public.

    Args:
        question: Public text.

    Attributes:
        kind: Of answer that it asks for.
        language: Of the question.
        most: Keys that one answer has at most.
        by_value: Whether they are values of a kind, such as times, and not words of the answer.
        run_together: Whether they lack spaces: "aqua fitness" and "aquafitness" are one item.
        domain: All keys that there may be, the likelier ones first; none without a public list.
    """

    def __init__(self, question: str) -> None:
        self.language = language_of(question)
        self.kind = self.language.kind(question)
        self.most = _PARTS.get(self.kind, 1)
        self.by_value = self.kind not in _PARTS
        # German writes one word, and which of two has a capital is not told of them in one.
        lists = self.kind is QuestionKind.LIST
        self.run_together = lists and not self.language.nouns_have_capitals
        self._of_hours = self.kind is QuestionKind.OTHER and self.language.asks_for_hours(question)
        self.domain = answer_domain(self.kind, self.language)
        self._asked = frozenset(word.casefold() for word in _WORD.findall(question))
        self._asked_stems = frozenset(map(self.language.stem, self._asked))
        self._asked_content = frozenset(
            self.language.stem(word)
            for word in self._asked
            if not (is_function_word(word) or self.language.says_little(word))
        )
        self._lists = len(_ITEMS.split(question)) >= _LISTED
        self._asked_names = frozenset(map(self.language.stem, self._names_asked(question)))
        self._which = frozenset(_WHICH.findall(question.casefold()))
        self._numbers = frozenset(
            found["number"] for found in _NUMBER.finditer(in_digits(question, self.language.code))
        )

    def of(self, answer: str, *, by_parts: bool = False) -> tuple[str, ...]:
        """The keys of an answer, as they may be shown; none where it has no part of the kind.

        Args:
            answer: One sentence.
            by_parts: Whether a person or place without a name is a word: "the caretaker".
        """
        return self.parts(answer, by_parts=by_parts)[: self.most]

    def parts(self, answer: str, *, by_parts: bool = False) -> tuple[str, ...]:
        """All that may be keys, the best first, of which a document may state others; see `of`."""
        text = _plain(answer)
        found = tuple(dict.fromkeys(self._found(text)))
        if not found and by_parts and self.kind in (QuestionKind.PERSON, QuestionKind.PLACE):
            found = tuple(self._parts(text))
        if self.kind is QuestionKind.NUMBER:
            found = tuple(sorted(found, key=self._counts_something_else))
        return found[:1] if self.by_value else found

    def answers(self, answer: str) -> bool:
        """Whether an answer has what the question asks for: a time, a date, a number, a reason.

        "Closed until 2026." tells no day, "at noon" a time; "Floor." is a word of a reason alone.
        """
        words = [word.casefold() for word in _WORD.findall(_plain(answer))]
        if self.kind in (QuestionKind.REASON, QuestionKind.MANNER):
            compound = self.language.nouns_have_capitals and len(answer) > _COMPOUND
            return compound or len(words) > 1
        if self.kind not in _VALUES:
            return True
        timed = self.kind is not QuestionKind.NUMBER and any(
            one.is_time(word) for word in words if word not in self._asked for one in languages()
        )
        return timed or bool(self.of(answer))

    def states(self, document: str) -> Callable[[str], bool]:
        """The test whether a document states a key, in whatever form.

        Yes and no stand in no document; and one in another language has other words for a reason.
        """
        text = _plain(document)
        match self.kind:
            case QuestionKind.YES_OR_NO:
                return lambda key: True
            case QuestionKind.PERSON | QuestionKind.PLACE:
                words = frozenset(word.casefold() for word in _WORD.findall(text))
                return lambda key: words.issuperset(_WORD.findall(key.casefold()))
            case _ if self._of_hours:
                times = {*self._times(from_to(text))}
                return lambda key: times.issuperset(key.split(HOURS))
            case kind if kind in _PARTS:
                if language_of(text) is not self.language:
                    return lambda key: True
                stems = self.words(document) if self.run_together else self._stems(document)
                return lambda key: self._stems(key) <= stems
            case QuestionKind.NUMBER:
                # "9 Tage" and "9 days": the currency is the same in all languages, days are not.
                numbers = {key.split()[0] for key in self._amounts(text, language_of(text))}
                return lambda key: key.split()[0] in numbers
        return frozenset(self._found(text)).__contains__

    def has_names(self, document: str) -> bool:
        """Test for the names and numbers of the question, without which nothing is said of them.

        In German every noun has a capital, so of a German question only numbers are known. Months,
        weekdays, languages and countries are written in each language by themselves, and a text
        in German need not say so.
        """
        return not self._asked_names or self._asked_names <= self._stems(document)

    def about(self, document: str) -> bool:
        """Test for what a document that answers has of the question: see `has_names`.

        Of a question that lists much it has a part of all words, too, if it is in its language:
        "Which disease has fever, a cough and red eyes?" One that only says much may be worded
        unlike any document.
        """
        said = len(self._asked_content)
        if said < _MUCH or not self._lists or language_of(document) is not self.language:
            return self.has_names(document)
        stems = self._stems(document)
        return self._asked_names <= stems and len(self._asked_content & stems) >= _SHARED * said

    def _stems(self, document: str) -> frozenset[str]:
        words = set(_WORD.findall(_plain(document).casefold()))
        return frozenset(map(self.language.stem, words))

    def words(self, text: str) -> frozenset[str]:
        """The words of a text that keys may consist of; of items all that may be one."""
        if not self.run_together:
            return content_words(text)
        words, many = _WORD.findall(_plain(text)), range(1, 1 + _ITEM_WORDS)
        items = (words[at : at + size] for at in range(len(words)) for size in many)
        return frozenset(map(self.language.stem, set(map(run_together, items))))

    def _names_asked(self, question: str) -> Iterator[str]:
        # "At 3 a.m." is when, and not what.
        for at, word in enumerate(_WORD.findall(FULL_HOUR.sub(" ", question))):
            folded = word.casefold()
            known = folded in self.language.function_words or self.language.is_date(folded)
            if known or self.language.is_language_or_country(folded):
                continue
            name = at > 0 and word[:1].isupper() and not self.language.nouns_have_capitals
            if name or has_digit(word):
                yield folded

    def _found(self, text: str) -> Iterator[str]:
        match self.kind:
            case QuestionKind.TIME:
                return self._times(text)
            case QuestionKind.DATE:
                return self._dates(text)
            case QuestionKind.WEEKDAY:
                return self._weekdays(text)
            case QuestionKind.NUMBER:
                return self._amounts(text, self.language)
            case QuestionKind.PERSON:
                return self._persons(text)
            case QuestionKind.PLACE:
                return self._places(text)
            case QuestionKind.YES_OR_NO:
                words = [word.casefold() for word in _WORD.findall(text)]
                return yes_or_no(words, self._asked, self.language)
        return hours_form({*self._times(from_to(text))}) if self._of_hours else self._parts(text)

    def _parts(self, text: str) -> Iterator[str]:
        """Words of an answer that are news: a phrase, items of a list, or single words.

        Single words are those of reasons and ways, and of persons and places without a name: the
        longest first, as they say most, and names before them. A date is no reason.
        """
        match self.kind:
            case QuestionKind.LIST:
                yield from self._items(text)
                return
            case QuestionKind.OTHER:
                yield from self._phrase(text)
                return
        language, words = self.language, dict[str, bool]()
        for at, word in enumerate(_WORD.findall(text)):
            folded = word.casefold()
            says = self._is_new(folded) and folded not in language.announcing
            if not says or is_date(folded) or has_digit(word):
                continue
            # The first word has a capital anyhow.
            capital = word[:1].isupper() and (at > 0 or language.nouns_have_capitals)
            plural = not capital and len(word) > _SHORT and _PLURAL.search(folded)
            shown = word if language.nouns_have_capitals else folded[:-1] if plural else folded
            words[shown] = words.get(shown, False) or capital
        yield from sorted(words, key=lambda word: (not words[word], -len(word), word))

    def _is_new(self, folded: str) -> bool:
        """True of a word in small letters that says something, and something else than asked."""
        little = is_function_word(folded) or is_function_word(_CLITIC.sub("", folded))
        return not little and self.language.stem(folded) not in self._asked_stems

    def _items(self, text: str) -> Iterator[str]:
        """Items of a list: of each of its parts the last words that stand together and are news.

        "Saturday is the day of aqua fitness and diving" has two.
        """
        for part in _ITEMS.split(text):
            words = _WORD.findall(part)
            folded = [word.casefold() for word in words]
            new = [self._is_new(word) and not (is_date(word) or has_digit(word)) for word in folded]
            for run in list(runs_of(new))[-1:]:
                item = words[run[0] : run[-1] + 1][-_ITEM_WORDS:]
                yield run_together(item) if self.run_together else " ".join(item)

    def _phrase(self, text: str) -> Iterator[str]:
        """The words that answer: names that stand together, or the last words that are news.

        Each has a capital, as it may have one by its place. "Therapy and Shoes" is one, and a name
        may have words of the question.
        """
        words = _WORD.findall(text)
        folded = [word.casefold() for word in words]
        new = [self._is_new(word) for word in folded]
        joining = [a in _JOINING and b for a, b in zip(folded, [*new[1:], False], strict=True)]
        named = [
            (word[:1].isupper() or has_digit(word)) and not is_function_word(small)
            for word, small in zip(words, folded, strict=True)
        ]
        # The first word has a capital anyhow.
        names = [run for run in runs_of(named, joining) if run[-1] and any(new[at] for at in run)]
        for run in names[:1] or list(runs_of(new, joining))[-1:]:
            shown = range(run[0], run[-1] + 1)
            yield " ".join(words[at] if joining[at] else _capital(words[at]) for at in shown)

    def _times(self, text: str) -> Iterator[str]:
        for language in self._languages():
            for hour, minute in language.times_in_words(text):
                yield time_form(hour, minute)
        yield from times_in_digits(text, self.language)

    def _dates(self, text: str) -> Iterator[str]:
        for language in self._languages():
            yield from filter(None, (self._day(*found) for found in language.dates(text)))
        for found in (*_ISO_DATE.finditer(text), *_NUMERIC_DATE.finditer(text)):
            if date := self._day(int(found["month"]), int(found["day"])):
                yield date
        yield from self._weekdays(text)
        yield from self._times(text)

    def _day(self, month: int, day: int) -> str | None:
        return day_form(month, day, self.language)

    def _weekdays(self, text: str) -> Iterator[str]:
        words = _WORD.findall(text.casefold())
        for language in self._languages():
            for word in words:
                if word in language.weekdays:
                    yield weekday_form(language.weekdays[word], self.language)

    def _amounts(self, text: str, language: Language) -> Iterator[str]:
        text = in_digits(text, language.code)
        for found in _NUMBER.finditer(text):
            if found["number"] in self._numbers:
                continue
            number = re.sub(r"[ '\u00a0]", "", found["number"]).replace(",", ".")
            number = re.sub(r"\.0+$", "", number)
            for mark in (found["before"], found["after"]):
                if mark and (code := CURRENCY_OF.get(mark.casefold())):
                    yield f"{number} {code}"
                    break
            else:
                counted = self._counted(text[found.end("number") :])
                yield f"{number} {counted}".strip()

    def _counts_something_else(self, amount: str) -> bool:
        """False of the nine days of "Ticket 3: it took nine days", if it is asked how many days."""
        stems = map(self.language.stem, amount.casefold().split()[1:])
        return self._asked_content.isdisjoint(stems)

    def _counted(self, after: str) -> str:
        """What a number counts: a few words behind it."""
        counted = []
        for word in after.split()[:_WITH_NUMBER]:
            bare = word.strip(".,;:!?()")
            if not _WORD.fullmatch(bare) or bare.casefold() in self.language.function_words:
                break
            counted.append(bare)
            if bare != word:
                break
        return " ".join(counted)

    def _persons(self, text: str) -> Iterator[str]:
        for name, _ in self._names(text):
            if not all(is_date(word.casefold()) for word in name):
                yield next(word for word in reversed(name) if word.casefold() not in self._asked)

    def _places(self, text: str) -> Iterator[str]:
        for found in _NUMBERED.finditer(text):
            noun = found["noun"].casefold()
            # "I am member 3" does not tell where the members meet; "room 12" tells which room.
            asked = self.language.stem(noun) in self._asked_stems and noun not in self._which
            if not asked and not is_function_word(noun):
                yield f"{found['noun']} {found['number']}"
        # "Das Auto steht im Nordtor": of two names the place is that behind a preposition.
        for name, _ in sorted(self._names(text), key=lambda found: not found[1]):
            yield " ".join(self._proper(name))

    def _proper(self, name: list[str]) -> list[str]:
        """A name without what kind of place it is, asked where to park: "Parkhaus Nordtor"."""
        if not self.language.nouns_have_capitals:
            return name
        asked = tuple(one for one in self._asked_content if len(one) > _SHORT)
        stem, folded = self.language.stem, [word.casefold() for word in name]
        kinds = [word.startswith(asked) and stem(word) not in asked for word in folded]
        return [word for word, is_kind in zip(name, kinds, strict=True) if not is_kind] or name

    def _names(self, text: str) -> Iterator[tuple[list[str], bool]]:
        """Words with a capital that stand together, some of them news, without titles.

        Beside each: whether one of the two words before it is a preposition.
        """
        run, before = list[str](), list[str]()
        placed, end = False, 0
        for word in _WORD.finditer(text):
            bare, between = word.group(), text[end : word.start()].strip()
            end = word.end()
            folded = bare.casefold()
            apart = between.strip("\"'«»“”„") not in ("", ".") or (between and not run)
            if apart and self._is_news(run):
                yield run, placed
            if apart:
                run, before = [], []
            if folded in self.language.titles:
                continue
            little = folded in self.language.function_words or (
                not run and is_function_word(folded)
            )
            if bare[:1].isupper() and not little:
                placed = placed if run else not _PREPOSITIONS.isdisjoint(before[-2:])
                run.append(bare)
            else:
                if self._is_news(run):
                    yield run, placed
                run = []
            before.append(folded)
        if self._is_news(run):
            yield run, placed

    def _is_news(self, name: list[str]) -> bool:
        """True of a name with a word that the question has not: "Tallow Street", of a street."""
        return not self._asked.issuperset(word.casefold() for word in name)

    def _languages(self) -> tuple[Language, ...]:
        """The language of the question first, then the others."""
        return (self.language, *(one for one in languages() if one is not self.language))


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]


def _plain(text: str) -> str:
    """A text in one line, without articles and prepositions that are part of a word: "l'aqua"."""
    return _ELIDED.sub("", " ".join(normal_form("NFKC", text).split()))


@lru_cache(maxsize=256)  # of questions, which are public
def answer_keys(question: str) -> AnswerKeys:
    """The keys of answers to a question."""
    return AnswerKeys(question)
