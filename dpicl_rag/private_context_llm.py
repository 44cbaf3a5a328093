"""PrivateContextLLM: private answers from documents. The one place that sees text and budget."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from dpicl_rag._other_libraries import NoOrdinaryModel
from dpicl_rag.answering.answer_cost import AnswerCost
from dpicl_rag.answering.async_stream import AsyncPrivateStream
from dpicl_rag.answering.ballots import hearing, naming_of
from dpicl_rag.answering.canonical_form import CanonicalForm, canonical_form
from dpicl_rag.answering.chooses_labels import ChoosesLabels
from dpicl_rag.answering.decoding import generate
from dpicl_rag.answering.experts import OpenAccount, gather, one_each
from dpicl_rag.answering.few_units import warn_of_few_units
from dpicl_rag.answering.follow_ups import Turn, whole_question
from dpicl_rag.answering.plan import answer_plan, priced_search, with_agreement
from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.answering.prompt_rows import bare_log_probs
from dpicl_rag.answering.proposals import proposal_for
from dpicl_rag.answering.public_reply import public_reply
from dpicl_rag.answering.question import Question
from dpicl_rag.answering.reading_ahead import read_ahead
from dpicl_rag.answering.remembered import form_of, released_before
from dpicl_rag.answering.settlement import Settlement
from dpicl_rag.answering.small_talk import is_small_talk
from dpicl_rag.answering.support import Support
from dpicl_rag.answering.whole_answers import whole_answer
from dpicl_rag.answering.worker_threads import in_worker
from dpicl_rag.configuration import PrivacyConfig, Settings
from dpicl_rag.documents import Document, group_by_unit
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.knowledge.answer_memory import AnswerMemory
from dpicl_rag.knowledge.public_knowledge import as_knowledge
from dpicl_rag.language_models.base import LanguageModel, Progress, speaks
from dpicl_rag.language_models.copy_bias import copying
from dpicl_rag.language_models.load_language_model import load_language_model
from dpicl_rag.language_models.readers.no_writer import NoWriter
from dpicl_rag.language_models.readers.notes import notes, polished
from dpicl_rag.ledger.account import open_account
from dpicl_rag.ledger.status import least_remaining
from dpicl_rag.loaders.framework_documents import FrameworkDocument
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.prompts import Prompt, PromptTemplate, plain
from dpicl_rag.results import PrivateAnswer
from dpicl_rag.retrieval.retrievers import Documents, GivenDocuments, as_retriever
from dpicl_rag.retrieval.search import Search
from dpicl_rag.surveys.counts_units import CountsUnits

if TYPE_CHECKING:
    from dpicl_rag.language_models.prefix_cache import PrefixCache
    from dpicl_rag.language_models.readers.base import Reader
    from dpicl_rag.language_models.readers.reply_cache import ReplyCache
    from dpicl_rag.ledger import Ledger

_NO_CORPUS = "default"  # where a ledger books lists


class PrivateContextLLM(ChoosesLabels, CountsUnits, NoOrdinaryModel):
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

    def for_strings(self) -> PrivateContextLLM:
        """The same for callers that pass on nothing but the text of an answer.

        A bare string does not say whether documents support it. So one that they do not support is
        replaced by a fixed sentence (``unsupported="refuse"``), unless that setting was made.
        """
        if "unsupported" in self.config.model_fields_set:
            return self
        return self.with_settings(unsupported="refuse")

    def answer(
        self,
        question: str,
        documents: Documents,
        *,
        turns: Sequence[Turn] = (),
        fresh: bool = False,
        on_progress: Progress | None = None,
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
            turns: The conversation before the question, as pairs of speaker and words. Public. A
                question that leans on it is put into whole words first: ``answer.question``.
            fresh: Ask the documents again where the memory has the answer to the same question.
            on_progress: Called with the part of the documents that is read, 0 to 1.

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
        begun = self.stream(question, documents, turns=turns, fresh=fresh, on_progress=on_progress)
        with begun as stream:
            for _ in stream:
                pass
            return stream.answer

    def stream(
        self,
        question: str,
        documents: Documents,
        *,
        turns: Sequence[Turn] = (),
        fresh: bool = False,
        on_progress: Progress | None = None,
    ) -> PrivateStream:
        """Answer a question piece by piece; see ``answer`` for arguments and errors.

        Returns:
            An iterator over pieces of text, sync and async; its ``answer`` holds the whole when it
            has ended.
        """
        search = self._search(documents)
        corpus, question = self._booked_under(search.corpus_name), plain(question)
        if is_small_talk(question):
            return public_reply(question, self.model, self.reader, self.config, corpus)
        able = self.reader is not None or speaks(self.model)
        config = with_agreement(self.config, search.stability, speaks=able)
        question = self.whole_question(question, turns)
        model = copying(self.model, config.copy_bias)
        asked = Question(question, self.template, model, config, self._form)
        prompt, allowance = asked.prompt, asked.allowance
        memory = self._memory(search)
        form = form_of(self.template, config.stop)
        reading = polish = None
        if self.reader is not None:
            reading = notes(self.reader, question, self.template.note)
            polish = partial(polished, self.reader, question) if config.polish else None
        if memory is not None and not fresh and (entry := memory.same(question, form)):
            return released_before(
                entry.answer, question, corpus, model.tokenizer, config.max_tokens, polish
            )
        known = [] if isinstance(model, NoWriter) else self._knowledge.recall(question)
        informed = model.digest(known, allowance)
        reader = copying(self.model, config.copy_bias, public=bool(informed))
        proposal, sought = None, question
        if informed and not fresh and config.unsupported != "ignore":
            proposal, sought = proposal_for(asked, memory, reader, informed, known)
        booked, proposed = self._ledger is not None, proposal is not None
        search = priced_search(config, search, booked=booked, proposed=proposed)
        opening, price = self._opening(search), search.rho(config.adjacency)
        counts = 2 if proposed else 1
        plan = answer_plan(config, search.stability, price, counts, booked=booked)
        warn_of_few_units(config, search, plan)
        gathered = gather(
            question=sought,
            search=search,
            plan=plan,
            open_account=opening,
            randomness=self._randomness,
            digest=lambda passages: model.digest(passages, allowance),
            reading=reading,
            on_progress=on_progress,
        )
        spend = gathered.spend  # an ended stream keeps no documents
        support = None
        if plan.support is not None:
            support = Support(
                plan.support,
                spend,
                self._randomness,
                proposal=proposal,
                found=gathered.count,
                bare=(lambda ids: sum(bare_log_probs(model, prompt, ids))) if informed else None,
            )
        whole = whole_answer(asked, plan, gathered, self._randomness)
        # Begins when the first piece is asked for, inside the stream's own clean-up.
        tokens = generate(
            model=reader,
            prompt=prompt,
            gathered=gathered,
            randomness=self._randomness,
            max_tokens=config.max_tokens,
            block_tokens=config.block_tokens,
            support=support,
            whole=whole,
            hear=hearing(asked, gathered.passages, notes=self.reader is not None),
            naming=naming_of(asked, proposal, gathered.passages),
            informed=informed,
            on_progress=on_progress if self.reader is None else None,
        )
        settlement = Settlement(
            config=config,
            spend=spend,
            corpus=corpus,
            support=support,
            whole=whole,
            recalled=len(known),
            keep=None if memory is None else partial(memory.keep, question, form),
            polish=polish,
        )
        return PrivateStream(
            tokens,
            model.tokenizer,
            stop=config.stop,
            max_tokens=config.max_tokens,
            start=self.template.answer_prefix,
            question=question,
            held=config.unsupported == "refuse" or polish is not None,
            finish=gathered.close,
            settle=settlement,
        )

    aanswer = in_worker(answer)

    def astream(
        self,
        question: str,
        documents: Documents,
        *,
        turns: Sequence[Turn] = (),
        fresh: bool = False,
        on_progress: Progress | None = None,
    ) -> AsyncPrivateStream:
        """``stream`` with the search and each draw in a worker thread; begins when it is read."""
        ask = partial(self.stream, turns=turns, fresh=fresh, on_progress=on_progress)
        return AsyncPrivateStream(lambda: ask(question, documents))

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

    def plan(self, documents: Documents) -> AnswerCost:
        """What an answer may cost, split by what it pays for. Nothing is searched or paid.

        Args:
            documents: As in ``answer``.

        Returns:
            Public numbers; print them, or let a notebook show them.

        Raises:
            ConfigurationError: The settings do not fit the retriever, or cost more than the budget.
            MissingDocumentsError: ``documents`` is None.
        """
        search = self._search(documents)
        return AnswerCost.of(
            self.config,
            search,
            self.budget_left(self._booked_under(search.corpus_name)),
            booked=self._ledger is not None,
            speaks=speaks(self.model),
            read=self.reader is not None,
        )

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
        config, prompt = self.config, self._prompt("?")
        allowance = prompt.allowance(self.model, config.unit_tokens, config.max_tokens)
        given = GivenDocuments(documents, privacy_unit=config.privacy_unit)
        experts = one_each(group_by_unit(given.retrieve("")))
        return read_ahead(self.model, prompt, experts, allowance, on_progress)

    def budget_left(self, corpus: str | None = None) -> float | None:
        """Rho (zCDP) left to the corpus or the caller, whichever is less; None without a limit.

        Public: it follows from the questions asked, not from what any unit has spent.

        Args:
            corpus: Name of the corpus; by default the one that the model was made with.
        """
        if self._ledger is None:
            return None
        name = corpus or self._corpus or _NO_CORPUS
        return least_remaining(self._ledger.status(), name, self._caller)

    def public_numbers(self, answer: PrivateAnswer) -> dict[str, Any]:
        """Public numbers that may stand beside an answer, none of which counts inputs."""
        return {**answer.public_numbers(), "budget_left": self.budget_left(answer.corpus)}

    def _prompt(self, question: str) -> Prompt:
        return Question(question, self.template, self.model, self.config).prompt

    def _search(self, documents: Documents) -> Search:
        """The search for the units that are asked; nothing is looked at yet."""
        search = as_retriever(documents, self.config.privacy_unit, self.config.units)
        if self.reader is None or self.config.max_calls is None:
            return search
        return search.limited(self.config.max_calls)

    def _memory(self, search: Search) -> AnswerMemory | None:
        """The memory of released answers, if it is that of the documents that are asked."""
        memory = self._knowledge.memory
        if memory is not None:
            memory.require_documents(self._corpus or search.corpus_name, search.filter)
        return memory

    def _opening(self, search: Search) -> OpenAccount:
        return partial(
            open_account,
            self._ledger,
            corpus=self._booked_under(search.corpus_name),
            source=search.corpus_name or None,
            caller=self._caller,
        )

    def _booked_under(self, corpus: str | None) -> str:
        return self._corpus or corpus or _NO_CORPUS
