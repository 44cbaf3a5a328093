"""A LangChain chain over a Chroma collection, with a differential privacy guarantee.

Run it with ``python -m demos.langchain_chain``.
"""

import tempfile

from langchain_chroma import Chroma

from langchain_dpicl_rag import PrivateEmbeddings, PrivateRetrievalChain

NOTES = [
    f"Hi team, {news} Regards, {name}"
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
    store = Chroma("notes", PrivateEmbeddings(), persist_directory=folder)
    store.add_texts(NOTES)
    chain = PrivateRetrievalChain(
        store, unit_field="document", threshold=0.3, epsilon=8, max_tokens=24
    )
    pieces = []
    for piece in chain.stream("In which street is the harbour office?"):
        print(piece, end="", flush=True)
        pieces.append(piece)
    return "".join(pieces)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
