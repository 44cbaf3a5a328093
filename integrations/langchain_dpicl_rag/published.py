"""Published bundles in LangChain: an ordinary retriever, whose documents are public."""

from __future__ import annotations

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from dpicl_rag.knowledge import Bundle


class PublishedRetriever(BaseRetriever):
    """A retriever over a bundle of ``dpicl-rag publish``. What it finds is public and free.

    Any model may read it, and anything may record it. ``create_retriever_tool`` makes a tool of it.

    Attributes:
        bundle: See `Bundle.open`.
        k: Most items found.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    bundle: Bundle
    k: int = 4

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        near = self.bundle.nearest(query, self.k)
        return [Document(item.whole_text, metadata=self.bundle.fields_of(item)) for item in near]
