"""What chains, engines, models and tools of both frameworks are asked, as it is recorded."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.llms import ChatMessage

import langchain_dpicl_rag as langchain
import llama_index_dpicl_rag as llama_index
from dpicl_rag.prompts import PromptTemplate
from dpicl_rag.retrieval import retriever_over
from tests.integrations.installation import (
    DOCUMENTS,
    LABELS,
    QUESTION,
    UNKNOWN,
    Case,
    Installation,
)


def chained(*questions: Any, least: float | None = None, **how: Any) -> Case:
    """Whole answers of LangChain's chain, and pieces, with numbers and without."""

    def run(installed: Installation) -> Any:
        chain, plain = (
            langchain.PrivateRetrievalChain(
                installed.corpus, llm=installed.llm(**how), numbers=numbers, threshold=least
            )
            for numbers in (True, False)
        )
        return [
            *([chain.invoke(one), plain.invoke(one)] for one in questions),
            *([dict(part) for part in chain.stream(one)] for one in questions[:1]),
            *([*plain.stream(one)] for one in questions[:1]),
            asyncio.run(chain.ainvoke(questions[0])),
        ]

    return run


def nothing_near(installed: Installation) -> Any:
    """A search that finds nothing."""
    return retriever_over(installed.corpus, threshold=0.999)


def of_langchain_models(installed: Installation) -> Any:
    llm, far = installed.llm(), nothing_near(installed)
    text, talk = langchain.PrivateLLM(llm), langchain.ChatPrivateContext(llm)
    asked = ((QUESTION, installed.corpus), (UNKNOWN, far), ("Hi!", far))
    found = text.generate([QUESTION, UNKNOWN], documents=far)
    generations = [[one.model_dump() for one in each] for each in found.generations]
    messages = [talk.invoke(one, documents=documents) for one, documents in asked]
    parts = list(talk.stream(QUESTION, documents=DOCUMENTS[:9]))
    shown = ("content", "response_metadata", "usage_metadata", "additional_kwargs")
    return [
        generations,
        found.llm_output,
        [{name: getattr(one, name) for name in shown} for one in (*messages, *parts)],
    ]


def of_langchain_tools(installed: Installation) -> Any:
    chain = langchain.PrivateRetrievalChain(installed.corpus, llm=installed.llm())
    found = []
    for tool in (chain.as_tool(), *langchain.counting_tools(installed.llm(), installed.corpus)):
        given = {"question": QUESTION, **({"labels": LABELS} if "labels" in tool.args else {})}
        found.append([tool.name, tool.description, tool.args, tool.invoke(given)])
    return found


def combined(installed: Installation) -> Any:
    given = {"input": QUESTION, "context": [one.text for one in DOCUMENTS]}
    chain = langchain.PrivateCombineDocuments(installed.llm(), unit_field="document", numbers=True)
    return chain.invoke(given)


def of_llama_engines(installed: Installation) -> Any:
    engine = installed.llm().as_query_engine(installed.corpus)
    found = [engine.query(one) for one in (QUESTION, "Hi!")]
    far, marking = nothing_near(installed), installed.llm(unsupported="mark")
    found += [one.as_query_engine(far).query(UNKNOWN) for one in (installed.llm(), marking)]
    stream = installed.llm().as_query_engine(installed.corpus, streaming=True).query(QUESTION)
    pieces = list(stream.response_gen)
    talk = installed.llm().as_chat_engine(installed.corpus)
    said = [talk.chat(one) for one in (QUESTION, "And at noon?", "Thanks!")]
    return [
        [[str(one), one.metadata, one.source_nodes] for one in found],
        [pieces, stream.metadata],
        [[str(one), one.metadata] for one in said],
        [message.content for message in talk.chat_history],
    ]


def of_llama_models(installed: Installation) -> Any:
    model = llama_index.PrivateLLM(installed.llm())
    completions = [
        model.complete(QUESTION, documents=installed.corpus),
        *model.stream_complete(QUESTION, documents=installed.corpus),
    ]
    message = [ChatMessage(UNKNOWN)]
    replies = [
        model.chat(message, documents=nothing_near(installed)),
        *model.stream_chat(message, documents=nothing_near(installed)),
    ]
    return [
        model.metadata.model_dump(),
        [[one.text, one.delta, one.raw, one.additional_kwargs] for one in completions],
        [[one.message.content, one.delta, one.message.additional_kwargs] for one in replies],
    ]


def of_llama_tools(installed: Installation) -> Any:
    asking = installed.llm().as_query_engine(installed.corpus).as_tool()
    found = [[asking.metadata.name, asking.metadata.description, asking.call(QUESTION).content]]
    for tool in llama_index.counting_tools(installed.llm(), installed.corpus):
        given = {"question": QUESTION}
        given |= {"labels": LABELS} if "tally" in tool.metadata.name else {}
        found.append([tool.metadata.name, tool.metadata.description, tool.call(**given).content])
    return found


FRAMEWORKS: dict[str, Case] = {
    "LangChain chain": chained(QUESTION, "Hi!"),
    "LangChain chain unsupported": chained(UNKNOWN, least=0.999),
    "LangChain chain of tokens": chained(QUESTION, agreement="off", max_tokens=6),
    "LangChain chain instructed": chained(
        {"input": "And at noon?", "chat_history": [("user", QUESTION), ("ai", "At seven.")]},
        template=PromptTemplate(system="Be brief."),
    ),
    "LangChain models": of_langchain_models,
    "LangChain tools": of_langchain_tools,
    "LangChain documents": combined,
    "LlamaIndex engines": of_llama_engines,
    "LlamaIndex models": of_llama_models,
    "LlamaIndex tools": of_llama_tools,
}
