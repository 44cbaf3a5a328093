"""Public knowledge: the operator's handbook, list of products or web page, and released answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dpicl_rag import _validate
from dpicl_rag.errors import ConfigurationError, DPICLError, KnowledgeError
from dpicl_rag.knowledge.answer_memory import AnswerMemory
from dpicl_rag.knowledge.bundle import Bundle, PublishedItem
from dpicl_rag.retrieval.base import Retriever


@runtime_checkable
class Knowledge(Protocol):
    """Public texts that are near to a question.

    The public row reads them in a document's place, so that a token which follows from them costs
    the documents nothing. Experts never read them. Nothing in them may come from the private
    documents but what was released.
    """

    def recall(self, question: str) -> Sequence[str]:
        """Texts for a question, the nearest first; none where nothing is near.

        Raises:
            DPICLError: The source cannot be read. Nothing has been spent by then.
        """
        ...


_PRIVATE = (
    "public knowledge is read at no cost and this {kind} is private; give a Corpus that was made "
    "public (public=True, or `dpicl-rag ingest --public`), or a retriever over public text"
)


class PublicDocuments:
    """Texts that a source finds for a question: a `Knowledge`, read at no cost.

    Args:
        source: A ``Corpus`` made with ``public=True``, a retriever of LangChain (``invoke``) or of
            LlamaIndex (``retrieve``). What such a retriever finds must be public; nothing can tell.
        most: Most texts recalled.
        least: Least cosine of a text with the question; for a ``Corpus``.

    Raises:
        ConfigurationError: The source is private, or of no known kind, or a parameter is outside
            its range.
    """

    def __init__(self, source: Any, *, most: int = 4, least: float = 0.3) -> None:
        self.most = _validate.count("most", most)
        self.least = _validate.cosine("least", least)
        kind = type(source).__name__
        # Retrievers of this library search private units, whatever else they can do. Other
        # libraries know no such flag.
        if isinstance(source, Retriever) or not getattr(source, "public", not _is_corpus(source)):
            raise ConfigurationError(_PRIVATE.format(kind=kind))
        known = _is_corpus(source), hasattr(source, "invoke"), hasattr(source, "retrieve")
        if isinstance(source, type) or not any(known):
            raise ConfigurationError(
                f"{kind} cannot be public knowledge; give a Corpus made with public=True, a "
                "retriever of LangChain or LlamaIndex, or an object with recall(question)"
            )
        self._source = source

    def __repr__(self) -> str:
        return f"PublicDocuments({type(self._source).__name__})"

    def recall(self, question: str) -> list[str]:
        """See `Knowledge.recall`.

        Raises:
            KnowledgeError: The source fails, or gives what is no document.
        """
        try:
            texts = list(self._found(question))[: self.most]
        except DPICLError:
            raise
        except Exception as error:  # another library's; they raise what they like
            raise KnowledgeError(
                f"the public source {type(self._source).__name__} failed "
                f"({type(error).__name__}); mend it, or ask without it"
            ) from error
        if not all(isinstance(text, str) for text in texts):
            raise KnowledgeError(
                f"the public source {type(self._source).__name__} gives no texts; it must find "
                "documents of LangChain or nodes of LlamaIndex"
            )
        return [text for text in texts if text.strip()]

    def _found(self, question: str) -> Iterable[Any]:
        source = self._source
        if _is_corpus(source):
            vector = source.embedder.embed([question], query=True)[0]
            found = source.scan(vector, least=self.least, most=self.most)
            # The best passages are of the best units; a stable sort keeps the order of ties.
            best = np.sort(np.argsort(-found.scores, kind="stable")[: self.most])
            passages = sorted(found.passages(best.tolist(), self.most), key=lambda p: -p.score)
            return [p.document.text for p in passages if p.score >= self.least]
        if hasattr(source, "invoke"):
            return (document.page_content for document in source.invoke(question))
        return (node.get_content() for node in source.retrieve(question))


class JoinedKnowledge:
    """Texts that each source recalls, in the order in which the sources are given.

    Args:
        sources: At most one of them is a memory of released answers.

    Raises:
        ConfigurationError: There are two memories: which one keeps an answer is not defined.
    """

    def __init__(self, sources: Sequence[Knowledge]) -> None:
        self._sources: tuple[Knowledge, ...] = tuple(
            part
            for source in sources
            for part in (source._sources if isinstance(source, JoinedKnowledge) else (source,))
        )
        memories = [source for source in self._sources if isinstance(source, AnswerMemory)]
        if len(memories) > 1:
            raise ConfigurationError("give one memory of released answers, not two")
        self.memory = memories[0] if memories else None

    def __repr__(self) -> str:
        return f"JoinedKnowledge({list(self._sources)!r})"

    def recall(self, question: str) -> list[str]:
        """Public texts near to a question, as `Knowledge.recall` has them."""
        return [text for source in self._sources for text in source.recall(question)]

    def published(self, question: str, kind: str | None = None) -> PublishedItem | None:
        """The item of a bundle that answers a question, if one does; see `Bundle.find`."""
        bundles = [source for source in self._sources if isinstance(source, Bundle)]
        return next(filter(None, (bundle.find(question, kind) for bundle in bundles)), None)


def as_knowledge(given: Any) -> JoinedKnowledge:
    """Public knowledge from whatever a caller gives.

    Args:
        given: None, a `Knowledge`, what `PublicDocuments` takes, or a list of these.

    Raises:
        ConfigurationError: It is none of these, or private.
    """
    if isinstance(given, JoinedKnowledge):
        return given
    if given is None:
        return JoinedKnowledge(())
    every = given if isinstance(given, (list, tuple)) else (given,)
    return JoinedKnowledge([_source(one) for one in every])


def _source(given: Any) -> Knowledge:
    if isinstance(given, type) or not isinstance(given, Knowledge):
        return PublicDocuments(given)
    return given


def _is_corpus(source: Any) -> bool:
    return hasattr(source, "scan") and hasattr(source, "embedder")
