"""A stock LlamaIndex program reads a synthetic corpus, and so does plain Chroma."""

from __future__ import annotations

import chromadb
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.vector_stores.chroma import ChromaVectorStore

from tests.support.bucket_embedder import BucketEmbedder
from tests.support.synthetic_corpus import NEAR, QUESTION, export


class Buckets(BaseEmbedding):
    def _get_text_embedding(self, text: str) -> list[float]:
        return BucketEmbedder().embed([text])[0].tolist()

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def test_a_program_of_ten_lines_reads_the_collection(tmp_path):
    export(tmp_path)
    collection = chromadb.PersistentClient(str(tmp_path)).get_collection("lights")
    store = ChromaVectorStore(chroma_collection=collection)
    index = VectorStoreIndex.from_vector_store(store, embed_model=Buckets())
    (found, _) = index.as_retriever(similarity_top_k=2).retrieve(QUESTION)
    assert found.node.get_content() == NEAR
    assert found.node.metadata["key"] == "betas"


def test_plain_chroma_reads_the_collection(tmp_path):
    export(tmp_path)
    collection = chromadb.PersistentClient(str(tmp_path)).get_collection("lights")
    found = collection.query(query_embeddings=BucketEmbedder().embed([QUESTION]), n_results=1)
    assert found["documents"] == [[NEAR]]
    assert collection.get(where={"key": "betas"})["documents"] == [NEAR]
    assert collection.metadata["dpicl_epsilon"] == 8.0
