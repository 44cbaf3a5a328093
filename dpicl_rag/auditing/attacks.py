"""Attacks: neighbours in which a unit might move rows that it is not charged for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.auditing.company import OneReading
from dpicl_rag.auditing.subject import Subject
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.documents import Document
from dpicl_rag.language_models.base import LanguageModel, Rows
from dpicl_rag.prompts import Prompt

if TYPE_CHECKING:
    from dpicl_rag.language_models.transformers import TransformersModel

AttackName = Literal["a newcomer", "a joined row", "kept rows"]
"""A unit of another length arrives; it joins a row that was alone in its width; rows of the others
were read before, in other circumstances, and its arrival has them read anew."""

_TEXTS = ("The depot opens at seven.", "Ana prefers tea, and Ben prefers coffee or water.")
_NEWCOMERS = ("It rains. " * 40, "No.")
_LENGTHS = (70, 140, 280)  # tokens; of rows that take more room than most


@dataclass(frozen=True, slots=True, repr=False)
class Side:
    """One of two neighbours.

    Attributes:
        model: Reads each company of documents once.
        documents: The units that both have come first.
    """

    model: LanguageModel
    documents: Sequence[Document]


@dataclass(frozen=True, slots=True, repr=False)
class Neighbours:
    """Two corpora that differ in one unit.

    Attributes:
        one: With the unit.
        other: Without it.
    """

    one: Side
    other: Side

    def rows(self, subject: Subject, prompt: Prompt, room: int) -> tuple[Rows, Rows]:
        """Rows of both, for labels of so many tokens."""
        one, other = (
            rows_of(subject, side.model, prompt, side.documents, room)
            for side in (self.one, self.other)
        )
        return one, other


def every_attack(subject: Subject, copies: int) -> Iterator[tuple[AttackName, list[Neighbours]]]:
    """Each attack with the neighbours to choose from; those that the model can suffer.

    Args:
        subject: Its model is attacked.
        copies: How many units hold one text.
    """
    from dpicl_rag.language_models.transformers import TransformersModel

    model = OneReading(subject.model)
    for name in get_args(AttackName):
        if name == "a newcomer":
            yield name, _newcomers(model, copies)
        elif name == "a joined row":
            yield name, _joined(model)
        elif isinstance(subject.model, TransformersModel):
            yield name, _kept(subject, subject.model, copies)


def rows_of(
    subject: Subject, model: LanguageModel, prompt: Prompt, documents: Sequence[Document], room: int
) -> Rows:
    """The rows of a corpus as the private path reads them."""
    most = prompt.allowance(model, PrivacyConfig.create(**subject.settings).unit_tokens, room)
    inputs = [model.digest((document.text,), most) for document in documents]
    return read(model, prompt, inputs, room=room)


def _newcomers(model: LanguageModel, copies: int) -> list[Neighbours]:
    return [
        _neighbours(model, _copies(text, copies), newcomer)
        for text in _TEXTS
        for newcomer in _NEWCOMERS
    ]


def _joined(model: LanguageModel) -> list[Neighbours]:
    """One row in a width of its own, and a second one of nearly its length."""
    texts = [_long(model, text, length) for length in _LENGTHS for text in _TEXTS]
    return [_neighbours(model, [Document(text, "alone")], f"{text} No.") for text in texts]


def _kept(subject: Subject, model: TransformersModel, copies: int) -> list[Neighbours]:
    """Copies that were read ahead with another number of threads, or else read now."""
    from dpicl_rag.language_models.prefix_cache import PrefixCache

    prompt = subject.template.cut(model.tokenizer, subject.question)
    found = []
    for text in _TEXTS:
        documents = _copies(text, copies)
        ahead = model.with_cache(PrefixCache())
        with _other_threads():
            rows_of(subject, ahead, prompt, documents, room=1)
        now = OneReading(model.with_cache(None))
        anew = _neighbours(now, documents, _NEWCOMERS[0])
        found.append(replace(anew, other=Side(OneReading(ahead), documents)))
    return found


def _copies(text: str, count: int) -> list[Document]:
    return [Document(text, f"copy-{at}") for at in range(count)]


def _neighbours(model: LanguageModel, others: list[Document], newcomer: str) -> Neighbours:
    with_it = [*others, Document(newcomer, "newcomer")]
    return Neighbours(Side(model, with_it), Side(model, others))


def _long(model: LanguageModel, text: str, tokens: int) -> str:
    """A text, again and again, of at least so many tokens."""
    once = max(1, len(model.tokenizer.encode(text)))
    return " ".join([text] * -(-tokens // once))


@contextmanager
def _other_threads() -> Iterator[None]:
    """Numbers are added up in another order here."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2 if before == 1 else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
