"""Documents of LangChain and LlamaIndex among those that a corpus is given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.loaders.framework_documents import is_of_framework
from dpicl_rag.loaders.loader import load


def taken_over(items: Iterable[Any], unit: str | None) -> Iterator[Any]:
    """Documents of frameworks as ``load`` makes them, for a corpus; other items as they are.

    Args:
        items: What was handed over.
        unit: As for ``load``.

    Raises:
        ConfigurationError: A document has no text or no value for the unit, or no unit was named;
            or one was, for documents that have theirs.
    """
    for are_theirs, some in groupby(items, is_of_framework):
        part = list(some)
        if not are_theirs:
            if unit is not None:
                raise ConfigurationError(
                    "unit= names the field of documents of LangChain and LlamaIndex; leave it out "
                    "for texts and Documents, which have their units"
                )
            yield from part
            continue
        found = load(part, unit=unit)
        if found.report.skipped:
            first = found.report.skipped[0]
            raise ConfigurationError(
                f"{len(found.report.skipped)} of the documents lack their text or the field "
                f"{unit!r}: {first.position}: {first.reason}; add(load(documents, "
                f"unit={unit!r}).documents) leaves them out"
            )
        yield from found.documents
