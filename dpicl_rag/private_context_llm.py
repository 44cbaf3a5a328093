"""PrivateContextLLM: private answers from documents. The one place that sees text and budget."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from dpicl_rag._other_libraries import NoOrdinaryModel
from dpicl_rag.answering.canonical_form import CanonicalForm, canonical_form
from dpicl_rag.answering.experts import one_each, read_ahead
from dpicl_rag.answering.follow_ups import whole_question
from dpicl_rag.answering.labels import draw_label
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_run import NO_CORPUS, PrivateRun
from dpicl_rag.answering.private_stream import AsyncPrivateStream, PrivateStream
from dpicl_rag.answering.worker_threads import in_worker
from dpicl_rag.configuration import PrivacyConfig, Settings
from dpicl_rag.documents import Document, group_by_unit
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.knowledge.bundle import Bundle
from dpicl_rag.knowledge.public_knowledge import as_knowledge
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.language_models.load_language_model import load_language_model
from dpicl_rag.language_models.readers.no_writer import NoWriter
from dpicl_rag.ledger.account import AroundPayment
from dpicl_rag.ledger.budgets import least_remaining
from dpicl_rag.loaders.framework_documents import FrameworkDocument
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.prompts import PromptTemplate
from dpicl_rag.rehearsal import Rehearsal, rehearsal_of
from dpicl_rag.requests import AnswerFields, Request, Turn
from dpicl_rag.results import PrivateAnswer, PrivateLabel
from dpicl_rag.retrieval.retrievers import Documents, GivenDocuments, corpus_name_of
from dpicl_rag.surveys.counts_units import CountsUnits
from dpicl_rag.surveys.releases import Result, begin, planned, release, settled
from dpicl_rag.synthesis.label_head import LabelHead, published_label

if TYPE_CHECKING:
    from dpicl_rag.language_models.prefix_cache import PrefixCache
    from dpicl_rag.language_models.readers.base import Reader
    from dpicl_rag.language_models.readers.reply_cache import ReplyCache
    from dpicl_rag.ledger import Ledger


class PrivateContextLLM(CountsUnits, NoOrdinaryModel):
    """Answers questions from private documents with a differential privacy guarantee.

    Every answer is (epsilon, delta)-DP for every privacy unit, whatever else is in the corpus.

    Args:
        model: A Hugging Face id, ``small``, ``medium`` or ``large`` (docs/models.md), a local
            folder, the address of a server (``openai+http://127.0.0.1:8000/v1#model``, see
            docs/engines.md), a loaded ``(model, tokenizer)`` pair, an object with the
            ``LanguageModel`` protocol, or None for the default, which is a toy.
        template: How documents and questions become prompts.
        ledger: Keeps the budgets over many answers; None accounts for each answer alone.
        corpus: Name under which the ledger books the answers. By default that of the retriever's
            corpus, and ``"default"`` for lists.
        caller: Who asks, for the ledger's budgets per caller.
        knowledge: What is public and may be near to a question: an ``AnswerMemory``, a ``Corpus``
            that was made public, a retriever of LangChain or LlamaIndex over public text, or a
            list of these. The public row reads it, so that documents pay for what is news only.
        prefix_cache: Where documents that were read are kept for later questions, for models of
            transformers; by default up to 1 GiB of memory, and nothing on disk.
        reader: A chat model that reads: each call sees one unit, and its reply stands in the unit's
            place. A chat model of LangChain or LlamaIndex, an address such as
            ``chat+http://127.0.0.1:11434/v1#llama3.2``, or a function from prompt to reply
            (docs/readers.md). With ``agreement="only"`` and no ``model`` nothing else is needed.
        reply_cache: Where a reader's replies are kept for the same question to come; by default in
            memory, for a day.
        form: Canonical form of sentences by agreement, see ``CanonicalForm``. Public.
        randomness: Where the coins come from; by default the operating system's generator, or the
            setting ``seed``.
        **settings: Fields of ``PrivacyConfig``: ``epsilon``, ``delta``, ``utility``,
            ``accounting``, ``max_tokens``, ``privacy_unit`` and the others.

    Raises:
        ConfigurationError: A setting is unknown, outside its range, or contradicts another.
        ModelError: The model cannot be loaded.
    """

    def __init__(
        self,
        model: str | Path | tuple[Any, Any] | LanguageModel | None = None,
        *,
        template: PromptTemplate | None = None,
        ledger: Ledger | None = None,
        corpus: str | None = None,
        caller: str | None = None,
        knowledge: Any = None,
        prefix_cache: PrefixCache | None = None,
        reader: Any = None,
        reply_cache: ReplyCache | None = None,
        form: CanonicalForm = canonical_form,
        randomness: Randomness | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        self.config = PrivacyConfig.create(**settings)
        self.template = template or PromptTemplate()
        self._ledger = ledger
        self._corpus = corpus
        self._caller = caller
        self._paying: AroundPayment = nullcontext
        self._form = form
        self._knowledge = as_knowledge(knowledge)
        if self._knowledge.memory is not None:
            self._knowledge.memory.require_caller(caller)
        if randomness is not None and self.config.seed is not None:
            raise ConfigurationError("give a seed or randomness, not both")
        self._randomness = randomness or Randomness.of(self.config.seed)
        self.reader: Reader | None = None
        if reader is not None:
            from dpicl_rag.language_models.readers.as_reader import as_reader

            self.reader = as_reader(reader, reply_cache)
        self.config.require_reader(reader)
        if model is None and self.reader is not None and self.config.agreement == "only":
            model = NoWriter()
        self.model = load_language_model(model, prefix_cache)

    def __repr__(self) -> str:
        return f"PrivateContextLLM(epsilon={self.config.epsilon}, delta={self.config.delta})"

    def with_settings(
        self,
        *,
        template: PromptTemplate | None = None,
        reader: Any = None,
        **settings: Unpack[Settings],
    ) -> PrivateContextLLM:
        """The same model, ledger and coins with other public settings.

        Args:
            template: In place of the present one.
            reader: In place of the present one.
            **settings: Fields of ``PrivacyConfig``; the others stay.

        Raises:
            ConfigurationError: As in the constructor, and for ``seed``, which belongs there.
        """
        if "seed" in settings:
            raise ConfigurationError("a seed is given where the model is made")
        other = copy.copy(self)
        # Which settings were made, and which are defaults, stays known: see `for_strings`.
        made = self.config.model_dump(exclude_unset=True)
        other.config = PrivacyConfig.create(**{**made, **settings})
        other.template = template or self.template
        if reader is not None:
            from dpicl_rag.language_models.readers.as_reader import as_reader

            other.reader = as_reader(reader)
        other.config.require_reader(other.reader)
        return other

    @property
    def is_booked(self) -> bool:
        """Whether a ledger books what it releases. Public."""
        return self._ledger is not None

    def booked_in(self, ledger: Ledger | None, paying: AroundPayment = nullcontext) -> Self:
        """The same with a ledger, where it has none, and what is entered around each payment."""
        other = copy.copy(self)
        other._ledger, other._paying = self._ledger or ledger, paying
        return other

    def booked_under(self, documents: Documents) -> str:
        """The name under which a ledger books releases from documents. Public."""
        return self._corpus or corpus_name_of(documents) or NO_CORPUS

    def for_strings(self) -> PrivateContextLLM:
        """The same for callers that pass on nothing but the text of an answer.

        A bare string does not say whether documents support it. So one that they do not support is
        replaced by a fixed sentence (``unsupported="refuse"``), unless that setting was made.
        """
        if "unsupported" in self.config.model_fields_set:
            return self
        return self.with_settings(unsupported="refuse")

    def run(
        self, request: Request, documents: Documents, *, on_progress: Progress | None = None
    ) -> Result:
        """Ask for an answer, a label, a count, a tally, a survey or a summary.

        Args:
            request: Public; see `Request`. One without a kind is of that which its question tells.
            documents: As in ``answer``.
            on_progress: Called with the part of the documents that is read, 0 to 1.

        Raises:
            DPICLError: As in the method that its kind names.
        """
        return release(request, documents, self._run(request, on_progress))

    def settled(self, request: Request) -> Request:
        """A request with its kind, which its whole question tells where it was left out; free.

        Raises:
            ConfigurationError: A field does not fit the kind.
            EngineUnavailableError: A follow-up is to be put into whole words, by nobody.
        """
        return settled(request, (), self._run(request))[0]

    def begin(
        self, request: Request, documents: Documents, *, on_progress: Progress | None = None
    ) -> PrivateStream:
        """Begin an answer to a request; see ``stream``. What is counted comes whole."""
        return begin(request, documents, self._run(request, on_progress))

    def answer(
        self,
        question: str,
        documents: Documents,
        *,
        on_progress: Progress | None = None,
        **asking: Unpack[AnswerFields],
    ) -> PrivateAnswer:
        """Answer a question from documents.

        A greeting, thanks or a goodbye is no question: the public model replies, no document is
        asked, and nothing is spent (``by="public"``).

        An engine that stops answering ends the answer (``stopped_by="unavailable"``), also before
        its first token; what was released is paid for, and the rest refunded.

        Args:
            question: Public text.
            documents: Private documents, strings, documents of LangChain or LlamaIndex (the setting
                ``privacy_unit`` names the metadata field of their unit), or a retriever. None at
                all gives the public model's answer by the same path.
            on_progress: Called with the part of the documents that is read, 0 to 1.
            **asking: Fields of `Request`: ``turns``, the conversation before the question, as pairs
                of speaker and words (a question that leans on it is put into whole words first:
                ``answer.question``); ``fresh``, to ask the documents again where the memory has the
                answer to the same question; ``system``, ``max_tokens`` and ``stop``.

        Raises:
            BudgetExceededError: A budget of the ledger cannot pay for the first token.
            DeltaSpentError: Nor for thresholds, with ``agreement="only"``.
            ConfigurationError: The settings do not fit the retriever, or the question is too long,
                or the memory is that of another corpus.
            EngineUnavailableError: The engine does not answer before the documents are searched;
                nothing is spent. Or the reader does not after that; the search is paid.
            KnowledgeError: Public knowledge cannot be read. Nothing is spent.
            MissingDocumentsError: ``documents`` is None.
        """
        return self.stream(question, documents, on_progress=on_progress, **asking).whole()

    def stream(
        self,
        question: str,
        documents: Documents,
        *,
        on_progress: Progress | None = None,
        **asking: Unpack[AnswerFields],
    ) -> PrivateStream:
        """Answer a question piece by piece; see ``answer`` for arguments and errors.

        Returns:
            An iterator over pieces of text, sync and async; its ``answer`` holds the whole when it
            has ended.
        """
        request = Request.of("answer", question=question, **asking)
        return self.begin(request, documents, on_progress=on_progress)

    aanswer = in_worker(answer)

    def astream(
        self,
        question: str,
        documents: Documents,
        *,
        on_progress: Progress | None = None,
        **asking: Unpack[AnswerFields],
    ) -> AsyncPrivateStream:
        """``stream`` with the search and each draw in a worker thread; begins when it is read."""
        ask = partial(self.stream, on_progress=on_progress, **asking)
        return AsyncPrivateStream(lambda: ask(question, documents))

    def classify(
        self,
        question: str,
        documents: Documents | LabelHead | Bundle,
        labels: Sequence[str] = (),
        *,
        method: str | None = None,
        on_progress: Progress | None = None,
    ) -> PrivateLabel:
        """Choose one of several labels in one draw.

        It is purely epsilon-DP (delta 0), but for ``votes-gaussian`` and after a priced search.

        Args:
            question: Public text.
            documents: As in ``answer``; or a released label head, or a bundle that has one: then
                the question is the text that gets a label, for nothing.
            labels: At least two; each may be several tokens long. A label head has its own.
            method: A published method by name (``dpicl_rag.methods``), charged the same for every
                unit: ``poe``, ``poe-prior`` (for questions that bring the text to be labelled),
                ``votes``, ``votes-gaussian`` ((epsilon, delta)-DP), ``permute-and-flip`` or
                ``permute-and-flip-votes``. None takes the ``utility`` and ``accounting`` of the
                settings.
            on_progress: Called with the part of the documents that is read, 0 to 1.

        Raises:
            ConfigurationError: The labels cannot be distinguished, or as in ``answer``.
            BudgetExceededError: A budget of the ledger cannot pay.
            EngineUnavailableError: The engine does not answer. No label is paid for; a priced
                search is, where it was done.
            MissingDocumentsError: ``documents`` is None.
        """
        if isinstance(documents, LabelHead):
            return documents.classify(question)
        if isinstance(documents, Bundle):
            return published_label(documents, question, labels)
        request = Request.of("label", question=question, labels=labels, method=method)
        return draw_label(request, documents, self._run(request, on_progress))

    aclassify = in_worker(classify)

    def whole_question(self, question: str, turns: Sequence[Turn]) -> str:
        """A question in words that stand by themselves, as documents are asked; it is free.

        Args:
            question: What is asked after these turns: "And on Fridays?"
            turns: Pairs of speaker and words, the user's and the assistant's. Public.

        Raises:
            ConfigurationError: A turn is no pair of words.
            EngineUnavailableError: The model, or the reader where there is one, does not answer.
        """
        return whole_question(question, turns, self.model, self.reader)

    def plan(self, documents: Documents, request: Request | None = None) -> Plan[Any]:
        """The plan of a request: its price, split by what it pays for. Nothing is searched or paid.

        Args:
            documents: As in ``answer``.
            request: What is asked for; an answer by default. One without a kind is of that which
                its question tells.

        Returns:
            Public numbers, which a run pays by; print them, or let a notebook show them.

        Raises:
            ConfigurationError: The settings do not fit the retriever, or cost more than the budget.
            MissingDocumentsError: ``documents`` is None.
        """
        request = request or Request.of("answer")
        plan, aim = planned(request, documents, self._run(request))
        left = self.budget_left(self.booked_under(documents))
        return replace(plan, budget_left=left, calls=None if self.reader is None else aim)

    def warm(
        self,
        documents: Iterable[Document | str | FrameworkDocument],
        *,
        on_progress: Progress | None = None,
    ) -> int:
        """Read documents before anybody asks, so that the first question finds them read.

        They go into the prefix cache, as answers to come will read them. Units of one passage
        only: the passages of longer ones are ordered by the question.

        Args:
            documents: Passages of a corpus.
            on_progress: Called with the part that is done.

        Returns:
            How many units are read now. For the owner of the documents: the count is private.

        Raises:
            ConfigurationError: A reader reads them, which needs the question.
        """
        if self.reader is not None:
            raise ConfigurationError(
                "a reader reads documents when a question is asked; leave the reader out to read "
                "them for a model beforehand"
            )
        question = self._run(Request.of("answer")).question("?")
        given = GivenDocuments(documents, privacy_unit=self.config.privacy_unit)
        experts = one_each(group_by_unit(given.retrieve("")))
        return read_ahead(question, experts, on_progress)

    @property
    def rehearsal(self) -> Rehearsal:
        """What the model can be trusted with, found out on public documents that ship with this.

        The first time takes minutes on a laptop's processor, and is kept for good. It is
        free: neither the corpus nor the ledger is looked at.

        Raises:
            EngineUnavailableError: The model's engine does not answer.
        """
        return rehearsal_of(self.model)

    def budget_left(self, corpus: str | None = None) -> float | None:
        """Rho (zCDP) left to the corpus or the caller, whichever is less; None without a limit.

        Public: it follows from the questions asked, not from what any unit has spent.

        Args:
            corpus: Name of the corpus; by default the one that the model was made with.
        """
        if self._ledger is None:
            return None
        name = corpus or self._corpus or NO_CORPUS
        return least_remaining(self._ledger.status(), name, self._caller)

    def public_numbers(self, answer: PrivateAnswer) -> dict[str, Any]:
        """Public numbers that may stand beside an answer, none of which counts inputs."""
        return {**answer.public_numbers(), "budget_left": self.budget_left(answer.corpus)}

    def _run(self, request: Request, on_progress: Progress | None = None) -> PrivateRun:
        return PrivateRun(
            config=self.config.asked_for(request.max_tokens, request.stop),
            model=self.model,
            reader=self.reader,
            template=self.template.instructed(request.system),
            form=self._form,
            knowledge=self._knowledge,
            randomness=self._randomness,
            corpus=self._corpus,
            ledger=self._ledger,
            caller=self._caller,
            on_progress=on_progress,
            paying=self._paying,
        )
