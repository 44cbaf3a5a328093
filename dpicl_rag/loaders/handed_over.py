"""Documents of LangChain and LlamaIndex as records of a load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.loaders.framework_documents import (
    FrameworkDocument,
    given,
    is_of_framework,
    refuse_without_field,
)
from dpicl_rag.loaders.load_report import Skipped
from dpicl_rag.loaders.records import EMPTY, Options, Record, RecordOrSkipped, tidy


def handed_over(items: object, options: Options) -> tuple[object, Iterator[RecordOrSkipped] | None]:
    """The records of documents that were handed over in the place of paths.

    Args:
        items: What ``load`` was given.
        options: As in ``load``.

    Returns:
        What was given, whole again where its first item was looked at; and the records, None where
        these are no documents of a framework.

    Raises:
        ConfigurationError: No field names their unit, or a text or key field was named.
    """
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        return items, None
    rest = iter(items)
    first = list(next_of(rest))
    whole = chain(first, rest) if rest is items else items
    if not any(map(is_of_framework, first)):
        return whole, None
    if options.unit is None:
        refuse_without_field()
    if options.unit == "thread" or options.text_field or options.key_field:
        raise ConfigurationError(
            "documents of LangChain and LlamaIndex have their text, and their unit by a metadata "
            "field: leave text_field and key_field out, and name another unit than 'thread'"
        )
    return whole, records_of(whole)


def records_of(items: Iterable[FrameworkDocument]) -> Iterator[RecordOrSkipped]:
    """A record for each document, or why there is none.

    Raises:
        ConfigurationError: One is of no framework.
    """
    seen: Counter[str] = Counter()
    for number, item in enumerate(items, 1):
        position = f"document {number}"
        if not is_of_framework(item):
            raise ConfigurationError(
                f"a list is of paths or of documents of LangChain and LlamaIndex, not of "
                f"{type(item).__name__} beside these"
            )
        one = given(item)
        text = tidy(one.text or "")
        if not text:
            yield Skipped(position, EMPTY)
            continue
        metadata = {name: tidy(value) for name, value in one.metadata().items()}
        yield Record(position, text, metadata, identity=f"{one.unit('document', seen)}")


def next_of(items: Iterator[object]) -> Iterator[object]:
    """The next item, if there is one."""
    for item in items:
        yield item
        return
