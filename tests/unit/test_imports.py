"""Who imports a room, or uses a small part of it, loads no large library for that."""

from __future__ import annotations

import pytest

from tests.support.fresh_python import run_python

READER = "dpicl_rag.language_models.readers.as_reader"
LIGHT = {
    "import dpicl_rag": (
        "torch transformers chromadb scipy langchain llama_index sentence_transformers mcp"
    ),
    "import dpicl_rag.accounting": "torch scipy dp_accounting numpy",
    "import dpicl_rag.auditing": "torch",
    "import dpicl_rag.knowledge": "torch transformers chromadb",
    "import dpicl_rag.ledger": "torch transformers chromadb numpy",
    "import dpicl_rag.loaders": "pypdf pypandoc python_calamine striprtf olefile",
    "import dpicl_rag.retrieval, dpicl_rag.retrieval.embeddings": (
        "torch transformers sentence_transformers chromadb"
    ),
    "import dpicl_rag.stores": "chromadb faiss qdrant_client sqlalchemy torch",
    "import dpicl_rag.tabular.local_privacy": "torch scipy transformers chromadb",
    f"from {READER} import as_reader; assert as_reader(str.upper).replies(['a']) == ['A']": (
        "torch langchain_core llama_index langsmith openai"
    ),
    "import dpicl_rag.private_context_llm, dpicl_rag.retrieval": "langchain_core llama_index",
}
"""Programs, and libraries that they do without."""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, marks=pytest.mark.heavy if "private_context" in program else ())
        for program in LIGHT
    ],
)
def test_a_library_that_is_not_needed_is_not_loaded(program):
    libraries = LIGHT[program].split()
    loaded = f"import sys; print([name for name in {libraries} if name in sys.modules])"
    done = run_python(f"{program}\n{loaded}")
    assert (done.stdout, done.stderr) == ("[]\n", "")
