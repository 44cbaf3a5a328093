"""Rehearsal: how well a model answers from public documents, and whether it can say nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_RIGHT = 0.7
"""Of what documents tell, the least part that a model answers right that may answer."""

_SILENT = 0.8
"""Of questions about something else than the document, the least part to which it says nothing.

What is asked near to a document has words of it: a filter by words would let it vote, too."""

_LOST = 0.2
"""Of what they tell, the most that it may lose by being able to say nothing."""

_HOPELESS = 3 / 8
"""Of what they tell, the part of a model that need not be asked on: one that answers 80 % has so
little of the first eight once in a hundred times."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a model did in its rehearsal: a function of the model and of public text alone.

    A model that misreads nearly all of the first questions is asked no others, and is not shown
    that a document may tell nothing.

    Attributes:
        told: Questions that were asked of documents that tell.
        right: How many of them it answered right, shown that a document may tell nothing.
        right_by_default: The same, not shown it; None where that decides nothing.
        far: Questions that were asked of documents about something else.
        silent: How many of them it said nothing to, shown how.
        near: Questions that were asked of documents about the same thing that do not tell.
        silent_near: The same of these.
        by_language: The same of each language that was asked in.
    """

    told: int = 0
    right: int = 0
    right_by_default: int | None = None
    far: int = 0
    silent: int = 0
    near: int = 0
    silent_near: int = 0
    by_language: Mapping[str, Rehearsal] = field(default_factory=dict)

    @property
    def knows_silence(self) -> bool:
        """True of a model that answers where a document tells, and says nothing where it does not.

        Its experts are shown worked examples of both, and what they say decides who may vote.
        """
        return (
            self.told > 0
            and self.right >= _RIGHT * self.told
            and self.silent >= _SILENT * self.far
            and self.answered - self.right <= _LOST * self.told
        )

    @property
    def loses_little(self) -> bool:
        """True where so much is right that however it were asked, it could not be much more."""
        return self.told - self.right <= _LOST * self.told

    @property
    def is_toy(self) -> bool:
        """True of a model that misreads too much, however it is asked."""
        return self.answered < _RIGHT * self.told

    @property
    def is_hopeless(self) -> bool:
        """True of a toy that misreads nearly all: more questions find out nothing more."""
        return self.answered <= _HOPELESS * self.told

    @property
    def verdict(self) -> str:
        """What follows, in plain words."""
        if not self.told:
            return "not rehearsed: its engine does not let a document answer by itself"
        if self.is_toy:
            return f"a toy: answers {self.answered} of {self.told}"
        silence = (
            f"stays silent on {self.silent} of {self.far} documents about something else, and on "
            f"{self.silent_near} of {self.near} that come near"
        )
        if self.knows_silence:
            return f"answers {self.right} of {self.told}, {silence}: may answer"
        return f"answers {self.answered} of {self.told}, but {silence}"

    @property
    def answered(self) -> int:
        """How many it answered right, asked in whatever way it does so best."""
        return max(self.right, self.right_by_default or 0)
