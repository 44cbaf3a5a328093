"""A stock LangChain program reads a synthetic corpus: no wrapper, no ledger."""

from __future__ import annotations

from langchain_chroma import Chroma
from langchain_core.embeddings import Embeddings

from tests.support.bucket_embedder import BucketEmbedder
from tests.support.synthetic_corpus import NEAR, QUESTION, TEXTS, export


class Buckets(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return BucketEmbedder().embed(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def test_a_program_of_ten_lines_reads_the_collection(tmp_path):
    export(tmp_path)
    store = Chroma("lights", embedding_function=Buckets(), persist_directory=str(tmp_path))
    retriever = store.as_retriever(search_kwargs={"k": 2})
    found = retriever.invoke(QUESTION)
    assert found[0].page_content == NEAR
    assert set(found[0].metadata) == {"synthetic", "key", "run", "tokens"}
    assert found[0].metadata["synthetic"] is True
    assert sorted(store.get()["documents"]) == sorted(TEXTS)
