"""Bridge to LangChain and LlamaIndex: the calls, searches, embedders, refusals and tools of both.

A `PrivateCall` is a question on its way to the documents, at four doors: whole or in pieces, sync
or async. The adapters make one of whatever their framework hands them, and give its answer the
framework's form. Neither library is imported.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, NoReturn, ParamSpec, TypedDict, TypeVar, Unpack, cast

import numpy as np
import numpy.typing as npt

from dpicl_rag.answering.follow_ups import last_question
from dpicl_rag.answering.private_stream import AsyncPrivateStream, PrivateStream
from dpicl_rag.answering.worker_threads import in_steps
from dpicl_rag.configuration import Settings
from dpicl_rag.errors import ConfigurationError, DPICLError
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.readers.reply_cache import ReplyCache
from dpicl_rag.ledger import Ledger
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.prompts import PromptTemplate
from dpicl_rag.requests import CONVERSATION, FIELDS, AnswerFields, Kind, Request, Turn
from dpicl_rag.results import PrivateAnswer
from dpicl_rag.retrieval import UNITS, Documents, Retriever, retriever_over
from dpicl_rag.retrieval.vectors import VectorSource, Where

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class Conversation:
    """A question, with the turns before it and its documents.

    Attributes:
        question: What the documents are searched for. Public, as all the rest but ``documents``.
        documents: Texts that stood in its messages. Private.
        fields: Of the question: the turns before it, and the words of system messages.
    """

    question: str
    documents: Sequence[str] = ()
    fields: AnswerFields = field(default_factory=AnswerFields)

    @classmethod
    def of(
        cls,
        turns: Sequence[Turn],
        system: Iterable[str],
        documents: Iterable[str] = (),
        question: str | None = None,
    ) -> Conversation:
        """Read what was said.

        Args:
            turns: Pairs of speaker and words; see `last_question`.
            system: Instructions.
            documents: Texts. Private.
            question: What is asked after all the turns; None where it is the last of them.
        """
        if question is None:
            question, turns = last_question(turns)
        fields = AnswerFields(turns=tuple(turns), system="\n".join(system) or None)
        return cls(question, list(documents), fields)


class AskedFields(AnswerFields, total=False):
    """Fields of a question as keywords; its kind is told from it where it is left out."""

    kind: Kind | None


@dataclass(frozen=True, slots=True, repr=False)
class PrivateCall:
    """A question on its way to private documents.

    Attributes:
        llm: Answers.
        question: Public text.
        documents: As in ``PrivateContextLLM.answer``. Private.
        fields: Fields of the question; see `Request`.
    """

    llm: PrivateContextLLM
    question: str
    documents: Documents
    fields: AskedFields = field(default_factory=AskedFields)

    def answer(self) -> PrivateAnswer:
        """The whole answer; of what is counted, its text and its numbers."""
        return self.stream().whole()

    async def aanswer(self) -> PrivateAnswer:
        """``answer`` in a worker thread."""
        return await in_steps(self.answer)

    def stream(self) -> PrivateStream:
        """The answer piece by piece."""
        fields: dict[str, Any] = {"kind": None, **self.fields}
        request = Request.in_conversation(question=self.question, **fields)
        return self.llm.begin(request, self.documents)

    def pieces(
        self, shown: Callable[[str, PrivateAnswer | None], Iterable[T]]
    ) -> Generator[T, None, None]:
        """Pieces of the answer in a framework's form. Nothing is reserved before the first.

        Closing the generator ends the answer and refunds what was not released.

        Args:
            shown: Gives a piece its form; last an empty one, with the whole answer.
        """
        with self.stream() as stream:
            for piece in stream:
                yield from shown(piece, None)
            yield from shown("", stream.answer)

    async def apieces(
        self, shown: Callable[[str, PrivateAnswer | None], Iterable[T]]
    ) -> AsyncGenerator[T, None]:
        """``pieces`` with the search and each draw in a worker thread."""
        async with AsyncPrivateStream(self.stream) as stream:
            async for piece in stream:
                for one in shown(piece, None):
                    yield one
            for one in shown("", stream.answer):
                yield one


KEYWORDS = ("kind", *(name for name in FIELDS["answer"] if name not in CONVERSATION))
"""Fields of a question for which frameworks have no place of their own."""


def split_fields(arguments: Mapping[str, Any]) -> tuple[AskedFields, dict[str, Any]]:
    """Fields of a question among the keywords of a framework's call, and the other keywords."""
    others = {name: value for name, value in arguments.items() if name not in KEYWORDS}
    fields = {name: arguments[name] for name in KEYWORDS if arguments.get(name) is not None}
    return cast("AskedFields", fields), others


class LLMArguments(Settings, total=False):
    """Arguments of `PrivateContextLLM` by keyword."""

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


def core_of(given: Any, adapter: type[Any], refusal: str) -> PrivateContextLLM:
    """The private language model that is given, as it is or in an adapter.

    Args:
        given: What stands in its place.
        adapter: A framework's model around one, which has it as ``llm``.
        refusal: What is said of anything else, with ``{}`` for its type.

    Raises:
        ConfigurationError: It is anything else.
    """
    llm = given.llm if isinstance(given, adapter) else given
    if not isinstance(llm, PrivateContextLLM):
        raise ConfigurationError(refusal.format(type(given).__name__))
    return llm


def refuse(unknown: Iterable[str], words: str) -> None:
    """Refuse arguments that would be without effect.

    Args:
        unknown: Their names.
        words: What is said of them.

    Raises:
        ConfigurationError: There are any.
    """
    if names := ", ".join(sorted(unknown)):
        raise ConfigurationError(f"{names}: {words}")


_FROM_SCORES = "would be drawn token by token from private scores"


def refuse_structure(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse structured output.

    Raises:
        ConfigurationError: Always.
    """
    raise ConfigurationError(f"a private model gives no structured output: {NO_STRUCTURE}")


NO_STRUCTURE = (
    f"structure {_FROM_SCORES}; choose among labels with PrivateContextLLM.classify, or let a "
    "public model put the answer into a structure"
)


def refuse_tools(tool: str) -> NoReturn:
    """Refuse calls of tools.

    Args:
        tool: Expression for the tool that a public model may have.

    Raises:
        ConfigurationError: Always.
    """
    raise ConfigurationError(
        f"a private model calls no tools, as each call {_FROM_SCORES}; give a public model the "
        f"tool {tool}"
    )


class SearchOptions(TypedDict, total=False):
    """Options of a search, as keywords; None is as if left out.

    Attributes:
        unit_field: Metadata field of a store that holds the privacy unit.
        threshold: The least cosine of a unit with the question.
        top_k: The most units, in place of a threshold.
        where: Filter on metadata. Public.
    """

    unit_field: str | None
    threshold: float | None
    top_k: int | None
    where: Where | None


def private_search(
    source: Any,
    vectors_of: Callable[[Any, str | None], VectorSource],
    units: int = UNITS,
    **options: Unpack[SearchOptions],
) -> Retriever:
    """A retriever with a known stability over what a user of a framework has.

    Args:
        source: A retriever of this library, a corpus, or a framework's store.
        vectors_of: Reads the store's vectors by the field of the privacy unit.
        units: How many of the closest units are aimed for without threshold and top_k.
        **options: Of the search.

    Raises:
        ConfigurationError: The settings do not fit the source, or it is refused.
    """
    chosen: dict[str, Any] = {name: one for name, one in options.items() if one is not None}
    if isinstance(source, Retriever):
        if chosen:
            raise ConfigurationError(
                "leave out privacy_unit, unit_field, threshold, top_k and where: they belong to "
                "the retriever that is given"
            )
        return source
    unit_field = chosen.pop("unit_field", None)
    if not isinstance(source, VectorSource):
        source = vectors_of(source, unit_field)
    elif unit_field is not None:
        raise ConfigurationError("leave out privacy_unit and unit_field: a corpus knows its units")
    return retriever_over(source, units=units, **chosen)


class FrameworkEmbedder:
    """The embedding model of a framework as an embedder; one text at a time: texts stay apart.

    Args:
        fingerprint: Name of the model.
        embed_question: Embeds a question.
        embed_passage: Embeds a passage; None where the framework would show it.
    """

    def __init__(
        self,
        fingerprint: str,
        embed_question: Callable[[str], Sequence[float]],
        embed_passage: Callable[[str], Sequence[float]] | None = None,
    ) -> None:
        self.fingerprint = fingerprint
        self._embed_question = embed_question
        self._embed_passage = embed_passage

    def __repr__(self) -> str:
        return f"FrameworkEmbedder({self.fingerprint!r})"

    def embed(self, texts: Sequence[str], *, query: bool = False) -> npt.NDArray[np.float32]:
        """Embed texts, float32, one row for each.

        Raises:
            ConfigurationError: They are passages, which the framework would show.
        """
        embed = self._embed_question if query else self._embed_passage
        if embed is None:
            raise ConfigurationError("an index embeds its own nodes; insert them into the index")
        return np.asarray([embed(text) for text in texts], dtype=np.float32)


ExactKind = tuple[str, str, Callable[..., VectorSource]]
"""A store whose search can be exact: its module, its class, and what makes its vectors' source."""


def exact_kind(store: Any, kinds: Iterable[ExactKind]) -> ExactKind | None:
    """The kind of a store, or None where it is of none."""
    for kind in kinds:
        # Nobody has a store of a package that was not imported.
        found = getattr(sys.modules.get(kind[0]), kind[1], None)
        if found is not None and isinstance(store, found):
            return kind
    return None


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A function for agents, which choose by its description: a fact is asked, a number is counted.

    Attributes:
        name: For the agent. Public.
        description: For the agent. Public.
        call: Returns text.
    """

    name: str
    description: str
    call: Callable[..., str]

    async def acall(self, *args: Any, **kwargs: Any) -> str:
        """``call`` in a worker thread."""
        return await in_steps(self.call, *args, **kwargs)


def counting_tools(llm: PrivateContextLLM, documents: Documents) -> list[AgentTool]:
    """Functions that count private documents.

    Each returns the text of a result. An error of this library is said in its place: what is wrong
    with a call, a budget that is used up, an engine that does not answer.

    Args:
        llm: Counts, and pays from its ledger.
        documents: As in `PrivateContextLLM.count`; a survey needs a corpus, a collection or a list.
    """

    def count(question: str) -> str:
        return llm.count(question, documents).text

    def tally(question: str, labels: list[str]) -> str:
        return llm.tally(question, labels, documents).text

    def survey(question: str | None = None) -> str:
        return llm.survey(question, documents).text

    return [
        AgentTool(
            "count_private_documents",
            "Counts how many private documents say yes to a question that each answers with yes or "
            "no, with an interval. Not for facts.",
            _told(count),
        ),
        AgentTool(
            "tally_private_documents",
            "Counts how many private documents say each of several given labels to a question, "
            "with intervals. Not for facts.",
            _told(tally),
        ),
        AgentTool(
            "survey_private_documents",
            "Tells what private documents are about: themes, and how many documents are of each. "
            "With a question, what they say to it. Not for facts.",
            _told(survey),
        ),
    ]


def _told(function: Callable[P, str]) -> Callable[P, str]:
    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> str:
        try:
            return function(*args, **kwargs)
        except DPICLError as error:
            return str(error)

    return call
