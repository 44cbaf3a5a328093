"""An agent of LangGraph that asks a private mailbox for facts, and counts for numbers.

Run it with ``python -m demos.counting_agent``. The agent's own model is public and scripted here:
it chooses a tool for each question by a table. What the tools say is what was released.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from rich.console import Console
from rich.progress import Progress

from demos.email_assistant import open_assistant
from demos.inbox.generator import generate
from dpicl_rag import PrivateContextLLM
from langchain_dpicl_rag import PrivateRetrievalChain, counting_tools

FACT = "What is the new name of the product?"
HOW_MANY = "How many threads are about a refund?"
WHAT_ABOUT = "What are these threads about?"

SCRIPT = {
    FACT: ("ask_private_documents", {"question": FACT}),
    HOW_MANY: ("count_private_documents", {"question": "Is this email about a refund?"}),
    WHAT_ABOUT: ("survey_private_documents", {}),
}
"""The tool that the scripted model chooses for each question, and what it gives it."""


class ScriptedChooser(BaseChatModel):
    """Stands for a chat model that calls tools: it chooses by `SCRIPT`, repeats what they say."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> ScriptedChooser:  # type: ignore[override]
        """The script knows the tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            said = AIMessage(str(last.content))
        else:
            assert isinstance(last, HumanMessage)
            name, given = SCRIPT[str(last.content)]
            call = {"name": name, "args": given, "id": "1", "type": "tool_call"}
            said = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=said)])


def agent_over(llm: PrivateContextLLM, documents: Any) -> Callable[[str], str]:
    """What answers a question by the tool that the model chooses.

    Args:
        llm: Answers and counts, and pays from its ledger.
        documents: A corpus or a Chroma collection.
    """
    ask: BaseTool = PrivateRetrievalChain(documents, llm=llm).as_tool()
    agent = create_agent(ScriptedChooser(), tools=[ask, *counting_tools(llm, documents)])

    def answer(question: str) -> str:
        found = agent.invoke({"messages": [HumanMessage(question)]})
        return str(found["messages"][-1].content)

    return answer


def main() -> None:
    """Ask the demo's mailbox for a fact, a number and themes."""
    console = Console()
    with (
        tempfile.TemporaryDirectory() as folder,
        Progress(console=console, transient=True) as progress,
    ):
        assistant = open_assistant(generate(7), Path(folder), progress)
        answer = agent_over(assistant.llm, assistant.corpus)
        for question in SCRIPT:
            console.print(f"[bold]{question}[/]\n{answer(question)}\n")


if __name__ == "__main__":
    main()
