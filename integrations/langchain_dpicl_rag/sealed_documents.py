"""Sealed documents: LangChain carries them and cannot read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast

from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.errors import ConfigurationError, MissingDocumentsError
from dpicl_rag.framework_bridge import refuse, split_fields
from dpicl_rag.requests import AnswerFields
from dpicl_rag.retrieval import Documents

DOCUMENTS = "documents"
"""The keyword under which callers pass documents."""


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
    """The sealed value; other values as they are."""
    return value._unseal() if isinstance(value, SealedDocuments) else value


def read_arguments(
    arguments: dict[str, Any], blocks: Sequence[str], *, allow_public: bool
) -> tuple[Documents, AnswerFields]:
    """Documents of a model call, ready for the core, and fields of its question.

    Args:
        arguments: Keyword arguments of the call.
        blocks: Documents that stood in its messages.
        allow_public: Whether a call without documents asks the public model.

    Raises:
        MissingDocumentsError: There are none and ``allow_public`` is off.
        ConfigurationError: Documents come both ways, or the call brings an argument that the
            private path does not know.
    """
    fields, others = split_fields(arguments)
    refuse(
        others.keys() - {DOCUMENTS, "stream"},
        "not an argument of a private call; settings are given when the model is made",
    )
    documents = unseal(arguments.get(DOCUMENTS))
    if blocks and documents is not None:
        raise ConfigurationError("give documents by documents= or as text-plain blocks, not both")
    if documents is not None:
        return cast("Documents", documents), fields  # the core takes those of LangChain too
    if not blocks and not allow_public:
        raise MissingDocumentsError(
            "no documents were given, and what a prompt says is public; pass documents=... to "
            "invoke or bind, take PrivateRetrievalChain in the place of a chain that writes "
            "documents into a prompt, or make the model with allow_public=True to let it answer "
            "without any"
        )
    return blocks, fields
