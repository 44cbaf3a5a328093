"""Prose over released numbers: fixed sentences, in the language of a question.

No model writes them. The check that a written sentence brings in nothing new compares sets of words
(`dpicl_rag.answering.written_sentences`): two numbers that change their places would pass it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, Protocol

from dpicl_rag.languages.languages import language_data, language_of

HowCounted = Literal["said", "about", "named"]
"""What documents do: their answers are it, they are about it, or they name it."""


class NumberRange(Protocol):
    """A number of documents, and the numbers between which the true one is."""

    @property
    def units(self) -> int:
        """About how many."""
        ...

    @property
    def low(self) -> int:
        """At least."""
        ...

    @property
    def high(self) -> int:
        """At most."""
        ...


@dataclass(frozen=True)
class Prose:
    """Sentences in one language. What they are given was released before."""

    code: str
    _sentences: Mapping[str, str] = field(repr=False)

    def yes(self, count: NumberRange) -> str:
        """How many say yes."""
        return self._filled("yes", **self._range(count))

    def counts(
        self,
        how: HowCounted,
        counts: Iterable[tuple[str, NumberRange]],
        total: NumberRange | None = None,
        others: NumberRange | None = None,
    ) -> str:
        """One sentence of several counts; the first has the words of the whole."""
        counts = list(counts)
        whole: dict[str, str] = {}
        if total is not None:
            # By their noise a part may be larger than the whole; then both may be the larger.
            most = max(total.units, *(one.units for _, one in counts), 0)
            whole = {"total": self._number(most)}
        parts: list[str] = []
        for name, count in counts:
            shown = self._filled("quoted", name=name) if how == "said" else name
            key = f"also_{how}" if parts else how
            parts.append(self._filled(key, **self._range(count), **whole, name=shown))
        if others is not None:
            key = "also_none" if parts else "none"
            parts.append(self._filled(key, **self._range(others), **whole))
        return f"{'; '.join(parts)}."

    def number(self, key: str, units: int) -> str:
        """A sentence with one number in it."""
        return self._filled(key, units=self._number(units))

    def reading(self, key: str, yes: float, no: float) -> str:
        """A sentence of how often a model reads right; none is always right."""
        right = {name: str(min(99, round(100 * rate))) for name, rate in (("yes", yes), ("no", no))}
        return self._filled(key, **right)

    def sentence(self, key: str) -> str:
        """A sentence without numbers."""
        return self._sentences[key]

    def _filled(self, key: str, **words: str) -> str:
        return self._sentences[key].format_map(words)

    def _range(self, count: NumberRange) -> dict[str, str]:
        return {name: self._number(getattr(count, name)) for name in ("units", "low", "high")}

    def _number(self, number: int) -> str:
        from babel.numbers import format_decimal

        return str(format_decimal(number, locale=self.code))


def prose_for(question: str | None) -> Prose:
    """The sentences in the language of a question; English without one."""
    code = language_of(question or "").code
    return Prose(code, _data()[code])


@cache
def _data() -> Mapping[str, Mapping[str, str]]:
    return language_data("prose.toml")
