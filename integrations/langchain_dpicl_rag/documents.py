"""Documents on their way through LangChain, unseen."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from langchain_core.documents import Document as LangChainDocument

from dpicl_rag.accounting.stability import Stability
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError, MissingDocumentsError
from dpicl_rag.gathering import Documents
from langchain_dpicl_rag.drawing import Drawing

DOCUMENTS = "documents"
"""The keyword under which callers pass documents."""


class SealedDocuments:
    """Documents that LangChain may carry but not read: no repr, no attributes, no pickle.

    LangChain shows call arguments and message blocks to callbacks and tracers, and bound
    arguments in reprs. This stands in their place.

    Args:
        documents: Anything that the core takes, LangChain documents, or None for none.
    """

    __slots__ = ("_drawings", "_unseal")

    def __init__(self, documents: Any) -> None:
        # A closure: nothing that walks over attributes comes upon the documents.
        self._unseal: Callable[[], Any] = lambda: documents
        self._drawings: list[Drawing] = []

    def __repr__(self) -> str:
        return "<private documents>"

    def __copy__(self) -> SealedDocuments:
        return self

    def __deepcopy__(self, memo: Any) -> SealedDocuments:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("private documents are not serialised")

    def keep(self, drawing: Drawing) -> None:
        """Remember an answer that is being drawn from these documents."""
        self._drawings.append(drawing)

    def close(self) -> None:
        """End the answers that are being drawn.

        LangChain leaves the generators inside its own to the garbage collector and the event loop,
        which may come late.
        """
        for drawing in self._drawings:
            drawing.close()

    async def aclose(self) -> None:
        """``close`` in a worker thread: it may have to wait for a draw or for the ledger."""
        await asyncio.to_thread(self.close)


def seal(arguments: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments of a call with their documents sealed."""
    documents = arguments.get(DOCUMENTS)
    if documents is None or isinstance(documents, SealedDocuments):
        return arguments
    return {**arguments, DOCUMENTS: SealedDocuments(documents)}


def unseal(value: Any) -> Any:
    """What was sealed; other values as they are."""
    return value._unseal() if isinstance(value, SealedDocuments) else value


def documents_of(arguments: dict[str, Any], *, allow_public: bool) -> Documents:
    """The documents of a model call, ready for the core.

    Args:
        arguments: Keyword arguments of the call.
        allow_public: Whether a call without documents asks the public model.

    Raises:
        MissingDocumentsError: There are none and ``allow_public`` is off.
        ConfigurationError: The call brings an argument that the private path does not know.
    """
    unknown = sorted(set(arguments) - {DOCUMENTS, "stream"})
    if unknown:
        raise ConfigurationError(
            f"{', '.join(unknown)}: not an argument of a private call; settings are given when "
            "the model is made"
        )
    documents = unseal(arguments.get(DOCUMENTS))
    if documents is not None:
        return core_documents(documents)
    if not allow_public:
        raise MissingDocumentsError(
            "no documents were given; pass documents=... to invoke or bind, or make the model with "
            "allow_public=True to let it answer without any"
        )
    return []


def core_documents(documents: Any) -> Documents:
    """LangChain documents become core documents; retrievers and all else go to the core as is."""
    if hasattr(documents, "retrieve"):
        return documents  # type: ignore[no-any-return]
    if isinstance(documents, str) or not isinstance(documents, Iterable):
        raise ConfigurationError(f"documents must be a list, not {type(documents).__name__}")
    seen: Counter[str] = Counter()
    return [_core_document(item, seen) for item in documents]


def _core_document(item: Any, seen: Counter[str]) -> Any:
    if not isinstance(item, LangChainDocument):
        return item
    metadata = {key: str(value) for key, value in item.metadata.items()}
    if item.id is not None:
        return Document(item.page_content, item.id, metadata)
    # As the core does for plain strings: the unit's name depends on no other text.
    digest = hashlib.sha256(item.page_content.encode("utf-8", "surrogatepass")).hexdigest()
    seen[digest] += 1
    return Document(item.page_content, f"{digest}-{seen[digest]}", metadata)


@dataclass(frozen=True, slots=True, repr=False)
class Given:
    """A list that some retriever made, as a core retriever with that retriever's stability."""

    documents: Any
    stability: Stability

    def __repr__(self) -> str:
        return "<private documents>"

    def retrieve(self, question: str) -> list[Document]:
        """The list, whatever is asked."""
        return core_documents(self.documents)  # type: ignore[return-value]
