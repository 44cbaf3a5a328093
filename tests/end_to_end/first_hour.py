# ruff: noqa: T201
"""The first hour of a new user: what they type, and all that they see.

``python -m tests.end_to_end.first_hour`` runs it in a temporary folder with the default models.
``test_first_hour.py`` runs each chapter and looks at the lines that matter. The language model that
decides to call a tool is scripted, as the default model calls none; all answers are drawn.
"""

from __future__ import annotations

import csv
import mailbox
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from tests.support.command_line import run_command

ROOT = Path(__file__).parents[2]
PEOPLE = [
    "Ada", "Bo", "Cleo", "Dov", "Elif", "Finn", "Gus", "Hana", "Ines", "Jon", "Kim", "Lea", "Max",
    "Nia", "Oz", "Pia", "Quin", "Rui", "Sam", "Tea", "Uri", "Vic", "Wim", "Xia", "Yan", "Zoe",
    "Abe", "Bea", "Cy", "Dot", "Eve", "Fay", "Gil", "Hal", "Ida", "Jim", "Kay", "Lou", "Mia", "Ned",
]  # fmt: skip
STREET = "In which street is the harbour office?"
HOURS = "When does the warehouse open?"
REFUND = "How many days does a refund take?"
NOTES = [f"Hi team, the harbour office has moved to Tallow Street. {name}" for name in PEOPLE]


def type_in(folder: Path, command: str) -> str:
    """Run a command as a user does, print it and what it prints, and return that."""
    print(f"$ {command}", flush=True)
    program, *words = shlex.split(command)
    assert program == "dpicl-rag"
    with there(folder):
        shown = run_command(*words).output
    print(shown, flush=True)
    assert "Traceback" not in shown
    return shown


def write_mail(folder: Path) -> Path:
    """``inbox.mbox``: forty people say when the warehouse opens."""
    path = folder / "inbox.mbox"
    with closing(mailbox.mbox(path)) as inbox:
        for name in PEOPLE:
            mail = EmailMessage()
            mail["From"], mail["To"] = f"{name}@example.org", "team@example.org"
            mail["Subject"], mail["Message-ID"] = f"News from {name}", f"<{name}@example.org>"
            mail.set_content("Hi team, the warehouse opens at half past six in the morning.")
            inbox.add(mail)
    return path


def write_tickets(folder: Path) -> Path:
    """``tickets.csv``: two rows of each of forty customers."""
    path = folder / "tickets.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["customer", "queue", "body"])
        for name in PEOPLE:
            table.writerow([name, "billing", "They told me that a refund takes nine days."])
            table.writerow(
                [name, "billing", f"Thank you for the refund. It took nine days. {name}"]
            )
    return path


def readme(folder: Path) -> None:
    """README, top to bottom: its two programs, then its commands."""
    write_mail(folder)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    in_python = text.split("\n## In Python\n")[1].split("\n## ")[0]
    with there(folder):
        for program in re.findall(r"^```python\n(.*?)^```$", in_python, re.M | re.S):
            print(program)
            names: dict[str, Any] = {}
            exec(program, names)
            for left in ("corpus", "ledger"):
                if left in names:
                    names[left].close()
            print()
    type_in(folder, "dpicl-rag --version")
    type_in(folder, "dpicl-rag ingest inbox.mbox --corpus office")
    type_in(folder, f"dpicl-rag ask {shlex.quote(HOURS)} --corpus office --epsilon 8")
    labels = "--label morning --label evening"
    type_in(folder, f"dpicl-rag classify {shlex.quote(HOURS)} --corpus office {labels}")
    type_in(folder, "dpicl-rag ask 'What did Ada say of her salary?' --corpus office --epsilon 2")
    type_in(folder, "dpicl-rag budget show")


@contextmanager
def there(folder: Path) -> Iterator[None]:
    """In a folder, with a data folder of its own."""
    before, home = Path.cwd(), os.environ.get("XDG_DATA_HOME")
    os.chdir(folder)
    os.environ["XDG_DATA_HOME"] = str(folder / "home")
    try:
        yield
    finally:
        os.chdir(before)
        if home is None:
            del os.environ["XDG_DATA_HOME"]
        else:
            os.environ["XDG_DATA_HOME"] = home


def langchain(folder: Path) -> None:
    """An LCEL app over Chroma; an agent with the tool; a chat with history."""
    from langchain_chroma import Chroma
    from langchain_core.documents import Document
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnablePassthrough

    from langchain_dpicl_rag import ChatPrivateContext, PrivateEmbeddings, PrivateRetrievalChain

    store = Chroma("notes", PrivateEmbeddings(), persist_directory=str(folder / "notes"))
    store.add_documents(
        [
            Document(text, metadata={"sender": name})
            for text, name in zip(NOTES, PEOPLE, strict=True)
        ]
    )
    chain = PrivateRetrievalChain(store.as_retriever(), unit_field="sender", max_tokens=24)
    app = {"input": RunnablePassthrough()} | RunnablePassthrough.assign(answer=chain)
    print("An LCEL app:", app.invoke(STREET))
    print("An agent:", agent(chain.as_tool(name="notes", description="The team's notes.")))

    chat = ChatPrivateContext(chain.llm)
    prompt = ChatPromptTemplate(
        [
            ("system", "Answer in one sentence."),
            ("placeholder", "{history}"),
            ("user", "{question}"),
        ]
    )
    talk = prompt | chat.bind(documents=chain.retriever) | StrOutputParser()
    history: list[tuple[str, str]] = []
    for question in (STREET, "And what has moved there?"):
        said = talk.invoke({"question": question, "history": history})
        print(f"user: {question}\nassistant: {said}")
        history += [("user", question), ("assistant", said)]


def agent(tool: Any) -> str:
    """What an agent of LangGraph says that calls the tool once and repeats its answer."""
    from langchain.agents import create_agent
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Caller(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

        def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
            if isinstance(messages[-1], ToolMessage):
                said = AIMessage(f"The notes say: {messages[-1].content}")
            else:
                call = {"name": tool.name, "args": {"question": STREET}, "id": "1"}
                said = AIMessage("", tool_calls=[call])
            return ChatResult(generations=[ChatGeneration(message=said)])

    made = create_agent(Caller(messages=iter(())), tools=[tool])
    return str(made.invoke({"messages": [("user", STREET)]})["messages"][-1].content)


def llama_index(folder: Path) -> None:
    """A LlamaIndex engine made private."""
    from llama_index.core import Document, VectorStoreIndex

    from dpicl_rag import PrivateContextLLM
    from llama_index_dpicl_rag import PrivateEmbedding

    documents = [
        Document(text=text, metadata={"sender": name})
        for text, name in zip(NOTES, PEOPLE, strict=True)
    ]
    index = VectorStoreIndex.from_documents(documents, embed_model=PrivateEmbedding())
    llm = PrivateContextLLM(max_tokens=24)
    engine = llm.as_query_engine(index, unit_field="sender")
    response = engine.query(STREET)
    print(response)
    print(response.metadata)
    print(
        "Documents handed over:", llm.with_settings(privacy_unit="sender").answer(STREET, documents)
    )


def page(folder: Path) -> None:
    """The page of the server: two uploads, a question, a budget spent and lowered."""
    from tests.support.chromium import browsing
    from tests.support.page import ask, expect, go, settled

    write_mail(folder)
    write_tickets(folder)
    with serving(folder) as url, browsing() as browser:
        tab = browser.new_page(locale="en-GB")
        tab.set_default_timeout(120_000)
        expect.set_options(timeout=120_000)
        tab.goto(url)
        go(tab, "owner")
        upload(tab, folder / "tickets.csv", "tickets")
        tab.wait_for_selector("#job-title:has-text('Failed'), #job-words:has-text('customer')")
        show(tab, "#job")
        tab.select_option("#unit", "*")
        tab.fill("#field", "customer")
        upload(tab, folder / "tickets.csv", "tickets")
        tab.wait_for_selector("#job-words:has-text('can be asked now')")
        show(tab, "#job")
        tab.select_option("#unit", "thread")
        upload(tab, folder / "inbox.mbox", "office")
        tab.wait_for_selector("#job-words:has-text('office can be asked now')")
        show(tab, "#job")
        go(tab, "conversation")
        tab.select_option("#model", "tickets")
        settled(ask(tab, REFUND))
        show(tab, ".turn .answer >> nth=0")
        show(tab, ".turn .notes")
        show(tab, ".turn .cost")
        show(tab, "#budget-words")
        go(tab, "owner")
        tab.select_option("#scope", "corpus tickets")
        tab.fill("#epsilon", "2")
        tab.click("#budgets button[type=submit]")
        tab.wait_for_selector("#scopes:has-text('which was lowered since')")
        show(tab, "#scopes")
        go(tab, "conversation")
        tab.wait_for_selector("#budget-words:has-text('which was lowered since')")
        show(tab, "#budget-words")


def upload(tab: Any, path: Path, corpus: str) -> None:
    tab.set_input_files("#file", path)
    tab.fill("#corpus", corpus)
    tab.click("#upload button[type=submit]")


def show(tab: Any, selector: str) -> None:
    """Print what stands at a place of the page."""
    print(f"[{selector}]", tab.inner_text(selector).strip(), flush=True)


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """``dpicl-rag serve`` without a corpus; the address with the key of the run."""
    command = ["serve", "--port", "0"]
    print("$ dpicl-rag", *command)
    process = subprocess.Popen(
        [sys.executable, "-m", "dpicl_rag", *command],
        cwd=folder,
        env=os.environ
        | {"XDG_DATA_HOME": str(folder / "home"), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            for line in process.stdout or ():
                print(line, end="")
                if found := re.search(r"http://\S+#dpk-\S+", line):
                    yield found[0]
                    break
        finally:
            process.terminate()


def budget(folder: Path) -> None:
    """A budget that is spent, lowered, and made strict."""
    write_mail(folder)
    type_in(folder, "dpicl-rag ingest inbox.mbox --corpus office")
    type_in(folder, "dpicl-rag budget set --corpus office --epsilon 20")
    ask = f"dpicl-rag ask {shlex.quote(HOURS)} --corpus office --epsilon 8 --fresh"
    type_in(folder, ask)
    type_in(folder, ask)
    type_in(folder, "dpicl-rag budget set --corpus office --epsilon 2")
    type_in(folder, "dpicl-rag budget show")
    type_in(folder, ask)
    type_in(folder, "dpicl-rag budget set --corpus office --epsilon 2 --strict")
    type_in(folder, ask)


def mistakes(folder: Path) -> None:
    """Ten wrong calls, and what each says."""
    from langchain_core.vectorstores import InMemoryVectorStore
    from llama_index.core import Document, VectorStoreIndex

    from dpicl_rag import PrivateContextLLM, load
    from langchain_dpicl_rag import ChatPrivateContext, PrivateEmbeddings, PrivateRetrievalChain
    from llama_index_dpicl_rag import PrivateEmbedding

    llm = PrivateContextLLM(max_tokens=4)
    store = InMemoryVectorStore(PrivateEmbeddings())
    chain = PrivateRetrievalChain(store, unit_field="sender", llm=llm)
    index = VectorStoreIndex.from_documents([Document(text="x")], embed_model=PrivateEmbedding())
    tries: dict[str, Callable[[], object]] = {
        'PrivateContextLLM("gpt-4o-mini")': lambda: PrivateContextLLM("gpt-4o-mini"),
        'chain.invoke({"question": ...})': lambda: chain.invoke({"question": STREET}),
        "PrivateRetrievalChain(store, prompt=...)": lambda: PrivateRetrievalChain(
            store, unit_field="sender", prompt="{context} {input}"
        ),
        'chain.invoke({"input": ..., "language": "en"})': lambda: chain.invoke(
            {"input": STREET, "language": "en"}
        ),
        "chat.bind_tools([...])": lambda: ChatPrivateContext(llm).bind_tools([]),
        "chat.with_structured_output(...)": lambda: ChatPrivateContext(llm).with_structured_output(
            dict
        ),
        "index.as_query_engine(llm=llm)": lambda: index.as_query_engine(llm=llm),
        "llm.as_query_engine(index, similarity_top_k=5)": lambda: llm.as_query_engine(
            index, similarity_top_k=5
        ),
        "load([1, 2])": lambda: load([1, 2]),
        'llm.answer("...", [LlamaIndex documents])': lambda: llm.answer(
            STREET, [Document(text="x")]
        ),
    }
    for words, wrong in tries.items():
        print(f">>> {words}")
        began = time.monotonic()
        try:
            wrong()
        except Exception as error:
            took = time.monotonic() - began
            print(f"{type(error).__name__}: {error}   [{took:.1f} s]\n", flush=True)
        else:
            raise AssertionError(f"nothing was said of {words}")


CHAPTERS = (readme, langchain, llama_index, page, budget, mistakes)


def main() -> None:
    """Run every chapter in a folder of its own."""
    for chapter in CHAPTERS:
        print(f"\n== {(chapter.__doc__ or '').strip()}\n", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            chapter(Path(folder))


if __name__ == "__main__":
    main()
