"""docs/llama_index.md: its diff makes a private app of a LlamaIndex app, its code is the demo."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import chromadb
import pytest
from llama_index.core.llms import MockLLM

from dpicl_rag import MissingDependencyError, private_context_llm
from llama_index_dpicl_rag import PrivateQueryEngine
from tests.integrations.llama_index.support import (
    QUESTION,
    TEXTS,
    HashEmbedding,
    chroma_index,
    nodes_of,
    private_llm,
)

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "llama_index.md").read_text("utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", DOCUMENT, flags=re.M | re.S)


def changed(text: str, diff: str) -> tuple[str, int]:
    """A text with the one hunk of a unified diff applied, and the number of lines put in."""
    lines = diff.splitlines(keepends=True)[3:]
    before = "".join(line[1:] for line in lines if line[0] in " -")
    after = "".join(line[1:] for line in lines if line[0] in " +")
    assert text.count(before) == 1
    return text.replace(before, after), sum(line[0] == "+" for line in lines)


def engine_of(program: str, folder: Path) -> Any:
    chroma_index(folder, nodes_of(TEXTS))
    collection = chromadb.PersistentClient(str(folder)).get_collection("notes")
    names: dict[str, Any] = {}
    exec(compile(program, "app.py", "exec"), names)
    return names["build"](collection, HashEmbedding())


def test_app_before_the_change_leaks(tmp_path, monkeypatch) -> None:
    stub = types.ModuleType("llama_index.llms.huggingface")
    stub.HuggingFaceLLM = lambda model_name: MockLLM(max_tokens=3)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, stub.__name__, stub)
    response = engine_of(blocks("python")[1], tmp_path).query(QUESTION)
    assert response.source_nodes[0].text in TEXTS


def test_app_after_the_change_is_private(tmp_path, monkeypatch, tiny_model) -> None:
    (diff,) = blocks("diff")
    program, lines = changed(blocks("python")[1], diff)
    assert lines == 3
    monkeypatch.setattr(private_context_llm, "load_language_model", lambda *_: tiny_model)
    engine = engine_of(program, tmp_path)
    assert isinstance(engine, PrivateQueryEngine)
    response = engine.query(QUESTION)
    assert response.source_nodes == []
    assert response.metadata["output_tokens"] > 0


def test_library_passes_options_on(tmp_path, tiny_model) -> None:
    index = chroma_index(tmp_path, nodes_of(TEXTS))
    engine = private_llm(tiny_model, seed=1).as_query_engine(index, threshold=-1, streaming=True)
    assert list(engine.query(QUESTION).response_gen)


def test_library_names_what_to_install(monkeypatch, tiny_model) -> None:
    monkeypatch.setitem(sys.modules, "llama_index_dpicl_rag", None)
    with pytest.raises(MissingDependencyError, match="`pip install llama-index-dpicl-rag`"):
        private_llm(tiny_model).as_query_engine([])


def test_first_example_is_the_demo() -> None:
    demo = (ROOT / "demos" / "llama_index_engine.py").read_text("utf-8")
    lines = {line.strip() for line in demo.splitlines()}
    assert {line.strip() for line in blocks("python")[0].splitlines()} <= lines


def test_the_chat_of_the_document_runs(tmp_path, tiny_model, capsys) -> None:
    (program,) = (block for block in blocks("python") if "as_chat_engine" in block)
    index = chroma_index(tmp_path, nodes_of(TEXTS))
    exec(program, {"llm": private_llm(tiny_model), "index": index})
    assert "And who works there?" in capsys.readouterr().out


@pytest.mark.heavy
def test_demo_answers(tmp_path, capsys) -> None:
    from demos.llama_index_engine import main

    answer = main(str(tmp_path))
    assert answer
    assert answer in capsys.readouterr().out
    assert len(chromadb.PersistentClient(str(tmp_path)).get_collection("notes").get()["ids"]) == 40
