"""Published bundles in LangChain: an ordinary retriever, whose documents are public."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever


class PublishedRetriever(BaseRetriever):
    """A retriever over a bundle of ``dpicl-rag publish``. What it finds is public and free.

    Any model may read it, and anything may record it. ``create_retriever_tool`` makes a tool of it.

    Attributes:
        bundle: A ``dpicl_rag.Bundle``.
        k: Most items found.
    """

    bundle: Any  # a dataclass would be taken for a model of fields, and copied
    k: int = 4

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        near = self.bundle.nearest(query, self.k)
        return [Document(item.whole_text, metadata=self.bundle.fields_of(item)) for item in near]
