import subprocess
import sys

import pytest

import dpicl_rag


def test_all_is_exactly_the_public_api():
    for name in dpicl_rag.__all__:
        assert getattr(dpicl_rag, name) is not None
    assert sorted(dpicl_rag.__all__) == dpicl_rag.__all__ == dir(dpicl_rag)


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(dpicl_rag, "no_such_name")


def test_importing_the_library_loads_nothing_heavy():
    heavy = "torch transformers chromadb scipy langchain llama_index sentence_transformers mcp"
    code = (
        f"import sys, dpicl_rag\nprint([name for name in {heavy.split()!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.heavy
def test_the_private_path_imports_no_framework():
    code = (
        "import sys, dpicl_rag.private_context_llm, dpicl_rag.retrieval\n"
        "sys.exit(any(name in sys.modules for name in ('langchain_core', 'llama_index')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
