"""Extraction tasks with synthetic shots: MIT Movies, genre and director.

A label is a text that stands in the sentence. The papers take those that they write examples for
from private records, as they are; here they are well-known genres and directors, a public list.
Every record is in the pool of each of them, shown with its own span, as in the papers; so the
texts of all shots add up for a unit.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpicl_rag.synthesis.pools import LabelledDocument
from dpicl_rag.synthesis.template import ExampleTemplate
from dpicl_research.tasks import Item, Task

SPANS = {
    "mitg": (
        *("comedy", "horror", "romantic comedy", "musical", "action", "drama", "thriller"),
        *("science fiction", "documentary", "western", "fantasy", "war"),
    ),
    "mitd": (
        *("steven spielberg", "james cameron", "quentin tarantino", "martin scorsese"),
        *("stanley kubrick", "alfred hitchcock", "ridley scott", "tim burton"),
        *("george lucas", "woody allen", "clint eastwood", "peter jackson"),
    ),
}
"""Public answers that examples are written for."""

ANSWER_TOKENS = 10
"""Most tokens of an extracted answer, as in the papers."""

_BETWEEN = " => "


class SpanTemplate(ExampleTemplate):
    """Shows an example with the span that it has, whatever label is written for."""

    __slots__ = ()

    def shown(self, label: str, text: str) -> str:
        """See `ExampleTemplate`; what an example without a span shows is its text."""
        span, between, sentence = text.partition(_BETWEEN)
        return ExampleTemplate.shown(self, span if between else "", sentence if between else text)


def is_extraction(task: Task) -> bool:
    """Whether the answers are texts that stand in the query."""
    return not task.labels


def examples_of(items: Sequence[Item], labels: Sequence[str]) -> list[LabelledDocument]:
    """Every item as a unit of all labels' pools."""
    return [
        LabelledDocument(f"{item.shown}{_BETWEEN}{item.text}", label, f"record {number}")
        for number, item in enumerate(items)
        for label in labels
    ]


def first_word(label: str) -> str:
    """What `Item.answer` is of a span."""
    return label.split()[0]
