"""Chroma's filters on metadata as SQL over its own tables.

Chroma would load the index of a collection to apply one. Plain filters are said in SQL here;
for any other shape Chroma is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_NUMBERS = ("int_value", "float_value")  # 1 is 1.0
_COLUMNS: dict[type, tuple[str, ...]] = {
    str: ("string_value",),
    bool: ("bool_value",),
    int: _NUMBERS,
    float: _NUMBERS,
}
_ORDER = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_MOST = 1000  # values of a list: SQLite has a limit for a statement

Clause = tuple[str, list[Any]]


def clause(where: Mapping[str, Any]) -> Clause | None:
    """A condition on ``embeddings.id``, and its parameters.

    Args:
        where: A filter of Chroma.

    Returns:
        None where the filter is of a shape that is left to Chroma, valid or not.
    """
    if len(where) != 1:
        return None
    ((key, value),) = where.items()
    if key in ("$and", "$or"):
        return _joined(" AND " if key == "$and" else " OR ", value)
    if key.startswith(("$", "#")):
        return None
    if not isinstance(value, Mapping):
        return _has(key, "=", [value])
    if len(value) != 1:
        return None
    ((operator, operand),) = value.items()
    if operator == "$eq":
        return _has(key, "=", [operand])
    if operator == "$ne":
        return _not(_has(key, "=", [operand]))
    if operator in _ORDER and not isinstance(operand, (str, bool)):
        return _has(key, _ORDER[operator], [operand])
    if operator in ("$in", "$nin") and isinstance(operand, list) and 0 < len(operand) <= _MOST:
        if len({type(one) for one in operand}) > 1:
            return None
        found = _has(key, "IN", operand)
        return found if operator == "$in" else _not(found)
    return None


def _joined(word: str, parts: Any) -> Clause | None:
    if not isinstance(parts, list) or len(parts) < 2:
        return None
    found = [clause(part) if isinstance(part, Mapping) else None for part in parts]
    clauses = [one for one in found if one is not None]
    if len(clauses) < len(found):
        return None
    statement = word.join(f"({text})" for text, _ in clauses)
    return statement, [value for _, values in clauses for value in values]


def _has(key: str, operator: str, values: Sequence[Any]) -> Clause | None:
    """That the field is there and its value fits."""
    columns = _COLUMNS.get(type(values[0]))
    if columns is None or any(isinstance(one, float) and not one.is_integer() for one in values):
        return None  # Chroma compares 2.5 with whole numbers as 2
    marks = "(" + ",".join("?" * len(values)) + ")" if operator == "IN" else "?"
    # Columns and operators are constants of this file; all else is a parameter.
    fits = " OR ".join(f"{column} {operator} {marks}" for column in columns)
    statement = f"id IN (SELECT id FROM embedding_metadata WHERE key = ? AND ({fits}))"  # noqa: S608
    return statement, [key, *list(values) * len(columns)]


def _not(found: Clause | None) -> Clause | None:
    return None if found is None else (f"NOT ({found[0]})", found[1])
