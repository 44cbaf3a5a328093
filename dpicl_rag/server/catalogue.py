"""The catalogue of a server: corpora by name, one model, a ledger, each caller's memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from dpicl_rag.answering.follow_ups import Turn
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.knowledge import AnswerMemory, Entry
from dpicl_rag.knowledge.answer_file import AnswerFile, MemoryScope, part_of
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.language_models.defaults import is_toy
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.ledger import Ledger, ScopeStatus
from dpicl_rag.mechanisms.private_counts import Histogram
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.prompts import PromptTemplate
from dpicl_rag.results import PrivateAnswer
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.retrievers import as_retriever
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.failures import Refusal
from dpicl_rag.surveys.counts_units import ReadBy
from dpicl_rag.surveys.survey_results import PrivateCount, PrivateSurvey, PrivateTally
from dpicl_rag.surveys.tally_plan import planned_tally

PUBLIC = "public"
"""The model that reads no documents and costs nothing."""


@dataclass(frozen=True)
class Served:
    """A corpus as a model.

    Attributes:
        documents: A ``Corpus``, or a retriever over one.
        settings: Fields of ``PrivacyConfig``.
        template: How documents and questions become prompts.
        counted: All units, for counts and surveys, where ``documents`` is a search for some; else
            None.
    """

    documents: Any
    settings: Mapping[str, Any] = field(default_factory=dict)
    template: PromptTemplate = field(default_factory=PromptTemplate)
    counted: Any = None


@dataclass(frozen=True, slots=True)
class Ask:
    """One question, as far as a server knows it. All of it is public.

    Attributes:
        question: The last turn.
        turns: Those before it.
        system: In place of the template's instruction.
        max_tokens: Most tokens; the corpus's own if None.
        stop: Strings that end the answer.
        fresh: Ask the documents again where the memory has the answer.
    """

    question: str
    turns: tuple[Turn, ...] = ()
    system: str | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    fresh: bool = False

    @property
    def words(self) -> str:
        """The whole conversation, for a model that talks with the caller and asks no documents."""
        if not self.turns:
            return self.question
        return "\n".join(f"{who}: {text}" for who, text in (*self.turns, ("User", self.question)))


@dataclass(frozen=True, slots=True)
class NumbersAsked:
    """What is counted in a corpus. All of it is public.

    Attributes:
        kind: A count, a tally or a survey.
        question: What each unit is asked; None surveys whole units.
        labels: Of a tally.
        most: Labels that one unit says at most.
        sample: With which probability a unit is asked.
        by: What reads the units of a tally or a survey; None leaves it at what they do by default.
        fresh: Count again what the memory has.
    """

    kind: Literal["count", "tally", "survey"]
    question: str | None
    labels: tuple[str, ...] = ()
    most: int = 1
    sample: float = 1.0
    by: ReadBy | None = None
    fresh: bool = False

    def of(
        self, llm: PrivateContextLLM, documents: Any
    ) -> PrivateCount | PrivateTally | PrivateSurvey:
        """Count them."""
        if self.kind == "survey":
            return llm.survey(
                self.question,
                documents,
                by=self.by or "vectors",
                sample=self.sample,
                fresh=self.fresh,
            )
        if not self.question:
            raise ConfigurationError(f"a {self.kind} needs a question")
        if self.kind == "count":
            return llm.count(self.question, documents, sample=self.sample, fresh=self.fresh)
        return llm.tally(
            self.question,
            self.labels,
            documents,
            most=self.most,
            by=self.by or "model",
            sample=self.sample,
            fresh=self.fresh,
        )


class Catalogue:
    """Everything behind the endpoints.

    Args:
        model: Answers; shared by all.
        corpora: By name, which is the name of the model that clients see.
        ledger: Of all corpora and callers.
        memory: File of released answers; None remembers nothing.
        embedder: Of remembered questions; the packaged one if None.
        **options: Arguments of ``PrivateContextLLM``, such as coins for tests.

    Raises:
        ConfigurationError: A corpus has the name of the model that reads no documents.
    """

    def __init__(
        self,
        model: LanguageModel,
        corpora: Mapping[str, Served],
        ledger: Ledger,
        *,
        memory: Path | None = None,
        embedder: Embedder | None = None,
        **options: Any,
    ) -> None:
        if PUBLIC in corpora:
            raise ConfigurationError(
                f"a corpus cannot be served as {PUBLIC!r}, the model that reads no documents; name "
                "those to serve with --corpus"
            )
        self.corpora = dict(corpora)
        self.ledger = ledger
        self._model = model
        self._memory = memory
        self._embedder = embedder or SentenceTransformerEmbedder()
        self._options = options
        self._lock = threading.Lock()
        self._answers: AnswerFile | None = None

    def __repr__(self) -> str:
        return f"Catalogue({sorted(self.corpora)})"

    @property
    def tokenizer(self) -> Tokenizer:
        """Of the model."""
        return self._model.tokenizer

    @property
    def is_toy(self) -> bool:
        """Whether the default model answers, which is for trying the library."""
        return is_toy(self._model)

    def open_to(self, caller: Caller) -> list[str]:
        """Corpora that a caller may ask, by name."""
        return sorted(name for name in self.corpora if caller.may_ask(name))

    def served(self, name: str, caller: Caller) -> Served | None:
        """A corpus; None for the public model.

        Raises:
            Refusal: There is none of this name, as far as this caller may know.
        """
        if name == PUBLIC:
            return None
        if name not in self.corpora or not caller.may_ask(name):
            raise Refusal(
                404,
                "there is no such model here; GET /v1/models lists those you may ask",
                code="model_not_found",
                param="model",
            )
        return self.corpora[name]

    def offer(self, name: str, served: Served) -> None:
        """Serve a corpus from now on, if none of this name is."""
        # Another dictionary: requests may be reading this one.
        self.corpora = {name: served, **self.corpora}

    def stream(
        self, name: str, caller: Caller, asked: Ask, on_progress: Progress | None = None
    ) -> PrivateStream:
        """Begin an answer. What it raises has spent nothing.

        Args:
            name: The corpus, or the model without documents.
            caller: Who asks.
            asked: The question.
            on_progress: As for ``PrivateContextLLM.stream``.
        """
        served = self.served(name, caller)
        llm = self._llm(name, served, caller, asked)
        if served is None:
            return llm.stream(asked.words, [], on_progress=on_progress)
        return llm.stream(
            asked.question,
            served.documents,
            turns=asked.turns,
            fresh=asked.fresh,
            on_progress=on_progress,
        )

    def numbers(
        self, name: str, caller: Caller, asked: NumbersAsked
    ) -> PrivateCount | PrivateTally | PrivateSurvey:
        """Count units. What it raises has spent nothing.

        Args:
            name: The corpus.
            caller: Who asks.
            asked: What is counted.
        """
        served = self.served(name, caller)
        if served is None:
            raise Refusal(400, "the public model reads no documents to count", param="model")
        llm = self._llm(name, served, caller, Ask(asked.question or ""))
        return asked.of(llm, served.documents if served.counted is None else served.counted)

    def answer(self, name: str, stream: PrivateStream) -> PrivateAnswer:
        """The answer of an ended stream, with its guarantee: that of the public model is whole."""
        if name != PUBLIC:
            return stream.answer
        return replace(stream.answer, epsilon=0.0, delta=0.0, rho=0.0, supported=None)

    def memory(self, name: str, caller: Caller) -> AnswerMemory | None:
        """The memory of answers released to a caller before."""
        served = self.served(name, caller)
        if self._memory is None or served is None:
            return None
        return AnswerMemory(
            self._answer_file(self._memory),
            name,
            caller=caller.name,
            key=caller.id,
            embedder=self._embedder,
        )

    def remembered(self, name: str, caller: Caller, most: int) -> list[Entry]:
        """Answers released to this caller of a corpus, the newest first.

        Args:
            name: The corpus.
            caller: Who asks.
            most: How many.
        """
        self.served(name, caller)
        if self._memory is None or not self._memory.exists():  # reading makes no file
            return []
        own = MemoryScope(name, caller.name or "", part_of(None), caller.id or "")
        return self._answer_file(self._memory).newest(own, most)

    def check(self) -> None:
        """See that answers can be paid for and kept.

        Raises:
            LedgerError: The ledger cannot be written, or its file is another one.
            KnowledgeError: The memory cannot be written.
        """
        self.ledger.check()
        if self._memory is not None:
            self._answer_file(self._memory).check()

    def _answer_file(self, path: Path) -> AnswerFile:
        """The file of released answers. It is opened once: that reads all of it, of all callers."""
        with self._lock:
            if self._answers is None:
                self._answers = AnswerFile(path)
            return self._answers

    def budgets(self, name: str, caller: Caller) -> list[ScopeStatus]:
        """The budgets that an answer of this corpus to this caller comes out of. Public."""
        mine = {("corpus", name), ("caller", caller.name)}
        return [one for one in self.ledger.status() if (one.kind, one.name) in mine]

    def has_budget(self, name: str) -> bool:
        """Whether the answers of a corpus are limited."""
        return any(
            (one.kind, one.name) == ("corpus", name) and one.budget is not None
            for one in self.ledger.status()
        )

    def config(self, name: str) -> PrivacyConfig:
        """The settings of a corpus. Public."""
        return PrivacyConfig.create(**self.corpora[name].settings)

    def calls(self, name: str) -> dict[str, int | None] | None:
        """About how many calls of a reader an answer and a count take. Public.

        Returns:
            None without a reader; of one of them None where only the documents tell.
        """
        if self._options.get("reader") is None:
            return None
        config = self.config(name)
        most = config.max_calls or self._options.get("max_calls")
        found = as_retriever(self.corpora[name].documents, units=config.units).aim
        return {"answer": min(found, most) if found and most else found or most, "count": most}

    def price(self, name: str) -> float:
        """Zcdp rho of one answer of a corpus, by the public bound."""
        served = self.corpora[name]
        own = {**self._options, **served.settings, "ledger": self.ledger, "corpus": name}
        return PrivateContextLLM(self._model, **own).plan(served.documents).rho

    def count_plan(self, name: str) -> Plan[Histogram]:
        """The plan of a count of a corpus. Public."""
        most = (self.calls(name) or {}).get("count")
        config = PrivacyConfig.create(**{**self.corpora[name].settings, "max_calls": most})
        return planned_tally(config, 1, read=most is not None)

    def _llm(
        self, name: str, served: Served | None, caller: Caller, asked: Ask
    ) -> PrivateContextLLM:
        # No document is read: there is nothing to charge, to confirm, or for a reader to do.
        own: dict[str, Any] = {"unsupported": "ignore"}
        own |= {"reader": None, "max_calls": None, "polish": False}
        template, settings = PromptTemplate(), {}
        if served is not None:
            own = {"ledger": self.ledger, "corpus": name, "caller": caller.name}
            own["knowledge"] = self.memory(name, caller)
            template, settings = served.template, dict(served.settings)
        config = PrivacyConfig.create(**settings)
        if asked.max_tokens is not None:
            settings["max_tokens"] = min(asked.max_tokens, config.max_tokens)
        settings["stop"] = (*config.stop, *asked.stop)
        given = {**self._options, **settings, **own}
        template = template.instructed(asked.system)
        # Clients show the text, and drop what stands beside it.
        return PrivateContextLLM(self._model, template=template, **given).for_strings()

    def close(self) -> None:
        """Close what is open; the ledger last."""
        if self._answers is not None:
            self._answers.close()
        self.ledger.close()
