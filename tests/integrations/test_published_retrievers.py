"""A published bundle as an ordinary retriever of both frameworks."""

from dpicl_rag import Bundle
from dpicl_rag.knowledge import PublishedItem
from langchain_dpicl_rag import PublishedRetriever
from llama_index_dpicl_rag import PublishedNodeRetriever
from tests.support.bucket_embedder import BucketEmbedder

OPENS = "When does the canteen open?"
ITEMS = (
    PublishedItem("answer", OPENS, "At noon.", {}, 1.0, 1e-5, 0.1, True),
    PublishedItem("count", "Is a lift broken?", "About 9 say yes.", {}, 1.0, 1e-5, 0.1),
)
BUNDLE = Bundle(
    "mail", "thread", 2.0, 1e-5, 0.2, "add_or_remove_one", "2026-11-28", 1, ITEMS,
    embedder=BucketEmbedder(),
)  # fmt: skip
WHOLE = f"{OPENS}\nAt noon."
FIELDS = {
    "kind": "answer", "epsilon": 1.0, "delta": 1e-5, "corpus": "mail", "published": "2026-11-28",
}  # fmt: skip


def test_langchain_retrieves_items_as_documents():
    [found] = PublishedRetriever(bundle=BUNDLE, k=1).invoke(OPENS)
    assert (found.page_content, found.metadata) == (WHOLE, FIELDS)


def test_llama_index_retrieves_items_as_nodes():
    [found] = PublishedNodeRetriever(BUNDLE, similarity_top_k=1).retrieve(OPENS)
    assert (found.node.text, found.node.metadata) == (WHOLE, FIELDS)
