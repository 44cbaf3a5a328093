"""Names of units, in words that a user knows."""

from __future__ import annotations

from collections.abc import Iterable

from dpicl_rag.loaders.records import Record


def unit_in_words(records: Iterable[Record], unit: str | None) -> str:
    """Name of the unit of a load.

    Args:
        records: All that was read; of them only the kinds count.
        unit: As for ``load``.
    """
    if unit not in (None, "document", "thread"):
        return f"the same {unit}"
    if unit == "thread":
        return "one email thread"
    mail = "one email thread" if unit is None else "one email"
    kinds = {mail if one.thread else "one row" if one.is_row else "one document" for one in records}
    return " or ".join(sorted(kinds)) or "one document"
