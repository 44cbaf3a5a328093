"""Documents of LangChain and LlamaIndex, known by what they have: neither library is imported.

A splitter cuts a file into several of them, and tells by none which belong together. So the field
of their metadata that names the privacy unit is always said: a unit for each would be several for
one person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NoReturn, Protocol

from dpicl_rag._unobserved import Private
from dpicl_rag.documents import Document, text_unit, unit_of
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.loaders import reasons
from dpicl_rag.loaders.records import Options, Record, RecordOrSkipped, Skipped, tidy

SOURCE_FIELD = "document_id"
"""The relation under which LlamaIndex's vector stores keep the source document of a node."""

_NO_MODE = "none"  # LlamaIndex's MetadataMode.NONE: the text alone, without metadata before it


class PageDocument(Protocol):
    """A document of LangChain."""

    page_content: str
    metadata: dict[Any, Any]


class Node(Protocol):
    """A document or a node of LlamaIndex."""

    metadata: dict[str, Any]

    def get_content(self, *args: Any, **kwargs: Any) -> str:
        """The text."""


class ScoredNode(Protocol):
    """A node of LlamaIndex as its retrievers give it."""

    node: Any
    score: Any


FrameworkDocument = PageDocument | Node | ScoredNode


@dataclass(frozen=True, slots=True, repr=False)
class FrameworkContents(Private):
    """Contents of a framework's document. Private.

    Attributes:
        text: Its text; None where it has none.
        fields: Its metadata.
        id: A name that it has in any run; None where another run may give it another.
    """

    text: str | None
    fields: Mapping[str, object]
    id: str | None

    def unit(self, unit_field: str, seen: Counter[str]) -> str | None:
        """Its privacy unit, None where it has no value for the field.

        Args:
            unit_field: The field; ``"document"`` makes it a unit by itself.
            seen: The texts before it, as for `text_unit`.
        """
        if unit_field == "document" and self.id is None:
            return None if self.text is None else text_unit(self.text, seen)
        return unit_of(self.id, self.fields, unit_field)

    def metadata(self) -> dict[str, str]:
        """Its fields as strings, without those that have no value."""
        written = ((str(name), unit_of(None, self.fields, name)) for name in self.fields)
        return {name: value for name, value in written if value is not None and name}


def is_of_framework(item: object) -> bool:
    """Test for an item that has what documents of LangChain or LlamaIndex have."""
    if hasattr(item, "node") and hasattr(item, "score"):
        return True
    return hasattr(item, "metadata") and (
        hasattr(item, "page_content") or callable(getattr(item, "get_content", None))
    )


def read_framework_document(item: Any) -> FrameworkContents:
    """Read a document of a framework.

    What cannot be read of it is left out: an error would tell that it is there.
    """
    # What a store gave back has the name that it has there; one that was read from a file may have
    # a new one in each run, and would spend a new budget each time.
    is_stored = hasattr(item, "node") and hasattr(item, "score")
    item = item.node if is_stored else item
    fields = item.metadata if isinstance(item.metadata, Mapping) else {}
    if hasattr(item, "page_content"):
        return FrameworkContents(_text(item.page_content), fields, _text(getattr(item, "id", None)))
    try:
        text = item.get_content(metadata_mode=_NO_MODE)
    except Exception:
        text = None
    return FrameworkContents(
        _text(text), fields_of_node(item), _text(item.node_id) if is_stored else None
    )


def fields_of_node(node: Any) -> dict[str, Any]:
    """The metadata of a node, as LlamaIndex's vector stores write it: with its source document.

    A document is its own source. Nodes without one share the unit ``"None"``.
    """
    fields = node.metadata if isinstance(node.metadata, Mapping) else {}
    source = getattr(node, "ref_doc_id", None) or getattr(node, "doc_id", None)
    return {**fields, SOURCE_FIELD: source or "None"}


def as_library_documents(items: Iterable[Any], unit_field: str | None) -> Iterator[Any]:
    """Documents of frameworks as the library's own, for a question; other items as they are.

    One that lacks its text or the field is left out: an error would tell that it is there.

    Args:
        items: What was handed over.
        unit_field: Metadata field that names the privacy unit; ``"document"`` makes each a unit.

    Raises:
        ConfigurationError: There is one of a framework, and no field.
    """
    seen: Counter[str] = Counter()
    for item in items:
        if not is_of_framework(item):
            yield item
            continue
        if unit_field is None:
            refuse_without_field()
        contents = read_framework_document(item)
        unit = contents.unit(unit_field, seen)
        if unit is not None and contents.text is not None:
            yield Document(contents.text, unit, contents.metadata())


def refuse_without_field() -> NoReturn:
    """Refuse documents of frameworks whose unit nobody named.

    Raises:
        ConfigurationError: Always.
    """
    raise ConfigurationError(
        "say which metadata field names the privacy unit of these documents, for example "
        "privacy_unit='source' in the settings of a model, unit='source' for load and Corpus.add, "
        "unit_field='source' for a chain or an engine: documents that share its value are "
        "protected together. Where none was split, and each may be a unit of its own, hand over "
        "their texts, or say unit='document' or unit_field='document'"
    )


def records_of_framework(
    items: object, options: Options
) -> tuple[object, Iterator[RecordOrSkipped] | None]:
    """The records of documents that were handed over in the place of paths.

    Returns:
        What was given, whole again where its first item was looked at; and the records, None where
        these are no documents of a framework.

    Raises:
        ConfigurationError: No field names their unit, or a text or key field was named.
    """
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        return items, None
    rest = iter(items)
    first = list(islice(rest, 1))
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
    return whole, _records_of(whole)


def _records_of(items: Iterable[FrameworkDocument]) -> Iterator[RecordOrSkipped]:
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
        contents = read_framework_document(item)
        text = tidy(contents.text or "")
        if not text:
            yield Skipped(position, reasons.EMPTY)
            continue
        metadata = {name: tidy(value) for name, value in contents.metadata().items()}
        yield Record(position, text, metadata, identity=f"{contents.unit('document', seen)}")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
