"""Records of stores: a passage, the defects that keep one from questions, the marks of a corpus.

An error that one record can cause would tell that it is there. So a question leaves out a record
without a text or a unit, and scores a vector that cannot be compared as 0; both follow from the
record alone, and its owner learns of them without a question being asked.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dpicl_rag._unobserved import Private
from dpicl_rag.documents import THREAD_OR_DOCUMENT, unit_of
from dpicl_rag.errors import ConfigurationError, CorpusError
from dpicl_rag.retrieval.embeddings import Embedder


@dataclass(frozen=True, slots=True, repr=False)
class StoredRecord(Private):
    """One passage with its place in the corpus."""

    id: str
    unit: str
    text: str
    metadata: Mapping[str, str] = field(default_factory=dict)


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


def comparable_rows(vectors: Sequence[Any], length: int) -> npt.NDArray[np.float64]:
    """Vectors as rows of numbers, ``[n, length]``; zeros where one is none of this length."""
    rows = np.zeros((len(vectors), length))
    for place, vector in enumerate(vectors):
        row = comparable(vector, length)
        if row is not None:
            rows[place] = row
    return rows


def find_defects(
    rows: Iterable[tuple[StoredRecord | Defect, npt.ArrayLike]], embedder: Embedder
) -> list[Defect]:
    """The defects of a store, in the order of its records."""
    length = vector_length(embedder)
    defects: list[Defect] = []
    for record, vector in rows:
        row = comparable(vector, length)
        if isinstance(record, Defect):
            defects.append(record)
        elif row is None:
            defects.append(Defect(record.id, OTHER_LENGTH))
        elif not (np.isfinite(row).all() and row.any()):
            defects.append(Defect(record.id, NO_VECTOR))
    return defects


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


SYNTHESIS, _EPSILON, _DELTA = "dpicl_run", "dpicl_epsilon", "dpicl_delta"


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
        return {SYNTHESIS: self.run, _EPSILON: self.epsilon, _DELTA: self.delta}

    @staticmethod
    def of(metadata: Mapping[str, Any]) -> SyntheticOrigin | None:
        """Read back from a corpus; None where it is not synthetic."""
        if SYNTHESIS not in metadata:
            return None
        return SyntheticOrigin(metadata[SYNTHESIS], metadata[_EPSILON], metadata[_DELTA])


Fields = Mapping[str, Any]
Predicate = Callable[[Fields], bool]

_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


@dataclass(frozen=True)
class MetadataFilter:
    """A filter as a function of one record's own fields.

    Attributes:
        passes: Whether fields pass, as Chroma decides it.
        equal: Values of which a field must have one, for every record that passes. A store may use
            them to hand over fewer records; `passes` decides.
    """

    passes: Predicate
    equal: Mapping[str, list[Any]] = field(default_factory=dict)


EVERYTHING = MetadataFilter(lambda fields: True)


def filter_from(where: Mapping[str, Any] | None) -> MetadataFilter:
    """The filter that a caller gave.

    Raises:
        ConfigurationError: It is none that Chroma would take.
    """
    if where is None:
        return EVERYTHING
    if not isinstance(where, Mapping) or len(where) != 1:
        raise _refused("one field or operator at each level; join several by $and")
    ((name, value),) = where.items()
    if name in ("$and", "$or"):
        if not isinstance(value, (list, tuple)) or len(value) < 2:
            raise _refused(f"at least two filters under {name}")
        return (_all if name == "$and" else _any)([filter_from(part) for part in value])
    if not isinstance(name, str) or name.startswith("$"):
        raise _refused("the name of a field, $and or $or at each level")
    if not isinstance(value, Mapping):
        value = {"$eq": value}
    if len(value) != 1:
        raise _refused("one operator for each field; join several by $and")
    ((sign, operand),) = value.items()
    return _compared(name, sign, operand)


def _compared(name: str, sign: str, operand: Any) -> MetadataFilter:
    if sign in _ORDER and _kind(operand) is float:
        return MetadataFilter(lambda fields: _ordered(sign, fields.get(name), operand))
    if sign in ("$eq", "$ne"):
        values = [operand]
    elif sign in ("$in", "$nin") and isinstance(operand, (list, tuple)) and operand:
        values = list(operand)
    else:
        raise _refused("$eq, $ne, $in, $nin with values, and $gt, $gte, $lt, $lte with numbers")
    if any(_kind(value) is None for value in values):
        raise _refused("strings, numbers and booleans as values")
    if sign in ("$ne", "$nin"):
        return MetadataFilter(lambda fields: not _among(fields.get(name), values))
    return MetadataFilter(lambda fields: _among(fields.get(name), values), {name: values})


def _all(parts: list[MetadataFilter]) -> MetadataFilter:
    equal = {name: values for part in parts for name, values in part.equal.items()}
    return MetadataFilter(lambda fields: all(part.passes(fields) for part in parts), equal)


def _any(parts: list[MetadataFilter]) -> MetadataFilter:
    return MetadataFilter(lambda fields: any(part.passes(fields) for part in parts))


def _among(value: Any, values: list[Any]) -> bool:
    kind = _kind(value)
    return kind is not None and any(_kind(v) is kind and v == value for v in values)


def _ordered(sign: str, value: Any, operand: Any) -> bool:
    return _kind(value) is float and _ORDER[sign](value, operand)


def _kind(value: Any) -> type | None:
    """Values of two kinds are never equal: True is not 1, and "1" is neither."""
    for kind in (bool, str):
        if isinstance(value, kind):
            return kind
    return float if isinstance(value, (int, float)) else None


def _refused(wanted: str) -> ConfigurationError:
    return ConfigurationError(f"where is a Chroma filter: it takes {wanted}")
