"""The interface of image models, and the rows of experts that read through one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, runtime_checkable

import torch

from dpicl_rag.documents import Document
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.vision.pictures import Picture, read_picture


@dataclass(frozen=True, slots=True, repr=False)
class Example:
    """A picture and its label, one of the public ones."""

    picture: Picture
    label: str

    def __repr__(self) -> str:
        return "Example(<private>)"


class VisionModel(Protocol):
    """Labels a picture after some examples.

    A row is a function of its own examples and of public things to the last bit: pictures are read
    one at a time, or in passes whose shape is public. No error depends on a picture.
    """

    @property
    def fingerprint(self) -> str:
        """Identifies what rows follow from beside the pictures."""
        ...

    @property
    def side(self) -> int:
        """Side of the pictures that it reads, in pixels. Public."""
        ...

    def label_log_probs(
        self, examples: Sequence[Example], query: Picture, labels: Sequence[str]
    ) -> torch.Tensor:
        """The row of one expert.

        Args:
            examples: What the expert reads, any number of them; none gives the public row.
            query: A public picture.
            labels: Public names, at least two. Those of the examples are among them.

        Returns:
            Log-probabilities, normalised over the labels, float64 [labels].
        """
        ...


@runtime_checkable
class SharedPasses(Protocol):
    """A model whose engine reads many rows together and keeps each one's bits."""

    def rows(
        self, experts: Iterable[Sequence[Example]], query: Picture, labels: Sequence[str]
    ) -> torch.Tensor:
        """``label_log_probs`` of each expert, the same to the last bit, float64 [n, labels]."""
        ...


def rows_of_experts(
    model: VisionModel,
    experts: Iterable[Sequence[Example]],
    query: Picture,
    labels: Sequence[str],
) -> torch.Tensor:
    """The row of each expert, one or more, float64 [n, labels]."""
    if isinstance(model, SharedPasses):
        return model.rows(experts, query, labels)
    return torch.stack([model.label_log_probs(own, query, labels) for own in experts])


def read_examples(documents: Iterable[Document], labels: Sequence[str], side: int) -> list[Example]:
    """Examples from those documents whose images can be read, in their order.

    A picture that cannot be read is left out in silence, and so is a text that is none of the
    labels: an error would tell that they are there.
    """
    return [
        Example(picture, document.text)
        for document in documents
        if document.text in labels and (picture := read_picture(document.image, side)) is not None
    ]


def read_rows(
    model: VisionModel,
    experts: Iterable[Sequence[Document]],
    query: Picture,
    labels: Sequence[str],
) -> DenseStep:
    """The public row, and a row for each expert that has something to read.

    An expert with nothing to read has nothing to say: it has no row. That follows from its own
    documents alone.

    Args:
        model: Reads them.
        experts: The documents of each expert.
        query: A public picture.
        labels: Public names.
    """
    own = (read_examples(documents, labels, model.side) for documents in experts)
    # One expert after another: pictures that were unpacked are not kept.
    speaking = chain([()], (examples for examples in own if examples))
    rows = rows_of_experts(model, speaking, query, labels)
    return DenseStep(rows[0], rows[1:])
