"""The interface of public knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Knowledge(Protocol):
    """Public texts that are near to a question.

    The public row reads them in a document's place, so that a token which follows from them costs
    the documents nothing. Experts never read them. Nothing in them may come from the private
    documents but what was released.
    """

    def recall(self, question: str) -> Sequence[str]:
        """Texts for a question, the nearest first; none where nothing is near.

        Raises:
            DPICLError: The source cannot be read. Nothing has been spent by then.
        """
        ...
