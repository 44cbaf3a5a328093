"""A LlamaIndex language model that takes its context as documents, not in the prompt."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, NoReturn, TypeVar

from llama_index.core.base.llms.generic_utils import (
    astream_completion_response_to_chat_response,
    completion_response_to_chat_response,
    stream_completion_response_to_chat_response,
)
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
    TextBlock,
)
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.custom import CustomLLM

from dpicl_rag.errors import ConfigurationError, DPICLError, MissingDocumentsError
from dpicl_rag.framework_bridge import (
    AskedFields,
    Conversation,
    PrivateCall,
    core_of,
    refuse,
    refuse_structure,
    refuse_tools,
    split_fields,
)
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.requests import Turn
from dpicl_rag.results import PrivateAnswer
from dpicl_rag.retrieval import Documents
from llama_index_dpicl_rag.recorder import Recorder, Unrecorded
from llama_index_dpicl_rag.refused_options import refuse_options

R = TypeVar("R")

_INSTRUCTING = (MessageRole.SYSTEM, MessageRole.DEVELOPER)

_CONTEXT_VARIABLES = {"context_str", "context_msg"}
"""Template variables by which LlamaIndex's own synthesizers put retrieved text into a prompt."""


class PromptContextError(DPICLError, NotImplementedError):
    """Private text would have gone into a prompt, where nothing protects it.

    Not a ValueError: LlamaIndex's synthesizers catch those and answer "Empty Response".
    """


def _without_context(method: Callable[..., R]) -> Callable[..., R]:
    """Refuse a call that fills a template before LlamaIndex records what it is filled with."""

    @wraps(method)
    def guarded(self: PrivateLLM, *args: Any, **kwargs: Any) -> R:
        if not self.allow_public or _CONTEXT_VARIABLES & kwargs.keys():
            raise PromptContextError(
                "this call fills a prompt, where nothing protects documents; take "
                "llm.as_query_engine(index) or PrivateQueryEngine(llm, index) in the place of "
                "index.as_query_engine and index.as_chat_engine, pass documents= to complete or "
                "chat, or make PrivateLLM(llm, allow_public=True) where all that is in its prompts "
                "is public"
            )
        return method(self, *args, **kwargs)

    return guarded


@dataclass(frozen=True, slots=True, repr=False)
class _Completion:
    """A prompt on its way to the documents."""

    shown: str
    call: PrivateCall

    def answer(self) -> CompletionResponse:
        return self._response(self.call.answer())

    async def aanswer(self) -> CompletionResponse:
        return self._response(await self.call.aanswer())

    def pieces(self) -> Generator[CompletionResponse, None, None]:
        return self.call.pieces(self._responses())

    async def apieces(self) -> AsyncGenerator[CompletionResponse, None]:
        return self.call.apieces(self._responses())

    def _response(self, answer: PrivateAnswer) -> CompletionResponse:
        numbers = self.call.llm.public_numbers(answer)
        return CompletionResponse(text=answer.text, additional_kwargs=numbers)

    def _responses(self) -> Callable[[str, PrivateAnswer | None], list[CompletionResponse]]:
        text = ""

        def shown(piece: str, answer: PrivateAnswer | None) -> list[CompletionResponse]:
            nonlocal text
            text += piece
            numbers = {} if answer is None else self.call.llm.public_numbers(answer)
            return [CompletionResponse(text=text, delta=piece, additional_kwargs=numbers)]

        return shown


@dataclass(frozen=True, slots=True, repr=False)
class _Chat:
    """Messages on their way to the documents, as a prompt whose completion is recorded too."""

    shown: Sequence[ChatMessage]
    llm: PrivateLLM
    prompt: _Completion

    def answer(self) -> CompletionResponse:
        return _COMPLETION.answer(self.llm, self.prompt)

    async def aanswer(self) -> CompletionResponse:
        return await _COMPLETION.aanswer(self.llm, self.prompt)

    def pieces(self) -> Generator[CompletionResponse, None, None]:
        return _COMPLETION.stream(self.llm, self.prompt)

    async def apieces(self) -> AsyncGenerator[CompletionResponse, None]:
        return _COMPLETION.astream(self.llm, self.prompt)


def _same(given: R) -> R:
    return given


_COMPLETION: Recorder[CompletionResponse, CompletionResponse] = Recorder(
    llm_completion_callback, _same, _same, _same
)
_CHAT: Recorder[CompletionResponse, ChatResponse] = Recorder(
    llm_chat_callback,
    completion_response_to_chat_response,
    stream_completion_response_to_chat_response,
    astream_completion_response_to_chat_response,
)


class PrivateLLM(Unrecorded, CustomLLM):
    """``dpicl_rag.PrivateContextLLM`` as a LlamaIndex ``LLM``.

    The prompt is the public question. Private context goes in ``documents=`` of every call:
    strings (a unit each), ``dpicl_rag.Document``, or a retriever of ``dpicl_rag.retrieval``. A
    call without documents raises MissingDocumentsError; an empty list asks the public model.
    Events and callbacks carry the question and the answer, never the documents. An answer that the
    documents do not support is replaced by a fixed sentence; ``unsupported="mark"`` in the settings
    keeps it, and streams as it is drawn.

    LlamaIndex's own query engines put retrieved text into the prompt, which no language model can
    undo; such calls (``predict``, ``stream``, structured ones) raise PromptContextError before
    they record anything. Use ``PrivateQueryEngine``.

    Args:
        llm: The private language model.
        allow_public: Whether calls without documents are answered by the public model alone, for
            agents and the like. All that is in their prompts is then public.
        callback_manager: LlamaIndex's callbacks.
        **fields: Further fields of LlamaIndex's ``LLM``.

    Raises:
        ConfigurationError: ``llm`` is no private language model, or a field is without effect.
    """

    allow_public: bool = Field(
        default=False, description="Answer calls without documents by the public model alone."
    )
    _llm: PrivateContextLLM = PrivateAttr()

    def __init__(
        self,
        llm: PrivateContextLLM | PrivateLLM,
        *,
        allow_public: bool = False,
        callback_manager: CallbackManager | None = None,
        **fields: Any,
    ) -> None:
        inside = core_of(
            llm,
            PrivateLLM,
            "PrivateLLM is made around a private language model, "
            "PrivateLLM(PrivateContextLLM(...)), not around {}",
        )
        known = type(self).model_fields.keys() - {"system_prompt", "query_wrapper_prompt"}
        refuse_options({n: v for n, v in fields.items() if n not in known}, known)
        super().__init__(
            allow_public=allow_public,
            callback_manager=callback_manager or CallbackManager([]),
            **fields,
        )
        self._llm = inside.for_strings()

    @classmethod
    def class_name(cls) -> str:
        """Name of the class in LlamaIndex's records."""
        return "PrivateLLM"

    @property
    def llm(self) -> PrivateContextLLM:
        """The private language model."""
        return self._llm

    @property
    def metadata(self) -> LLMMetadata:
        """Public facts about the model."""
        return LLMMetadata(num_output=self._llm.config.max_tokens, model_name="dpicl-rag")

    predict = _without_context(CustomLLM.predict)
    apredict = _without_context(CustomLLM.apredict)
    stream = _without_context(CustomLLM.stream)
    astream = _without_context(CustomLLM.astream)
    structured_predict = _without_context(CustomLLM.structured_predict)
    astructured_predict = _without_context(CustomLLM.astructured_predict)
    stream_structured_predict = _without_context(CustomLLM.stream_structured_predict)
    astream_structured_predict = _without_context(CustomLLM.astream_structured_predict)
    as_structured_llm = refuse_structure

    def predict_and_call(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: calls of tools would be drawn token by token from private scores.

        Raises:
            ConfigurationError: Always.
        """
        refuse_tools("llm.as_query_engine(index).as_tool()")

    apredict_and_call = predict_and_call

    def _completion(
        self,
        /,
        prompt: str,
        formatted: bool = False,
        *,
        documents: Documents | None = None,
        **fields: Any,
    ) -> _Completion:
        """Answer a question from documents.

        Args:
            prompt: The question. Public.
            formatted: Without effect: the private language model has its own template.
            documents: Private documents; see the class.
            **fields: ``fresh=True`` asks them again where the memory has the answer to the same
                question; ``kind`` says what to do where the question shall not. Nothing else is
                known: sampling parameters would act on private scores.

        Raises:
            BudgetExceededError: A budget cannot pay for the first token.
            ConfigurationError: There are further arguments, or as in ``dpicl_rag``'s ``answer``.
            MissingDocumentsError: There are no documents and ``allow_public`` is not set.
        """
        return self._prompt(prompt, *self._read(documents, fields))

    complete, acomplete, stream_complete, astream_complete = _COMPLETION.methods(
        _completion,
        "``complete`` in a worker thread.",
        """``complete`` piece by piece. The answer begins, and budgets are asked, with the first.

        The last response adds no text and brings what stands beside the answer, in
        ``additional_kwargs``. Closing the generator ends the answer; only what was released is
        paid for.
        """,
        "``stream_complete`` with each piece drawn in a worker thread.",
    )

    def _chatting(
        self,
        /,
        messages: Sequence[ChatMessage],
        *,
        documents: Documents | None = None,
        **fields: Any,
    ) -> _Chat:
        """``complete`` for messages. All of them are public.

        The last one is the question, put into whole words where it leans on those before it. A
        system message takes the place of the template's instruction. Without ``documents``, where
        ``allow_public`` is set, all messages are one prompt.
        """
        found, asked = self._read(documents, fields)
        conversation = _conversation(messages)
        if documents is None and len(messages) > 1:
            assert self.messages_to_prompt is not None
            question = self.messages_to_prompt(messages)
        else:
            said = conversation.fields
            question = self._llm.whole_question(conversation.question, said["turns"])
            asked = AskedFields(system=said["system"], **asked)
        return _Chat(messages, self, self._prompt(question, found, asked))

    chat, achat, stream_chat, astream_chat = _CHAT.methods(
        _chatting,
        "``chat`` in a worker thread.",
        "``chat`` piece by piece, as `stream_complete` is.",
        "``stream_chat`` with each piece drawn in a worker thread.",
    )

    def _prompt(self, prompt: str, documents: Documents, fields: AskedFields) -> _Completion:
        return _Completion(prompt, PrivateCall(self._llm, prompt, documents, fields))

    def _read(
        self, documents: Documents | None, arguments: dict[str, Any]
    ) -> tuple[Documents, AskedFields]:
        """Documents of a call, and fields of its question."""
        fields, unknown = split_fields(arguments)
        refuse_arguments(unknown)
        if documents is not None:
            return documents, fields
        if not self.allow_public:
            raise MissingDocumentsError(
                "no documents were given; pass documents= (an empty list asks the public model), "
                "take llm.as_query_engine(index) in the place of an engine or an agent that writes "
                "documents into a prompt, or set allow_public=True where every prompt is public"
            )
        return [], {"kind": "answer", **fields}


def _conversation(messages: Sequence[ChatMessage]) -> Conversation:
    """The question of messages, after the turns before it.

    Raises:
        ConfigurationError: They are no messages, or hold more than text.
    """
    if not all(isinstance(message, ChatMessage) for message in messages):
        raise ConfigurationError("chat takes a list of ChatMessage; complete takes a string")
    if not all(isinstance(block, TextBlock) for m in messages for block in m.blocks):
        raise ConfigurationError("messages hold text only; pass documents in documents=")
    system = [one.content for one in messages if one.role in _INSTRUCTING and one.content]
    return Conversation.of(turns_of([m for m in messages if m.role not in _INSTRUCTING]), system)


def turns_of(messages: Sequence[ChatMessage]) -> list[Turn]:
    """Turns of messages, as pairs of speaker and words; none of messages without words."""
    return [(one.role.value, one.content) for one in messages if one.content]


def refuse_arguments(unknown: dict[str, Any]) -> None:
    """Refuse arguments that LlamaIndex would pass on to an ordinary model.

    Raises:
        ConfigurationError: There are any.
    """
    refuse(
        unknown,
        "not known here; settings belong to the private language model, and sampling parameters "
        "would act on private scores",
    )


def llm_from(llm: PrivateContextLLM | PrivateLLM, unit_field: str | None) -> PrivateContextLLM:
    """The private language model, whether it is given as it is or as a LlamaIndex ``LLM``.

    Raises:
        ConfigurationError: It is neither, or its ``privacy_unit`` is not ``unit_field``.
    """
    inside = core_of(
        llm,
        PrivateLLM,
        "llm must be a PrivateContextLLM, not {}: only its way of drawing has a guarantee",
    )
    if inside.config.privacy_unit not in ("document", unit_field):
        raise ConfigurationError(
            "leave privacy_unit out of the llm's settings: unit_field, or a retriever that is "
            "given, decides on the privacy unit"
        )
    # Documents come with their units, and are not grouped again. What people print of a response is
    # its text, which does not say whether documents support it.
    return inside.with_settings(privacy_unit="document").for_strings()
