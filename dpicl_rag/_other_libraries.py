"""A private language model in other libraries: its adapters, and errors in a model's place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from dpicl_rag._packaged import optional
from dpicl_rag.errors import ConfigurationError

LLAMA_INDEX = (
    "in LlamaIndex take llm.as_query_engine(index) in the place of index.as_query_engine(llm=llm), "
    "and llm.as_chat_engine(index) in the place of index.as_chat_engine(llm=llm)"
)
"""Ways to use a private language model in both libraries."""

_ASKED = f"it is asked with answer(question, documents); {LLAMA_INDEX}; in LangChain as_langchain()"


class NoOrdinaryModel:
    """Base of what takes documents beside its prompt, and so fits no library's model class.

    Apps try it there all the same. Their libraries look at attributes that it lacks, or assert
    something without a word.
    """

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        # Of a model LlamaIndex first asks whether it is the word "default". What comes next is an
        # assertion that says nothing.
        if isinstance(other, str) and other == "default":
            raise ConfigurationError(
                f"a PrivateContextLLM is no LLM of LlamaIndex, which would put documents into a "
                f"prompt, where nothing protects them: {LLAMA_INDEX}"
            )
        return self is other

    def as_langchain(self) -> Any:
        """This model as a text model of LangChain: ``langchain_dpicl_rag.PrivateLLM``.

        Raises:
            MissingDependencyError: LangChain is not installed.
        """
        return optional("langchain_dpicl_rag", "langchain-dpicl-rag", "LangChain").PrivateLLM(self)

    def as_query_engine(self, retriever: Any, **options: Any) -> Any:
        """A LlamaIndex query engine that answers with this model.

        Args:
            retriever: A retriever of this library, or a ``VectorStoreIndex``.
            **options: See ``llama_index_dpicl_rag.PrivateQueryEngine``.

        Raises:
            ConfigurationError: An option is unknown, or as in ``PrivateQueryEngine``.
            MissingDependencyError: LlamaIndex is not installed.
        """
        return self._engine("PrivateQueryEngine", retriever, options)

    def as_chat_engine(self, retriever: Any, **options: Any) -> Any:
        """A LlamaIndex chat engine that answers with this model.

        Arguments and errors as of ``as_query_engine``; options as of ``PrivateChatEngine``.
        """
        return self._engine("PrivateChatEngine", retriever, options)

    def _engine(self, name: str, retriever: Any, options: dict[str, Any]) -> Any:
        if "llm" in options:
            raise ConfigurationError("leave llm out: this model answers, and no other")
        adapter = optional("llama_index_dpicl_rag", "llama-index-dpicl-rag", "LlamaIndex")
        return getattr(adapter, name)(self, retriever, **options)

    if not TYPE_CHECKING:  # a checker shall go on to find attributes that are not there

        def __getattr__(self, name: str) -> NoReturn:
            words = f"a {type(self).__name__} has no attribute {name!r}"
            raise AttributeError(
                words if name.startswith("_") else f"{words}: {_ASKED}", name=name, obj=self
            )
