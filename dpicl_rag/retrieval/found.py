"""What a scan of a file found: units by their vectors, texts once they are chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy.typing as npt

from dpicl_rag.corpora.passages import Record
from dpicl_rag.documents import Document
from dpicl_rag.retrieval.base import unit_key
from dpicl_rag.retrieval.vector_file import Mapped, Mask, Near
from dpicl_rag.retrieval.vectors import Scored

Fetch = Callable[[Sequence[int]], Mapping[int, Record]]


class FoundInFile:
    """Units that a scan of a file found; their texts are fetched when they are chosen.

    Args:
        mapped: The file.
        near: What was found in it.
        allowed: Rows that count; all if None.
        question: Embedding of the question.
        fetch: Returns the records of rows, without those that are gone.
    """

    def __init__(
        self,
        mapped: Mapped,
        near: Near,
        allowed: Mask | None,
        question: npt.ArrayLike,
        fetch: Fetch,
    ) -> None:
        names = [mapped.names[place] for place in near.units.tolist()]
        order = sorted(range(len(names)), key=lambda place: (unit_key(names[place]), names[place]))
        self.units = [names[place] for place in order]
        self.scores = near.scores[order]
        self._places = near.units[order]
        self._mapped, self._allowed = mapped, allowed
        self._question, self._fetch = question, fetch

    def __repr__(self) -> str:
        return "Found(<private>)"

    def passages(self, chosen: Iterable[int], most: int | None = None) -> list[Scored]:
        """See `Found.passages`."""
        mapped = self._mapped
        places = self._places[list(chosen)].tolist()
        rows = mapped.rows_of(places)
        if self._allowed is not None:
            rows = rows[self._allowed[rows]]
        scores = dict(zip(rows.tolist(), mapped.scores(self._question, rows).tolist(), strict=True))
        records = self._fetch(list(scores))
        of_unit: dict[int, list[int]] = {}
        for row in records:
            of_unit.setdefault(int(mapped.unit[row]), []).append(row)
        found: list[Scored] = []
        for place in places:
            own = sorted(of_unit.get(place, ()), key=lambda row: (-scores[row], records[row].id))
            found.extend(
                Scored(Document(record.text, record.unit, record.metadata), scores[row])
                for row in own[:most]
                for record in (records[row],)
            )
        return found
