"""Documents on their way through LangChain, unseen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from langchain_core.documents import Document as LangChainDocument

from dpicl_rag.answers import PrivateStream
from dpicl_rag.documents import Document, text_unit
from dpicl_rag.errors import ConfigurationError, MissingDocumentsError
from dpicl_rag.retrieval import Documents, Retriever

DOCUMENTS = "documents"
"""The keyword under which callers pass documents."""

FRESH = "fresh"
"""The keyword by which documents are asked again where the memory has the answer."""


class SealedDocuments:
    """Documents that LangChain may carry but not read: no repr, no attributes, no pickle.

    LangChain shows call arguments and message blocks to callbacks and tracers, and bound
    arguments in reprs. This stands in their place.

    Args:
        documents: Anything that the core takes, LangChain documents, or None; sealed or not.
    """

    __slots__ = ("_unseal",)

    def __init__(self, documents: Any) -> None:
        documents = unseal(documents)
        # A closure: nothing that walks over attributes comes upon the documents.
        self._unseal: Callable[[], Any] = lambda: documents

    def __repr__(self) -> str:
        return "<private documents>"

    def __copy__(self) -> SealedDocuments:
        return self

    def __deepcopy__(self, memo: Any) -> SealedDocuments:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("private documents are not serialised")


class SealedCall(SealedDocuments):
    """The documents of one streamed call, and the answer that is drawn from them.

    LangChain leaves the generators inside its own to the garbage collector and the event loop,
    which may come late. Whoever began the call closes this, and with it the answer.
    """

    __slots__ = ("stream",)

    def __init__(self, documents: Any) -> None:
        super().__init__(documents)
        self.stream: PrivateStream | None = None

    @classmethod
    def of(cls, arguments: dict[str, Any]) -> SealedCall:
        """The call that these keyword arguments are already part of, or a new one."""
        documents = arguments.get(DOCUMENTS)
        return documents if isinstance(documents, cls) else cls(documents)

    def close(self) -> None:
        """End the answer, if it was begun. May be called again."""
        if self.stream is not None:
            self.stream.close()

    async def aclose(self) -> None:
        """``close`` in a worker thread."""
        if self.stream is not None:
            await self.stream.aclose()


def unseal(value: Any) -> Any:
    """What was sealed; other values as they are."""
    return value._unseal() if isinstance(value, SealedDocuments) else value


def named(unit_field: str | None) -> str:
    """The metadata field that names the privacy unit.

    Raises:
        ConfigurationError: There is none.
    """
    if unit_field is None:
        raise ConfigurationError(
            "say which metadata field names the privacy unit, for example unit_field='source', or "
            "privacy_unit='source' in the settings of a model: records that share its value are "
            "protected together. unit_field='document' protects each record by itself, which is "
            "right where no document was split"
        )
    return unit_field


def documents_of(
    arguments: dict[str, Any], blocks: list[str], privacy_unit: str, *, allow_public: bool
) -> Documents:
    """The documents of a model call, ready for the core.

    Args:
        arguments: Keyword arguments of the call.
        blocks: Documents that stood in its messages.
        privacy_unit: That of the settings.
        allow_public: Whether a call without documents asks the public model.

    Raises:
        MissingDocumentsError: There are none and ``allow_public`` is off.
        ConfigurationError: Documents come both ways, or there are LangChain documents and no
            field names their unit, or the call brings an argument that the private path does not
            know.
    """
    unknown = sorted(set(arguments) - {DOCUMENTS, FRESH, "stream"})
    if unknown:
        raise ConfigurationError(
            f"{', '.join(unknown)}: not an argument of a private call; settings are given when "
            "the model is made"
        )
    documents = unseal(arguments.get(DOCUMENTS))
    if blocks and documents is not None:
        raise ConfigurationError("give documents by documents= or as text-plain blocks, not both")
    if documents is not None:
        return from_langchain(documents, None if privacy_unit == "document" else privacy_unit)
    if not blocks and not allow_public:
        raise MissingDocumentsError(
            "no documents were given, and what a prompt says is public; pass documents=... to "
            "invoke or bind, take PrivateRetrievalChain in the place of a chain that writes "
            "documents into a prompt, or make the model with allow_public=True to let it answer "
            "without any"
        )
    return blocks


def from_langchain(documents: Any, unit_field: str | None) -> Documents:
    """LangChain documents as the library's own; retrievers and all else as they are.

    Args:
        documents: What was handed over.
        unit_field: The metadata field that names the privacy unit. LangChain documents need it:
            several may be cut from one text.

    Raises:
        ConfigurationError: There are LangChain documents, and no field.
    """
    if isinstance(documents, (str, Retriever)) or not isinstance(documents, Iterable):
        return documents  # what is neither, the core refuses
    seen: Counter[str] = Counter()
    return [_document(item, unit_field, seen) for item in documents]


def _document(item: Any, unit_field: str | None, seen: Counter[str]) -> Any:
    if not isinstance(item, LangChainDocument):
        return item
    named(unit_field)
    unit = text_unit(item.page_content, seen) if item.id is None else item.id
    metadata = {key: str(value) for key, value in item.metadata.items()}
    return Document(item.page_content, unit, metadata)
