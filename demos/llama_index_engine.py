"""A LlamaIndex query engine over a Chroma collection, with a differential privacy guarantee.

Run it with ``python -m demos.llama_index_engine``.
"""

import tempfile

import chromadb
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.vector_stores.chroma import ChromaVectorStore

from dpicl_rag import PrivateContextLLM
from llama_index_dpicl_rag import PrivateEmbedding, PrivateQueryEngine

NOTES = [
    Document(text=f"Hi team, {news} Regards, {name}")
    for name in ("Ada", "Bo", "Cleo", "Dov", "Elif", "Finn", "Gus", "Hana", "Ines", "Jon")
    for news in (
        "the harbour office has moved to Tallow Street.",
        "you find the harbour office in Tallow Street from now on.",
        "the new address of the harbour office is Tallow Street.",
        "please send the forms to the harbour office in Tallow Street.",
    )
]


def main(folder: str) -> str:
    """Put the notes into a Chroma collection in a folder and ask about them."""
    collection = chromadb.PersistentClient(folder).get_or_create_collection("notes")
    storage = StorageContext.from_defaults(vector_store=ChromaVectorStore(collection))
    index = VectorStoreIndex.from_documents(NOTES, storage, embed_model=PrivateEmbedding())
    llm = PrivateContextLLM(epsilon=8, max_tokens=24)
    engine = PrivateQueryEngine(llm, index, threshold=0.3)
    response = engine.query("In which street is the harbour office?")
    print(response, response.metadata)
    return str(response)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
