"""Published bundles in LlamaIndex: an ordinary retriever, whose nodes are public."""

from __future__ import annotations

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from dpicl_rag.knowledge import Bundle


class PublishedNodeRetriever(BaseRetriever):
    """A retriever over a bundle of ``dpicl-rag publish``. What it finds is public and free.

    Any model may read it, and anything may record it. ``RetrieverTool`` makes a tool of it.

    Args:
        bundle: See `Bundle.open`.
        similarity_top_k: Most items found.
    """

    def __init__(self, bundle: Bundle, similarity_top_k: int = 4) -> None:
        super().__init__()
        self._bundle = bundle
        self._most = similarity_top_k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        near = self._bundle.nearest(query_bundle.query_str, self._most)
        return [
            NodeWithScore(node=TextNode(text=one.whole_text, metadata=self._bundle.fields_of(one)))
            for one in near
        ]
