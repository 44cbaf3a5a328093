"""Errors where a private language model is put in the place of another library's model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from dpicl_rag.errors import ConfigurationError

LLAMA_INDEX = (
    "in LlamaIndex take llm.as_query_engine(index) in the place of index.as_query_engine(llm=llm), "
    "and for a chat CondenseQuestionChatEngine.from_defaults(llm.as_query_engine(index), "
    "llm=<a public model>)"
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

    if not TYPE_CHECKING:  # a checker shall go on to find attributes that are not there

        def __getattr__(self, name: str) -> NoReturn:
            words = f"a {type(self).__name__} has no attribute {name!r}"
            raise AttributeError(
                words if name.startswith("_") else f"{words}: {_ASKED}", name=name, obj=self
            )
