"""Chroma's filters on metadata, over records that another store holds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval.vectors import Where

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


def filter_from(where: Where | None) -> MetadataFilter:
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
