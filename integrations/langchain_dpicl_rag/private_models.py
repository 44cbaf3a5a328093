"""Private models of LangChain, for text and chat: sealed documents, settled streams, no cache."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, closing
from typing import Any, NoReturn, TypeAlias, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.base import (
    BaseLanguageModel,
    LangSmithParams,
    LanguageModelInput,
)
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.language_models.llms import BaseLLM
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    ChatResult,
    Generation,
    GenerationChunk,
    LLMResult,
)
from langchain_core.prompt_values import ChatPromptValue, PromptValue
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import get_config_list
from pydantic import Field, field_validator

from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.answering.worker_threads import in_thread
from dpicl_rag.configuration import TEMPLATE
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.framework_bridge import (
    AskedFields,
    Conversation,
    LLMArguments,
    PrivateCall,
    core_of,
    refuse,
    refuse_structure,
    refuse_tools,
)
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.results import PrivateAnswer
from langchain_dpicl_rag.conversations import (
    DOCUMENTS,
    SealedCall,
    SealedDocuments,
    read,
    read_arguments,
    seal_blocks,
)

Config: TypeAlias = RunnableConfig | None
Stop: TypeAlias = list[str] | None


class PrivateRunnable(Runnable[Any, Any]):
    """A private model or chain: where it fails, as on a spent budget, only its like goes on."""

    def with_fallbacks(self, fallbacks: Sequence[Runnable[Any, Any]], **options: Any) -> Any:
        """Fall back to other private models or chains; see LangChain's own ``with_fallbacks``.

        Raises:
            ConfigurationError: One is not private: it would be handed what this one is.
        """
        for one in fallbacks:
            if not isinstance(getattr(one, "bound", one), PrivateRunnable):
                raise ConfigurationError(
                    f"{type(one).__name__} is no private model or chain, and would be handed the "
                    "documents once the budget is spent; fall back to a private one, or catch "
                    "BudgetExceededError"
                )
        return super().with_fallbacks(fallbacks, **options)


class PrivateModel(PrivateRunnable, BaseLanguageModel[Any]):
    """A LangChain model that answers from private documents; see its two subclasses.

    A prompt is text in the one and messages in the other.
    """

    llm: PrivateContextLLM = Field(exclude=True, repr=False)
    allow_public: bool = False
    cache: Any = False
    """Always False: a cached answer would be found again whatever the documents are."""

    @field_validator("cache")
    @classmethod
    def _refuse_cache(cls, value: Any) -> Any:
        if value is not False:
            raise ValueError(
                "a private model takes no cache: LangChain's finds answers by the question alone, "
                "or keeps the documents in its keys"
            )
        return value

    def __init__(self, llm: Any = None, **kwargs: Any) -> None:
        fields = {name: kwargs.pop(name) for name in [*kwargs] if name in type(self).model_fields}
        super().__init__(**{**fields, "llm": llm_from(llm, cast("LLMArguments", kwargs))})

    @abstractmethod
    def _read(self, prompt: Any) -> Conversation:
        """The question of a prompt."""

    @abstractmethod
    def _chunk(self, piece: str, answer: PrivateAnswer | None = None) -> Any:
        """LangChain's form of a piece; the last one comes with the whole answer."""

    @property
    def _identifying_params(self) -> dict[str, Any]:
        # Traces show these: settings, all of them public.
        config = self.llm.config
        return {
            "model_name": self.llm.model.fingerprint,
            "epsilon": config.epsilon,
            "delta": config.delta,
            "max_tokens": config.max_tokens,
        }

    def _get_ls_params(self, stop: Stop = None, **kwargs: Any) -> LangSmithParams:
        config = self.llm.config
        params = super()._get_ls_params(stop=[*config.stop, *(stop or ())], **kwargs)
        params.setdefault("ls_model_name", self.llm.model.fingerprint)
        params.update({"ls_provider": "dpicl-rag", "ls_max_tokens": config.max_tokens})
        return params

    def get_token_ids(self, text: str) -> list[int]:
        """Token ids by the model's own tokenizer; LangChain would fetch that of GPT-2."""
        return (self.custom_get_token_ids or self.llm.model.tokenizer.encode)(text)

    def bind(self, **kwargs: Any) -> Any:
        """Bind arguments; documents do not show in the result."""
        if DOCUMENTS in kwargs:
            kwargs[DOCUMENTS] = SealedDocuments(kwargs[DOCUMENTS])
        return super().bind(**kwargs)

    def with_structured_output(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: structure would be drawn token by token from private scores.

        Raises:
            ConfigurationError: Always.
        """
        refuse_structure()

    def stream(
        self, input: LanguageModelInput, config: Config = None, *, stop: Stop = None, **kwargs: Any
    ) -> Iterator[Any]:
        """Stream the answer; closing early pays for what was released and no more."""
        with closing(SealedCall.of(kwargs)) as call:
            yield from super().stream(input, config, stop=stop, **{**kwargs, DOCUMENTS: call})

    async def astream(
        self, input: LanguageModelInput, config: Config = None, *, stop: Stop = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """``stream`` with each draw in a worker thread."""
        async with aclosing(SealedCall.of(kwargs)) as call:
            chunks = super().astream(input, config, stop=stop, **{**kwargs, DOCUMENTS: call})
            async with aclosing(cast("AsyncGenerator[Any]", chunks)):
                async for chunk in chunks:
                    yield chunk

    def _stream(
        self,
        prompt: Any,
        stop: Stop = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[Any]:
        with closing(SealedCall.of(kwargs)) as call:
            stream = self._draw(prompt, stop, kwargs, call)
            for piece in stream:
                chunk = self._chunk(piece)
                if run_manager is not None:
                    run_manager.on_llm_new_token(piece, chunk=chunk)
                yield chunk
            yield self._chunk("", stream.answer)

    async def _astream(
        self,
        prompt: Any,
        stop: Stop = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        async with aclosing(SealedCall.of(kwargs)) as call:
            stream = await in_thread(self._draw, prompt, stop, kwargs, call)
            async for piece in stream:
                chunk = self._chunk(piece)
                if run_manager is not None:
                    await run_manager.on_llm_new_token(piece, chunk=chunk)
                yield chunk
            yield self._chunk("", stream.answer)

    def _draw(
        self, prompt: Any, stop: Stop, arguments: dict[str, Any], call: SealedCall
    ) -> PrivateStream:
        call.stream = self._call(prompt, stop, arguments).stream()
        return call.stream

    def _call(self, prompt: Any, stop: Stop, arguments: dict[str, Any]) -> PrivateCall:
        asked = self._read(prompt)
        documents, fields = read_arguments(
            arguments, asked.documents, allow_public=self.allow_public
        )
        fields = AskedFields(**asked.fields, **fields, stop=stop or ())
        return PrivateCall(self.llm.for_strings(), asked.question, documents, fields)


def llm_from(given: Any, settings: LLMArguments) -> PrivateContextLLM:
    """The object that answers.

    Args:
        given: A ``dpicl_rag.PrivateContextLLM``, a model around one, or None to make one.
        settings: Arguments of its constructor; only where none is given.

    Raises:
        ConfigurationError: Both are given, or ``given`` is something else.
    """
    if given is None:
        return PrivateContextLLM(**settings)
    llm = core_of(given, PrivateModel, "llm must be a dpicl_rag.PrivateContextLLM, not {}")
    there = f"; there {TEMPLATE}" if "prompt" in settings else ""
    refuse(settings, f"settings belong to the llm that is given{there}")
    return llm


def with_unit(
    llm: PrivateContextLLM, unit_field: str | None
) -> tuple[PrivateContextLLM, str | None]:
    """Settle which metadata field names the privacy unit.

    Args:
        llm: Its ``privacy_unit`` names the field too.
        unit_field: The field, as a chain's own argument.

    Returns:
        The same without a ``privacy_unit``, since documents reach it with their units; and the
        field, None where neither names one.

    Raises:
        ConfigurationError: They name two fields.
    """
    unit = llm.config.privacy_unit
    if unit == "document":
        return llm, unit_field
    if unit_field not in (None, unit):
        raise ConfigurationError(
            f"unit_field is {unit_field!r} and the llm's privacy_unit is {unit!r}; leave one out"
        )
    return llm.with_settings(privacy_unit="document"), unit


class PrivateLLM(PrivateModel, BaseLLM):
    """A text model that answers from private documents; the prompt is the public question.

    Documents come beside the prompt: ``llm.invoke(question, documents=[...])`` or
    ``llm.bind(documents=[...])``. They may be strings, ``dpicl_rag.Document``, LangChain documents
    or any ``dpicl_rag`` retriever. Text inside the prompt is public, retrieved or not.
    ``fresh=True`` beside them asks the documents again where the memory has the answer. An answer
    that the documents do not support is replaced by a fixed sentence; ``unsupported="mark"`` keeps
    it, and streams as it is drawn.

    The guarantee is for the documents handed over. Where a retriever of LangChain chose them, use
    `PrivateRetrievalChain`, which knows how far one document reaches into the choice.

    Args:
        llm: A ``dpicl_rag.PrivateContextLLM``, or a model around one.
        allow_public: Answer calls without documents from the public model.
        **kwargs: Without an ``llm``, arguments of ``dpicl_rag.PrivateContextLLM``: ``model``,
            ``epsilon``, ``max_tokens``, ``ledger`` and so on. Also fields of LangChain's
            ``BaseLLM``, such as ``callbacks``.

    Raises:
        ConfigurationError: A setting is unknown or outside its range.
        ModelError: The model cannot be loaded.
    """

    def batch(self, inputs: list[LanguageModelInput], config: Any = None, **how: Any) -> list[str]:
        """Answer each by itself: what fails takes no answer away that was paid for."""
        found: list[str] = []
        for one, its in zip(inputs, get_config_list(config, len(inputs)), strict=True):
            found += super().batch([one], its, **how)
        return found

    async def abatch(
        self, inputs: list[LanguageModelInput], config: Any = None, **how: Any
    ) -> list[str]:
        """``batch`` with the answers drawn in worker threads."""
        found: list[str] = []
        for one, its in zip(inputs, get_config_list(config, len(inputs)), strict=True):
            found += await super().abatch([one], its, **how)
        return found

    @property
    def _llm_type(self) -> str:
        return "private-context"

    def _generate(
        self,
        prompts: list[str],
        stop: Stop = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        answers = [self._call(prompt, stop, kwargs).answer() for prompt in prompts]
        return LLMResult(
            generations=[
                [Generation(text=one.text, generation_info=self.llm.public_numbers(one))]
                for one in answers
            ]
        )

    def _read(self, prompt: str) -> Conversation:
        return Conversation(prompt)

    def _chunk(self, piece: str, answer: PrivateAnswer | None = None) -> GenerationChunk:
        numbers = None if answer is None else self.llm.public_numbers(answer)
        return GenerationChunk(text=piece, generation_info=numbers)


class ChatPrivateContext(PrivateModel, BaseChatModel):  # type: ignore[misc] # a parameter's name
    """A chat model that answers from private documents; the messages are the public question.

    Documents come as ``chat.invoke(messages, documents=[...])``, by
    ``chat.bind(documents=[...])``, or as ``text-plain`` content blocks of the messages, each a
    privacy unit of its own. All other text of the messages is public, retrieved or not. A system
    message replaces the template's instruction. The last turn is the question; one that leans on
    those before it is put into whole words first. ``fresh=True`` asks the documents again where the
    memory has the answer. An answer that the documents do not support is replaced by a fixed
    sentence; ``unsupported="mark"`` keeps it, marks it in ``response_metadata``, and streams as it
    is drawn.

    Blocks are out of sight from the moment the model is called. A prompt or a chain in front of it
    sees them, and shows them to its callbacks: there, pass documents by ``documents=``.

    Its guarantee, its arguments and errors are those of `PrivateLLM`, with fields of LangChain's
    ``BaseChatModel``. ``streaming`` draws piece by piece in ``invoke`` too, so that callbacks see
    each token.
    """

    streaming: bool = False

    @property
    def _llm_type(self) -> str:
        return "private-context-chat"

    def _get_invocation_params(self, stop: Stop = None, **kwargs: Any) -> dict[str, Any]:
        # LangChain hands these to callbacks and tracers.
        kwargs.pop(DOCUMENTS, None)
        return super()._get_invocation_params(stop=stop, **kwargs)

    def _convert_input(self, model_input: LanguageModelInput) -> PromptValue:
        messages = super()._convert_input(model_input).to_messages()
        return ChatPromptValue(messages=seal_blocks(messages))

    def generate(self, messages: list[list[BaseMessage]], *args: Any, **kwargs: Any) -> LLMResult:
        """Answer several conversations; see LangChain's own ``generate``."""
        return super().generate([seal_blocks(one) for one in messages], *args, **kwargs)

    async def agenerate(
        self, messages: list[list[BaseMessage]], *args: Any, **kwargs: Any
    ) -> LLMResult:
        """``generate`` with the answers drawn in worker threads."""
        return await super().agenerate([seal_blocks(one) for one in messages], *args, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: Stop = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        answer = self._call(messages, stop, kwargs).answer()
        message = AIMessage(content=answer.text, response_metadata=self.llm.public_numbers(answer))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def bind_tools(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: calls of tools would be drawn token by token from private scores.

        Raises:
            ConfigurationError: Always.
        """
        refuse_tools("PrivateRetrievalChain(...).as_tool()")

    def _read(self, prompt: Sequence[BaseMessage]) -> Conversation:
        return read(prompt)

    def _chunk(self, piece: str, answer: PrivateAnswer | None = None) -> ChatGenerationChunk:
        if answer is None:
            return ChatGenerationChunk(message=AIMessageChunk(content=piece))
        numbers = self.llm.public_numbers(answer)
        message = AIMessageChunk(content=piece, response_metadata=numbers, chunk_position="last")
        return ChatGenerationChunk(message=message)
