"""The service of a server: corpora by name, one model, a ledger, each caller's memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from dpicl_rag.accounting import rho_to_epsilon
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.knowledge import AnswerMemory, Bundle, Entry
from dpicl_rag.knowledge.answer_file import AnswerFile, MemoryScope, part_of
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.language_models.defaults import is_toy
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.ledger import Ledger, ScopeStatus
from dpicl_rag.ledger.budgets import delta_of_rho, standing
from dpicl_rag.ledger.fixed_point import affordable
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.prompts import PromptTemplate
from dpicl_rag.requests import Kind, Request
from dpicl_rag.results import PrivateAnswer
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.failures import Refusal
from dpicl_rag.surveys.releases import COUNTING
from dpicl_rag.surveys.remembered_counts import published_count
from dpicl_rag.surveys.survey_results import ReleasedNumbers

PUBLIC = "public"
"""The model that reads no documents and costs nothing."""


@dataclass(frozen=True)
class ServedCorpus:
    """A corpus as a model.

    Attributes:
        documents: A ``Corpus``, or a retriever over one.
        settings: Fields of ``PrivacyConfig``.
        template: How documents and questions become prompts.
        counted: All units, for counts and surveys, where ``documents`` is a search for some; else
            None.
        published: A bundle that is read first, for nothing. Where ``documents`` is one itself,
            there is nothing else to ask.
    """

    documents: Any
    settings: Mapping[str, Any] = field(default_factory=dict)
    template: PromptTemplate = field(default_factory=PromptTemplate)
    counted: Any = None
    published: Bundle | None = None

    @property
    def all_units(self) -> Any:
        """Units that are counted and surveyed."""
        return self.documents if self.counted is None else self.counted

    def for_kind(self, kind: Kind | None) -> Any:
        """What a request of a kind is about."""
        return self.all_units if kind in COUNTING else self.documents


class Service:
    """Private answers from several corpora, to several callers: what HTTP and agents' tools share.

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
        corpora: Mapping[str, ServedCorpus],
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
        return f"Service({sorted(self.corpora)})"

    @property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer of the model."""
        return self._model.tokenizer

    @property
    def is_toy(self) -> bool:
        """True where the default model answers, which is for trying the library."""
        return is_toy(self._model)

    def open_to(self, caller: Caller) -> list[str]:
        """Corpora that a caller may ask, by name."""
        return sorted(name for name in self.corpora if caller.may_ask(name))

    def corpus(self, name: str, caller: Caller) -> ServedCorpus | None:
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

    def counted_corpus(self, name: str, caller: Caller) -> ServedCorpus:
        """A corpus whose units may be counted.

        Raises:
            Refusal: It is the public model, or there is none of this name, as in ``corpus``.
        """
        served = self.corpus(name, caller)
        if served is None:
            raise Refusal(400, "the public model reads no documents to count", param="model")
        return served

    def offer(self, name: str, served: ServedCorpus) -> None:
        """Serve a corpus from now on, if none of this name is."""
        # Another dictionary: requests may be reading this one.
        self.corpora = {name: served, **self.corpora}

    def stream(
        self, name: str, caller: Caller, request: Request, on_progress: Progress | None = None
    ) -> PrivateStream:
        """Begin an answer. What it raises has spent nothing.

        Args:
            name: The corpus, or the model without documents.
            caller: Who asks.
            request: The question.
            on_progress: As for ``PrivateContextLLM.stream``.

        Raises:
            Refusal: It is a chat client's own task, asked of documents.
        """
        served = self.corpus(name, caller)
        if served is None:
            whole = {"kind": "answer", "question": _conversation(request), "turns": ()}
            request = request.model_copy(update=whole)
        elif _is_clients_task(request.question):
            raise Refusal(
                400,
                "this is a client's task about a chat, such as its title or tags, and would be "
                f"paid for as a question; give the client the model {PUBLIC!r} for its tasks",
                code="client_task",
                param="messages",
            )
        llm = self._llm(name, served, caller)
        request = llm.settled(request)
        documents = [] if served is None else served.for_kind(request.kind)
        return llm.begin(request, documents, on_progress=on_progress)

    def run(self, name: str, caller: Caller, request: Request) -> ReleasedNumbers:
        """Count units. What it raises has spent nothing."""
        served = self.counted_corpus(name, caller)
        if isinstance(served.documents, Bundle):
            if (bought := published_count(served.documents, request.settled())) is None:
                raise Refusal(404, "this was not published, and no documents are here to ask")
            return bought
        found = self._llm(name, served, caller).run(request, served.all_units)
        return cast("ReleasedNumbers", found)

    def answer(self, name: str, stream: PrivateStream) -> PrivateAnswer:
        """The answer of an ended stream, with its guarantee: that of the public model is whole."""
        if name != PUBLIC:
            return stream.answer
        return replace(stream.answer, epsilon=0.0, delta=0.0, rho=0.0, supported=None)

    def memory(self, name: str, caller: Caller) -> AnswerMemory | None:
        """The memory of answers released to a caller before."""
        served = self.corpus(name, caller)
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
        """Answers released to this caller of a corpus, the newest first."""
        self.corpus(name, caller)
        if self._memory is None or not self._memory.exists():  # reading makes no file
            return []
        own = MemoryScope(name, caller.name or "", part_of(None), caller.id or "")
        return self._answer_file(self._memory).newest(own, most)

    def publisher(self, name: str, caller: Caller) -> tuple[PrivateContextLLM, Any]:
        """What publishes a corpus, and its units; a Refusal where a bundle is all that there is."""
        served = self.counted_corpus(name, caller)
        if isinstance(served.documents, Bundle):
            raise Refusal(400, "no documents are here to publish", param="corpus")
        return self._llm(name, served, caller), served.all_units

    def check(self) -> None:
        """Check that answers can be paid for and kept.

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

    def budget(self, name: str, caller: Caller) -> dict[str, Any]:
        """Budgets that an answer comes out of, and how many answers they pay for. Public."""
        config, plan = self.config(name), self.plan(name, Request.of("answer"))
        free = plan.rho == 0
        scopes = [
            {**_scope_view(one, config.delta, plan.rho), **_answers_of(one, plan.rho)}
            for one in (() if free else self.budgets(name, caller))
        ]
        left = [one["answers_left"] for one in scopes if one["answers_left"] is not None]
        return {
            "model": name,
            "epsilon": 0.0 if free else config.epsilon,
            "delta": 0.0 if free else config.delta,
            "answers_left": min(left, default=None),
            "calls": self._calls(config, plan),
            "scopes": scopes,
        }

    def _calls(self, config: PrivacyConfig, plan: Plan[Any]) -> dict[str, int | None] | None:
        """About how many calls of a reader an answer and a count take; None without a reader.

        One of them is None where only the documents tell.
        """
        if self._options.get("reader") is None:
            return None
        return {
            "answer": plan.calls,
            "count": config.max_calls or self._options.get("max_calls"),
        }

    def owned_budget(self, one: ScopeStatus, delta: float) -> dict[str, Any]:
        """A budget as owners see it: a caller's pays for answers of the most expensive corpus."""
        names = [one.name] if one.kind == "corpus" else list(self.corpora)
        unknown = PrivacyConfig.create(delta=delta).rho(booked=True)
        return _scope_view(one, delta, max(map(self.price, names), default=0.0) or unknown)

    def config(self, name: str) -> PrivacyConfig:
        """The settings of a corpus. Public."""
        return PrivacyConfig.create(**self.corpora[name].settings)

    def plan(self, name: str, request: Request) -> Plan[Any]:
        """Plan of a request to a corpus: its price by the public bound."""
        served = self.corpora[name]
        own = {**self._options, **served.settings, "ledger": self.ledger, "corpus": name}
        llm = PrivateContextLLM(self._model, **own)
        request = llm.settled(request)
        if isinstance(served.documents, Bundle):
            plan = llm.plan([], request)
            return replace(plan, epsilon=0.0, delta=0.0, rho=0.0, parts=(), calls=None)
        return llm.plan(served.for_kind(request.kind), request)

    def price(self, name: str) -> float:
        """Zcdp rho of one answer of a corpus, by the public bound."""
        return self.plan(name, Request.of("answer")).rho

    def _llm(self, name: str, served: ServedCorpus | None, caller: Caller) -> PrivateContextLLM:
        # No document is read: there is nothing to charge, to confirm, or for a reader to do.
        own: dict[str, Any] = {"unsupported": "ignore"}
        own |= {"reader": None, "max_calls": None, "polish": False}
        template, settings = PromptTemplate(), {}
        if served is not None:
            own = {"ledger": self.ledger, "corpus": name, "caller": caller.name}
            known = (self.memory(name, caller), served.published)
            own["knowledge"] = [one for one in known if one is not None]
            template, settings = served.template, dict(served.settings)
        given = {**self._options, **settings, **own}
        # Clients show the text, and drop what stands beside it.
        return PrivateContextLLM(self._model, template=template, **given).for_strings()

    def close(self) -> None:
        """Close what is open; the ledger last."""
        if self._answers is not None:
            self._answers.close()
        self.ledger.close()


def _is_clients_task(question: str | None) -> bool:
    """True of how Open WebUI asks for titles, tags, follow-ups and completions of a chat."""
    text = question or ""
    return text.lstrip().startswith("### Task:") and "<chat_history>" in text


def _conversation(request: Request) -> str:
    """The whole of it, for a model that talks with the caller and asks no documents."""
    if not request.turns:
        return request.asked()
    turns = (*request.turns, ("User", request.asked()))
    return "\n".join(f"{who}: {text}" for who, text in turns)


def _scope_view(one: ScopeStatus, delta: float, price: float) -> dict[str, Any]:
    """One budget. All of it is public; see ``ScopeStatus``.

    Args:
        one: The budget.
        delta: At which epsilon is given.
        price: Zcdp rho of the answers that it is to pay for.
    """
    rest = delta_of_rho(one, delta)
    return {
        "kind": one.kind,
        "name": one.name,
        "budget_rho": one.budget,
        "budget_epsilon": _epsilon(one, one.budget, rest),
        "spent_rho": one.spent,
        "spent_epsilon": _epsilon(one, one.spent, rest),
        "remaining_rho": one.unit_remaining,
        "remaining_epsilon": _epsilon(one, one.unit_remaining, rest),
        "delta": delta,
        "period": one.period.value,
        "renews_on": None if one.renews_on is None else one.renews_on.isoformat(),
        "strict": one.strict,
        "gaussian": one.gaussian,
        "threshold_answers": one.answers,
        "standing": standing(one, price, delta),
    }


def _answers_of(one: ScopeStatus, price: float) -> dict[str, Any]:
    """Answers that a budget pays for in a period and from now on, by the public bound."""
    budget = one.budget if one.unit_budget is None else one.unit_budget
    left = affordable(one.unit_remaining, price)
    return {"answers": affordable(budget, price), "answers_left": left}


def _epsilon(one: ScopeStatus, rho: float | None, delta: float) -> float | None:
    return None if rho is None else rho_to_epsilon(rho, delta, gaussian=one.gaussian)
