"""The base of the text model and the chat model: sealed documents, settled streams, no cache."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, closing
from typing import Any, NoReturn, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.base import (
    BaseLanguageModel,
    LangSmithParams,
    LanguageModelInput,
)
from langchain_core.runnables import RunnableConfig
from pydantic import Field, field_validator

from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.answering.worker_threads import in_thread
from dpicl_rag.configuration import TEMPLATE, Settings
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.readers.reply_cache import ReplyCache
from dpicl_rag.ledger import Ledger
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.prompts import PromptTemplate
from dpicl_rag.results import PrivateAnswer
from dpicl_rag.retrieval import Documents
from langchain_dpicl_rag.conversations import Conversation
from langchain_dpicl_rag.sealed_documents import (
    DOCUMENTS,
    FRESH,
    SealedCall,
    SealedDocuments,
    documents_of,
)


class LLMArguments(Settings, total=False):
    """Arguments of ``dpicl_rag.PrivateContextLLM`` by keyword."""

    model: Any
    reader: Any
    reply_cache: ReplyCache | None
    template: PromptTemplate | None
    ledger: Ledger | None
    corpus: str | None
    caller: str | None
    knowledge: Any
    prefix_cache: PrefixCache | None
    randomness: Randomness | None


class PrivateModel(BaseLanguageModel[Any]):
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

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        config = self.llm.config
        params = super()._get_ls_params(stop=[*config.stop, *(stop or ())], **kwargs)
        params.setdefault("ls_model_name", self.llm.model.fingerprint)
        params.update({"ls_provider": "dpicl-rag", "ls_max_tokens": config.max_tokens})
        return params

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
        raise ConfigurationError(
            "a private model gives no structured output, which would be drawn token by token from "
            "private scores; choose among labels with PrivateContextLLM.classify, or let a public "
            "model put the answer into a structure"
        )

    def stream(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> Iterator[Any]:
        """Stream the answer; closing early pays for what was released and no more."""
        with closing(SealedCall.of(kwargs)) as call:
            yield from super().stream(input, config, stop=stop, **{**kwargs, DOCUMENTS: call})

    async def astream(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
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
        stop: list[str] | None = None,
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
        stop: list[str] | None = None,
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

    def _answer(
        self, prompt: Any, stop: list[str] | None, arguments: dict[str, Any]
    ) -> PrivateAnswer:
        llm, asked, documents = self._ask(prompt, stop, arguments)
        fresh = bool(arguments.get(FRESH))
        return llm.answer(asked.question, documents, turns=asked.turns, fresh=fresh)

    def _draw(
        self, prompt: Any, stop: list[str] | None, arguments: dict[str, Any], call: SealedCall
    ) -> PrivateStream:
        llm, asked, documents = self._ask(prompt, stop, arguments)
        fresh = bool(arguments.get(FRESH))
        call.stream = llm.stream(asked.question, documents, turns=asked.turns, fresh=fresh)
        return call.stream

    def _ask(
        self, prompt: Any, stop: list[str] | None, arguments: dict[str, Any]
    ) -> tuple[PrivateContextLLM, Conversation, Documents]:
        """The model of one call, what it is asked, and its documents."""
        asked = self._read(prompt)
        documents = documents_of(arguments, asked.documents, allow_public=self.allow_public)
        llm, stops = self.llm.for_strings(), (*self.llm.config.stop, *(stop or ()))
        return (
            llm.with_settings(template=llm.template.instructed(asked.system), stop=stops),
            asked,
            documents,
        )


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
    llm = given.llm if isinstance(given, PrivateModel) else given
    if not isinstance(llm, PrivateContextLLM):
        raise ConfigurationError(
            f"llm must be a dpicl_rag.PrivateContextLLM, not {type(given).__name__}"
        )
    if settings:
        raise ConfigurationError(
            f"{', '.join(sorted(settings))}: settings belong to the llm that is given"
            + (f"; there {TEMPLATE}" if "prompt" in settings else "")
        )
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
