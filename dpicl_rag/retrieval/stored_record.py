"""Records of stores: a passage, the defects that keep one from questions, the marks of a corpus.

An error that one record can cause would tell that it is there. So a question leaves out a record
without a text or a unit, and scores a vector that cannot be compared as 0; both follow from the
record alone, and its owner learns of them without a question being asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dpicl_rag.documents import THREAD_OR_DOCUMENT, unit_of
from dpicl_rag.errors import CorpusError
from dpicl_rag.retrieval.embeddings import Embedder


@dataclass(frozen=True, slots=True, repr=False)
class StoredRecord:
    """One passage with its place in the corpus.

    Attributes:
        id: Identifier of the passage in its store.
        unit: Privacy unit.
        text: The passage.
        metadata: Fields of the document it is from.
    """

    id: str
    unit: str
    text: str
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "Record(<private>)"


NO_TEXT = "it has no text, so no question reads it"
NO_UNIT = "it has no value for the privacy unit, so no question reads it"
NO_VECTOR = "its vector is zero or no row of finite numbers, so it scores 0 for every question"
OTHER_LENGTH = "its vector is not of the embedder's length, so it scores 0 for every question"


@dataclass(frozen=True, slots=True)
class Defect:
    """A stored record that questions do not find. For the owner: that it is there is private.

    Attributes:
        id: Identifier of the record in its store.
        reason: One of a few fixed phrases. It never carries content.
    """

    id: str
    reason: str


def record_of(
    id: object, fields: Mapping[str, object] | None, text: object, unit_field: str
) -> StoredRecord | Defect:
    """A record as its store holds it, or what keeps it from being one.

    Args:
        id: Its identifier.
        fields: Its metadata.
        text: Its text.
        unit_field: Metadata field that holds the privacy unit; ``"document"`` is the id itself.
    """
    fields = fields or {}
    unit = unit_of(str(id), fields, unit_field)
    if unit is None:
        return Defect(str(id), NO_UNIT)
    if not isinstance(text, str):
        return Defect(str(id), NO_TEXT)
    return StoredRecord(str(id), unit, text, {key: str(value) for key, value in fields.items()})


def vector_length(embedder: Embedder) -> int:
    """Length of the vectors that questions are embedded in."""
    return len(embedder.embed(["length"], query=True)[0])


def comparable(vector: npt.ArrayLike, length: int) -> npt.NDArray[np.float64] | None:
    """A vector of this length as numbers, or None if it is none."""
    try:
        row = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return row if row.shape == (length,) else None


def find_defects(
    rows: Iterable[tuple[StoredRecord | Defect, npt.ArrayLike]], embedder: Embedder
) -> list[Defect]:
    """The defects of a store, in the order of its records.

    Args:
        rows: Every record with its vector.
        embedder: What questions are embedded with.
    """
    length = vector_length(embedder)
    found: list[Defect] = []
    for record, vector in rows:
        row = comparable(vector, length)
        if isinstance(record, Defect):
            found.append(record)
        elif row is None:
            found.append(Defect(record.id, OTHER_LENGTH))
        elif not (np.isfinite(row).all() and row.any()):
            found.append(Defect(record.id, NO_VECTOR))
    return found


def require_kind(corpus: str, recorded: str | None, kind: str) -> bool:
    """Refuse another kind of privacy unit than a corpus has.

    Args:
        corpus: Its name.
        recorded: What a unit of it is, such as ``"sender"``; None where that is not on record.
        kind: What a unit of documents is. Public.

    Returns:
        Whether its kind is on record.

    Raises:
        CorpusError: It is another.
    """
    if recorded is None or recorded == kind:
        return recorded is not None
    if recorded == THREAD_OR_DOCUMENT:
        remedy = (
            "Leave the unit out (--unit), or make the corpus anew under it, with what was spent: "
            f"`dpicl-rag ingest` of all its files with --unit {kind} --anew (anew=True)"
        )
    else:
        remedy = f"Use {recorded!r} (--unit {recorded}), or put the documents into another corpus"
    raise CorpusError(
        f"a unit of {corpus!r} is {in_words(recorded)}, not {in_words(kind)}: a person "
        f"who is in two units has two budgets. {remedy}"
    )


def in_words(kind: str) -> str:
    """A kind of unit, as users know it."""
    if kind == THREAD_OR_DOCUMENT:
        return "one document, of mail one email thread"
    if kind in ("document", "thread"):
        return {"document": "one document", "thread": "one email thread"}[kind]
    return f"the same {kind}"


_RUN, _EPSILON, _DELTA = "dpicl_run", "dpicl_epsilon", "dpicl_delta"


@dataclass(frozen=True, slots=True)
class SyntheticOrigin:
    """The synthesis that a corpus is from. All of it is public.

    Attributes:
        run: Names it.
        epsilon: All records together are (epsilon, delta)-DP for the units of the private corpus.
        delta: See ``epsilon``.
    """

    run: str
    epsilon: float
    delta: float

    @property
    def metadata(self) -> dict[str, str | float]:
        """The fields that a corpus keeps of it."""
        return {_RUN: self.run, _EPSILON: self.epsilon, _DELTA: self.delta}

    @staticmethod
    def of(metadata: Mapping[str, Any]) -> SyntheticOrigin | None:
        """Read back from a corpus; None where it is not synthetic."""
        if _RUN not in metadata:
            return None
        return SyntheticOrigin(metadata[_RUN], metadata[_EPSILON], metadata[_DELTA])
