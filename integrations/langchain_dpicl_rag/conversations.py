"""Conversations of LangChain: a question, its turns, and sealed documents, which stay unread."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeAlias, cast

from langchain_core.messages import BaseMessage, HumanMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables.utils import AddableDict

from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.errors import ConfigurationError, MissingDocumentsError
from dpicl_rag.framework_bridge import AskedFields, Conversation, refuse, split_fields
from dpicl_rag.requests import Turn
from dpicl_rag.retrieval import Documents

DOCUMENTS = "documents"
"""The keyword under which callers pass documents."""


class SealedDocuments:
    """Documents that LangChain may carry but not read: no repr, no attributes, no pickle.

    LangChain shows call arguments and message blocks to callbacks and tracers, and bound
    arguments in reprs. This stands in their place.

    Args:
        documents: Anything that the core takes, LangChain documents, or None; sealed or not.
    """

    __slots__ = ("_unseal",)

    def __init__(self, documents: Any) -> None:
        documents = unseal(documents)
        # A closure: nothing that walks over attributes comes upon the documents.
        self._unseal: Callable[[], Any] = lambda: documents

    def __repr__(self) -> str:
        return "<private documents>"

    def __copy__(self) -> SealedDocuments:
        return self

    def __deepcopy__(self, memo: Any) -> SealedDocuments:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("private documents are not serialised")


class SealedCall(SealedDocuments):
    """The documents of one streamed call, and the answer that is drawn from them.

    LangChain leaves the generators inside its own to the garbage collector and the event loop,
    which may come late. Whoever began the call closes this, and with it the answer.
    """

    __slots__ = ("stream",)

    def __init__(self, documents: Any) -> None:
        super().__init__(documents)
        self.stream: PrivateStream | None = None

    @classmethod
    def of(cls, arguments: dict[str, Any]) -> SealedCall:
        """The call that these keyword arguments are already part of, or a new one."""
        documents = arguments.get(DOCUMENTS)
        return documents if isinstance(documents, cls) else cls(documents)

    def close(self) -> None:
        """End the answer, if it was begun. May be called again."""
        if self.stream is not None:
            self.stream.close()

    async def aclose(self) -> None:
        """``close`` in a worker thread."""
        if self.stream is not None:
            await self.stream.aclose()


def unseal(value: Any) -> Any:
    """The sealed value; other values as they are."""
    return value._unseal() if isinstance(value, SealedDocuments) else value


def read_arguments(
    arguments: dict[str, Any], blocks: Sequence[str], *, allow_public: bool
) -> tuple[Documents, AskedFields]:
    """Documents of a model call, ready for the core, and fields of its question.

    Args:
        arguments: Keyword arguments of the call.
        blocks: Documents that stood in its messages.
        allow_public: Whether a call without documents asks the public model.

    Raises:
        MissingDocumentsError: There are none and ``allow_public`` is off.
        ConfigurationError: Documents come both ways, or the call brings an argument that the
            private path does not know.
    """
    fields, others = split_fields(arguments)
    refuse(
        others.keys() - {DOCUMENTS, "stream"},
        "not an argument of a private call; settings are given when the model is made",
    )
    documents = unseal(arguments.get(DOCUMENTS))
    if blocks and documents is not None:
        raise ConfigurationError("give documents by documents= or as text-plain blocks, not both")
    if documents is not None:
        return cast("Documents", documents), fields  # the core takes those of LangChain too
    if not blocks and not allow_public:
        raise MissingDocumentsError(
            "no documents were given, and what a prompt says is public; pass documents=... to "
            "invoke or bind, take PrivateRetrievalChain in the place of a chain that writes "
            "documents into a prompt, or make the model with allow_public=True to let it answer "
            "without any"
        )
    if allow_public:  # whether there is a document tells nothing, so the kind does not follow it
        fields = {"kind": "answer", **fields}
    return blocks, fields


ChainInput: TypeAlias = str | dict[str, Any]
"""A question, or a dict that holds it under the chain's ``input_key``, and perhaps the turns before
it under ``chat_history``; or LangGraph's ``messages``, the last of which is the question."""

HISTORY = "chat_history"
"""The key of the turns before the question: messages as LangChain takes them, or their words."""

MESSAGES = "messages"
"""The key of a whole conversation, as states of LangGraph hold it."""

_DOCUMENT_BLOCK = "text-plain"
_SPEAKER = re.compile(r"^(\w+): ", re.MULTILINE)
_SPEAKERS = {"human": "User", "ai": "Assistant", "tool": "Tool"}


def seal_blocks(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages with all their ``text-plain`` blocks in one, at the end, sealed.

    How many there were, and in which messages, does not show. That there are any does. The messages
    given stay as they are.
    """
    documents = [block for message in messages for block in _blocks(message) if _is_document(block)]
    if not documents:
        return list(messages)
    found: list[str] = []
    for block in documents:
        found += _document_texts(block)
    sealed = {"type": _DOCUMENT_BLOCK, "text": SealedDocuments(found)}
    kept = [(one, [b for b in _blocks(one) if not _is_document(b)]) for one in messages]
    # A message of documents alone would be counted too.
    *before, (last, blocks) = [pair for pair in kept if pair[1]] or [(HumanMessage([]), [])]
    return [
        *(one.model_copy(update={"content": public}) for one, public in before),
        last.model_copy(update={"content": [*blocks, sealed]}),
    ]


def read(messages: Sequence[BaseMessage], question: str | None = None) -> Conversation:
    """The question of messages, after the turns before it; see `last_question`.

    Args:
        messages: As LangChain has them.
        question: What is asked after all of them, where the last one is not the question.

    Raises:
        ConfigurationError: A block is neither text nor a document with text.
    """
    system: list[str] = []
    turns: list[Turn] = []
    documents: list[str] = []
    for message in messages:
        text = "".join(_texts(message, documents))
        if message.type == "system":
            system.append(text)
        elif text:
            turns.append((_SPEAKERS.get(message.type, "User"), text))
    return Conversation.of(turns, system, documents, question)


def _texts(message: BaseMessage, documents: list[str]) -> Iterator[str]:
    """Public text of a message; its documents go to the list."""
    for block in _blocks(message):
        if isinstance(block, str):
            yield block
        elif _is_document(block):
            documents += _document_texts(block)
        elif block.get("type") == "text":
            yield block["text"]
        elif message.type != "ai":  # what another model thought or called says nothing here
            raise ConfigurationError(
                f"a message holds a block of type {block.get('type')!r}; the private path reads "
                "text, and documents as text-plain blocks"
            )


def _is_document(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == _DOCUMENT_BLOCK


def _document_texts(block: Any) -> list[str]:
    """The text of a block, or the texts of a sealed one."""
    text = unseal(block.get("text"))
    texts = text if isinstance(text, list) else [text]
    if not all(isinstance(one, str) for one in texts):
        raise ConfigurationError("a text-plain block needs its text in the field 'text'")
    return texts


def _blocks(message: BaseMessage) -> list[Any]:
    content = message.content
    return [content] if isinstance(content, str) else content


def read_input(input: Any, input_key: str, *beside: str) -> Conversation:
    """Read the input of a chain. All of it is public.

    Args:
        input: A `ChainInput`.
        input_key: Of the question in a dict.
        beside: Other keys that the chain reads.

    Raises:
        ConfigurationError: It holds no question, or something that no chain reads.
    """
    if isinstance(input, str):
        return Conversation(input)
    if not isinstance(input, dict):
        raise ConfigurationError(
            f"the input must be a question, or a dict with one under {input_key!r}, "
            f"not {type(input).__name__}{_way_out(input)}"
        )
    of_graph = input_key not in input and MESSAGES in input
    known = ((MESSAGES,) if of_graph else (input_key, HISTORY)) + beside
    others = [key for key in input if key not in known]
    named = ", ".join(map(repr, others))
    if input_key not in input and not of_graph:
        texts = [key for key in others if isinstance(input[key], str)]
        key = repr(texts[0]) if len(texts) == 1 else "..."
        raise ConfigurationError(
            f"the input has no {input_key!r}, where the question stands"
            + (f", but {named}" if others else "")
            + "".join({_way_out(input[key]): None for key in others})
            + f"; another key is named where the chain is made: input_key={key}"
        )
    if others:
        raise ConfigurationError(
            f"{named} in the input would be without effect: the chain reads "
            f"{', '.join(map(repr, known))}; leave the others out, or pick what it reads: "
            f"RunnablePick({list(known)}) | chain"
        )
    if of_graph:
        return _conversation(input[MESSAGES], MESSAGES)
    question = input[input_key]
    if not isinstance(question, str):
        raise ConfigurationError(
            f"under {input_key!r} stands no question but {type(question).__name__}"
            f"{_way_out(question)}"
        )
    return _after(input.get(HISTORY), question)


def joined(parts: list[ChainInput]) -> Any:
    """Input that came in parts, as LangChain streams it."""
    whole: Any = None
    for part in parts:
        part = AddableDict(part) if isinstance(part, dict) else part
        whole = part if whole is None else whole + part
    return whole


def _after(history: Any, question: str) -> Conversation:
    """A question after turns that were taken."""
    if not history:
        return Conversation(question)
    if isinstance(history, str):
        return Conversation.of(_spoken(history), (), question=question)
    return _conversation(history, HISTORY, question)


def _conversation(given: Any, key: str, question: str | None = None) -> Conversation:
    try:
        messages = convert_to_messages(given)
    except (NotImplementedError, TypeError, ValueError):
        # Without a cause, which would quote what was given.
        raise ConfigurationError(
            f"{key!r} must hold the turns {'before' if key == HISTORY else 'up to'} the question: "
            "text, or messages such as ('human', '...') and ('ai', '...')"
        ) from None
    conversation = read(messages, question)
    if conversation.documents:
        raise ConfigurationError(
            f"{key!r} holds text-plain blocks: a chain has its documents from its retriever"
        )
    return conversation


def _spoken(words: str) -> tuple[Turn, ...]:
    """Turns of a conversation in words, as memories of LangChain give it: ``Human: ...``."""
    first, *rest = _SPEAKER.split(words)
    return (("", first), *zip(rest[::2], rest[1::2], strict=True))


def _way_out(given: Any) -> str:
    if isinstance(given, BaseMessage):
        return "; put StrOutputParser() before the chain"
    if isinstance(given, PromptValue) or (
        isinstance(given, list) and any(isinstance(one, BaseMessage) for one in given)
    ):
        return (
            "; ChatPrivateContext takes messages, a chain has those before the question under "
            f"{HISTORY!r}"
        )
    return ""
