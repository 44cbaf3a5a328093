"""docs/langchain.md: its diff makes a private app of a LangChain app, its code is the demo."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from langchain_chroma import Chroma
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate

from dpicl_rag import private_context_llm
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.results import UNSUPPORTED
from langchain_dpicl_rag import PrivateRetrievalChain
from tests.integrations.langchain.support import QUESTION, WordEmbeddings, chroma_store

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "langchain.md").read_text("utf-8")
TEXTS = [f"Patient {number} has zingpocket." for number in range(4)]


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", DOCUMENT, flags=re.M | re.S)


def changed(text: str, diff: str) -> tuple[str, int]:
    """A text with the one hunk of a unified diff applied, and the number of lines put in."""
    lines = diff.splitlines(keepends=True)[3:]
    before = "".join(line[1:] for line in lines if line[0] in " -")
    after = "".join(line[1:] for line in lines if line[0] in " +")
    assert text.count(before) == 1
    return text.replace(before, after), sum(line[0] == "+" for line in lines)


def build(program: str, folder: Path, embeddings: Any) -> Any:
    """The app of the document, over the folder of its user."""
    names: dict[str, Any] = {}
    exec(compile(program, "app.py", "exec"), names)
    prompt = ChatPromptTemplate.from_template("{context} {input}")
    llm = FakeListChatModel(responses=["Zingpocket."])
    return names["build"](str(folder), embeddings, llm, prompt)


def ask(program: str, folder: Path) -> dict[str, Any]:
    """Run the app of the document on a collection that its user already has."""
    chroma_store(folder, TEXTS)
    return build(program, folder, WordEmbeddings()).invoke({"input": QUESTION})


def test_app_before_the_change_leaks(tmp_path):
    answer = ask(blocks("python")[1], tmp_path)
    assert answer["answer"] == "Zingpocket."
    assert {document.page_content for document in answer["context"]} <= set(TEXTS)


def test_app_after_the_change_is_private(tmp_path, monkeypatch, tiny_model):
    (diff,) = blocks("diff")
    program, lines = changed(blocks("python")[1], diff)
    assert lines == 3
    monkeypatch.setattr(private_context_llm, "load_language_model", lambda *_: tiny_model)
    answer = ask(program, tmp_path)
    assert set(answer) == {"input", "answer"}
    assert isinstance(answer["answer"], str)


@pytest.mark.heavy
@pytest.mark.filterwarnings("error:at most about", "ignore:seeded coins")
def test_app_after_the_change_says_what_forty_notes_agree_on(tmp_path, monkeypatch):
    from demos.langchain_chain import NOTES
    from langchain_dpicl_rag import PrivateEmbeddings

    embeddings = PrivateEmbeddings()
    store = Chroma("notes", embeddings, persist_directory=str(tmp_path))
    store.add_texts(NOTES, [{"patient": f"patient {number}"} for number in range(len(NOTES))])
    coins = Randomness.of(1)
    monkeypatch.setattr(Randomness, "of", lambda seed: coins)
    program, _ = changed(blocks("python")[1], blocks("diff")[0])
    question = {"input": "In which street is the harbour office?"}
    answer = build(program, tmp_path, embeddings).invoke(question)["answer"]
    assert answer != UNSUPPORTED
    assert "Tallow Street" in answer


def test_the_chat_of_the_document_runs(tmp_path, monkeypatch, tiny_model, capsys):
    (program,) = (block for block in blocks("python") if "chat_history" in block)
    monkeypatch.setattr(private_context_llm, "load_language_model", lambda *_: tiny_model)
    names = {"store": chroma_store(tmp_path, TEXTS), "PrivateRetrievalChain": PrivateRetrievalChain}
    exec(program, names)
    assert capsys.readouterr().out.startswith("And who works there? ")


def test_first_example_is_the_demo():
    demo = (ROOT / "demos" / "langchain_chain.py").read_text("utf-8")
    lines = {line.strip() for line in demo.splitlines()}
    assert {line.strip() for line in blocks("python")[0].splitlines()} <= lines


@pytest.mark.heavy
def test_demo_answers(tmp_path, capsys):
    from demos.langchain_chain import main

    answer = main(str(tmp_path))
    assert answer
    assert answer in capsys.readouterr().out
