"""Public texts of the operator: a handbook, a list of products, a web page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dpicl_rag import _validate
from dpicl_rag.errors import ConfigurationError, DPICLError, KnowledgeError
from dpicl_rag.retrieval.base import Retriever

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


def _is_corpus(source: Any) -> bool:
    return hasattr(source, "scan") and hasattr(source, "embedder")
